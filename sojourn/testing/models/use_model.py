"""use_model: another model in the place of an agent's, as long as a test needs it."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from pydantic_ai.models import Model

from sojourn.authoring.agent import Agent
from sojourn.authoring.app import App
from sojourn.models import ModelPlanner

__all__ = ["use_model"]

M = TypeVar("M", bound=str | Model)


@contextmanager
def use_model(of: App | Agent | ModelPlanner, model: M) -> Generator[M]:
    """Let a model plan inside the block, in the place of an agent's own and of its fallbacks; gives that model.

    Workers in this process notice at their next plan. In a block inside a block the inner model plans.

    Args:
        of: A planner; an agent with one; or an app, in which each of its planners then asks this model.
        model: An object, or a name, as `ModelPlanner` takes them.

    Raises:
        LookupError: no model plans there.
    """
    planners = list(_planners(of))
    if not planners:
        raise LookupError(f"{_named(of)} has no ModelPlanner whose model could be another one")
    with ExitStack() as stack:
        for planner in planners:
            stack.enter_context(planner.override(model))
        yield model


def _planners(of: object) -> Iterator[ModelPlanner]:
    """Every planner once; those inside a `RepairingPlanner` too."""
    if isinstance(of, App):
        found = (planner for id in of.list_agents() for planner in _planners(of.agent(id)))
        yield from {id(planner): planner for planner in found}.values()
    elif isinstance(of, Agent):
        yield from _planners(of.planner)
    elif isinstance(of, ModelPlanner):
        yield of
    elif inner := getattr(of, "inner", None):
        yield from _planners(inner)


def _named(of: object) -> str:
    return f"agent {of.id}" if isinstance(of, Agent) else f"this {type(of).__name__}"
