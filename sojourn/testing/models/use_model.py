"""Replace the model of an agent's planner for the time of a test."""

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
    """Replace the model of planners, and its fallbacks, inside the block.

    Yields the new model. It applies to workers in this process, from their next plan on.

    Args:
        of: A planner, an agent with one, or an app, for every model planner of its agents.
        model: A model, or its name, as `ModelPlanner` takes it.

    Raises:
        LookupError: There is no `ModelPlanner` in it.
    """
    planners = list(_planners(of))
    if not planners:
        raise LookupError(f"{_named(of)} has no ModelPlanner whose model could be another one")
    with ExitStack() as stack:
        for planner in planners:
            stack.enter_context(planner.override(model))
        yield model


def _planners(of: object) -> Iterator[ModelPlanner]:
    """Yield the model planners, each once, also inside a `RepairingPlanner`."""
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
