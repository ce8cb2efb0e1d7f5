"""Local tools: the same boundary in a local activity, with fewer events."""

import pytest
from temporalio.api.enums.v1 import EventType

from sojourn import Agent, App, PlanResult, RateLimited, ToolCallMeta, Toolset
from sojourn.errors import DefinitionError
from sojourn.testing import ScriptedPlanner


def made(tools, planner) -> App:
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools])])


async def test_a_local_tool_crosses_the_same_boundary(serve, traces):
    """Valid, invalid, raising and retried calls are answered as those of other tools, and have a full meta."""
    tools, metas = Toolset("test.local"), []

    @tools.tool(local=True, read_only=True)
    async def double(n: int, meta: ToolCallMeta) -> int:
        metas.append(meta)
        if n == 13:
            raise ValueError("unlucky")
        if n == 7 and meta.attempt == 1:
            raise RateLimited(retry_after=0.05)
        return 2 * n

    calls = [double.call(n=1), double.call(n="x"), double.call(n=13), double.call(n=7)]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("ok")])
    client = await serve(made(tools, planner))
    run = await client.start("test.agent", "go", session_id="s-1")
    out = await run.result()
    good, invalid, raised, retried = planner.turns[1].tool_results
    assert (good.result, retried.result) == (2, 14)
    assert [meta.attempt for meta in metas if meta.tool_call_id == retried.tool_call_id] == [1, 2]
    assert invalid.retry_hint.issues[0].constraint == "invalid_field_type"
    assert "unlucky" in raised.error.message
    assert {(m.run_id, m.session_id) for m in metas} == {(run.id, "s-1")}
    assert good.tool_call_id in {meta.tool_call_id for meta in metas}
    assert all(meta.idempotency_key for meta in metas)
    assert out.tool_calls == 4
    await traces(run).check()


async def test_the_events_of_a_local_call_are_folded(serve):
    """`tool_start` and `tool_end` come as for any call, with the result from the marker."""
    tools = Toolset("test.local")

    @tools.tool(local=True, idempotent=True, artifacts={"chart": list[int]})
    def double(n: int) -> int:
        return 2 * n

    planner = ScriptedPlanner([PlanResult.calls(double.call(n=2)), PlanResult.final("ok")])
    client = await serve(made(tools, planner))
    run = await client.start("test.agent", "go")
    await run.result()
    events = [event async for event in run.events()]
    kinds = [event.type for event in events]
    assert kinds.index("tool_start") < kinds.index("tool_end") < kinds.index("run_completed")
    (end,) = [event for event in events if event.type == "tool_end"]
    assert (end.result.name, end.result.result) == (double.id, 4)
    assert end.result.tool_call_id == planner.turns[1].tool_results[0].tool_call_id
    status = await run.status()
    assert [call.state for call in status.calls] == ["done"]


async def test_a_local_call_costs_at_most_eight_events(serve, traces):
    """Counted over twenty rounds of one call."""
    tools = Toolset("test.local")

    @tools.tool(local=True, read_only=True)
    def double(n: int) -> int:
        return 2 * n

    plans = [PlanResult.calls(double.call(n=n)) for n in range(20)]
    client = await serve(made(tools, ScriptedPlanner([*plans, PlanResult.final("ok")])))
    run = await client.start("test.agent", "go")
    await run.result()
    history = await traces(run).history()
    assert len(history) / 20 <= 8
    assert await traces(run).count(EventType.EVENT_TYPE_MARKER_RECORDED) == 20


@pytest.mark.parametrize("options", [{}, {"idempotent": False}, {"destructive": True}])
def test_a_tool_with_effects_is_not_local(options):
    """A local activity is repeated after a crash, so a local tool must be safe to repeat."""
    tools = Toolset("test.local")
    with pytest.raises(DefinitionError, match="can run twice"):
        tools.tool(local=True, name="x", **options)(lambda: None)


def test_a_local_tool_has_no_queue_of_its_own():
    """A local tool of a toolset with a task queue is a definition error: it runs on the run's own worker."""
    tools = Toolset("test.local", task_queue="gpu")
    with pytest.raises(DefinitionError, match="queue gpu"):
        tools.tool(local=True, read_only=True, name="x")(lambda: None)
