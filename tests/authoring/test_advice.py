"""Warnings of what a model lacks: a tool without a description or a return type."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from sojourn import Agent, AgentTool, App, ModelPlanner, PlanResult, Toolset, Turn
from sojourn.authoring import DefinitionWarning
from sojourn.repair import RepairingPlanner


async def plan(turn: Turn) -> PlanResult:
    return PlanResult.final("")


def bare(site: str): ...


def documented(site: str):
    """Look at a site."""


def typed(site: str) -> str: ...


def complete(site: str) -> Any:
    """Look at a site."""


def warned(function: Callable[..., Any], planner: Any) -> list[str]:
    """The warnings of an app whose agent has one tool."""
    tools = Toolset("sites.desk")
    tools.tool(name="look")(function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        App(agents=[Agent("sites.clerk", planner=planner, uses=[tools])])
    assert all((each.category, each.filename) == (DefinitionWarning, __file__) for each in caught)
    return [str(each.message) for each in caught]


DESCRIBE = "tool sites.desk.look: it has no description, and models choose tools by it; write a docstring, or description=..."
RETURN = (
    "tool sites.desk.look: it has no return type, so its result is not checked; write one, such as -> str"
)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(bare, [DESCRIBE, RETURN]), (documented, [RETURN]), (typed, [DESCRIBE]), (complete, [])],
)
def test_a_model_is_warned_of(function: Callable[..., Any], expected: list[str]) -> None:
    """An app warns at its own line of what its agents with a model lack, also behind a `RepairingPlanner`."""
    model = ModelPlanner("openai:gpt-5")
    assert warned(function, model) == expected
    assert warned(function, RepairingPlanner(model)) == expected


def test_a_planner_in_code_needs_no_docstring() -> None:
    """An agent whose planner is code is not warned of."""
    assert warned(bare, plan) == []
    assert warned(bare, RepairingPlanner(plan)) == []


def test_an_exported_agent_needs_a_description() -> None:
    """A tool that an agent implements has its own description, else the agent's, else a warning."""
    inner = Agent("sites.inner", planner=plan)
    asks = inner.export("sites.asks", tools=[AgentTool("ask", args=dict[str, str], description="")])
    outer = Agent("sites.outer", planner=ModelPlanner("openai:gpt-5"), uses=[asks])
    with pytest.warns(
        DefinitionWarning, match=r"^tool sites\.asks\.ask: it has no description.*description="
    ):
        App(agents=[outer, inner])
