"""Dispatches: how each call of a plan is carried out, decided by its agent, its run and its planner."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from activities.dispatch import Dispatcher
from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitExternalTools,
    Message,
    PlanResult,
    RunContext,
    ToolRequest,
    Toolset,
)
from sojourn.contracts.run_policy import Limits
from sojourn.policy import PolicyDecision
from sojourn.testing import ScriptedPlanner

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Pick(BaseModel):
    shelf: str


def dispatcher(*tools: Toolset, limits: Limits | None = None, **more: Any) -> Dispatcher:
    """Return the dispatcher of one plan, for an agent with these tools."""
    agent = Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")]), uses=list(tools))
    return Dispatcher(
        App(agents=[agent]), RunContext(run_id="r", agent_id="test.agent"), limits or Limits(), **more
    )


async def test_the_planners_expiry_of_an_external_call_overrides_the_tools(subtests: pytest.Subtests) -> None:
    """`expires_after` of the planner's wait overrides the tool's `timeout`; without either the wait does not expire."""
    rows = [(None, None, None), (None, DAY, DAY), (HOUR, None, HOUR), (HOUR, DAY, HOUR), (DAY, HOUR, DAY)]
    for of_planner, of_tool, expected in rows:
        with subtests.test(of_planner=of_planner, of_tool=of_tool, expected=expected):
            outside = Toolset("test.outside", external=True)
            outside.declare("pick", args=Pick, result=int, timeout=of_tool)
            wait = AwaitExternalTools(items=[], expires_after=of_planner)
            call = ToolRequest(name="test.outside.pick", payload={"shelf": "a"}, tool_call_id="c1")
            dispatch = await dispatcher(outside, external=wait).dispatch(call, call)
            assert (dispatch.kind, dispatch.expires_after) == ("external", expected)


@pytest.mark.parametrize("how", ["policy", "engine"])
async def test_the_hint_for_a_misspelt_call_names_only_tools_that_may_be_used(how: str) -> None:
    """A denied tool with a close name is not suggested: its planner was not offered it either."""
    tools = Toolset("test.tools")
    for name in ("wipe_disk", "wipe_desk"):
        tools.tool(name=name)(lambda: None)
    withheld = ["test.tools.wipe_disk"]
    limits = Limits(denied_tools=withheld) if how == "policy" else Limits()
    decision = PolicyDecision(disable_tools=withheld) if how == "engine" else None
    call = ToolRequest(name="test.tools.wipe_dusk", tool_call_id="c1")
    dispatch = await dispatcher(tools, limits=limits, decision=decision).dispatch(call, call)
    assert dispatch.result
    assert dispatch.result.retry_hint
    assert "wipe_desk" in dispatch.result.retry_hint.message
    assert "wipe_disk" not in str(dispatch.result)


@pytest.mark.parametrize(("depth", "may_nest"), [(0, True), (1, True), (2, False)])
async def test_agents_nest_as_deep_as_the_policy_says(depth: int, may_nest: bool) -> None:
    """A run at the last level that the policy allows starts no child run, and says why; those above it do."""
    helper = Agent("test.helper", planner=ScriptedPlanner([PlanResult.final("done")]))
    tools = helper.export("test.help", tools=[AgentTool("ask", user="{shelf}", args=Pick)])
    agent = Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")]), uses=[tools])
    run = RunContext(run_id="r", agent_id="test.agent", depth=depth)
    call = ToolRequest(name="test.help.ask", payload={"shelf": "a"}, tool_call_id="c1")
    dispatch = await Dispatcher(App(agents=[agent, helper]), run, Limits(max_depth=3)).dispatch(call, call)
    assert dispatch.kind == ("child" if may_nest else "answered")
    error = dispatch.result and dispatch.result.error
    assert may_nest or "nest at most 3 deep" in str(error)


class Unread(Sequence[Message]):
    """A long transcript that nobody may read from one end to the other."""

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("the transcript was read")


async def test_a_call_that_takes_no_files_reads_no_transcript() -> None:
    """A step of a run of thousands of calls costs what the first one did: only tools that take files look for them."""
    tools = Toolset("test.tools")
    tools.tool(name="look")(lambda: None)
    call = ToolRequest(name="test.tools.look", payload={}, tool_call_id="c1")
    assert (await dispatcher(tools, transcript=Unread()).dispatch(call, call)).kind == "activity"
