"""Sums of sizes: whatever a plan or a step adds up to, no workflow task fails and every call is answered."""

import re

import pytest

from sojourn import PlanResult, RunFailed, ToolRequest, Toolset
from sojourn.testing.scripted import ScriptedPlanner

KB = 1_000


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def take(text: str) -> int:
        """Count characters."""
        return len(text)

    @tools.tool
    async def give(size: int, limit: int = 0) -> str:
        """Give so many characters."""
        return "x" * size

    return tools


def take(size: int) -> ToolRequest:
    return ToolRequest(name="test.tools.take", payload={"text": "x" * size})


def give(size: int) -> ToolRequest:
    return ToolRequest(name="test.tools.give", payload={"size": size})


async def run_step(serve, calls: list[ToolRequest]):
    """Run one step of these calls; return the run, its output and the turn in which its planner received the results."""
    turns = []

    async def answer(turn):
        turns.append(turn)
        return PlanResult.final("done")

    client = await serve(planner=ScriptedPlanner([PlanResult.calls(*calls), answer]), uses=(make_tools(),))
    run = await client.start("test.agent", "go")
    return run, await run.result(), turns[0]


@pytest.mark.parametrize(
    ("calls", "succeeded", "executed"),
    [
        pytest.param([take(1)] * 5_000, 64, 64, id="5,000 calls"),
        pytest.param([take(6 * KB)] * 900, 64, 64, id="900 calls of 6 KB"),
        pytest.param([take(100 * KB)] * 20, 9, 9, id="20 calls of 100 KB"),
        pytest.param([take(3_000 * KB), take(1)], 1, 2, id="a call of 3 MB"),
        pytest.param([give(900 * KB)] * 6, 6, 6, id="6 results of 900 KB"),
        pytest.param([give(75 * KB)] * 64, 64, 64, id="64 results of 75 KB"),
    ],
)
async def test_a_step_of_any_sum_is_answered_and_the_run_goes_on(serve, traces, calls, succeeded, executed):
    """However much one plan asks for or one step gives, each call has one answer and no task fails (SR-130)."""
    run, out, turn = await run_step(serve, calls)
    messages, got = await traces(run).check(turn.messages), turn.tool_results
    assert out.text == "done"
    assert out.tool_calls == executed
    assert [result.tool_call_id for result in got] == [call.tool_call_id for call in messages[1].tool_calls]
    assert sum(result.ok for result in got) == succeeded


async def test_a_final_text_of_3_mb_is_refused_with_its_size(serve, traces):
    """An answer too large to carry is a planner fault that names both sizes, and fails the run."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("x" * 3_000_000)]))
    run = await client.start("test.agent", "go")
    with pytest.raises(
        RunFailed, match=r"3,000,\d{3} bytes as JSON, at most 1,500,000 can be carried"
    ) as failed:
        await run.result()
    assert failed.value.code == "PlannerError"
    await traces(run).check()


async def test_results_are_recorded_once(serve, traces):
    """Forty results of 60 KB are in the history once: the next plan's input only refers to them."""
    run, _, turn = await run_step(serve, [give(60 * KB)] * 40)
    described = await traces(run).handle.describe()
    size = described.raw_description.workflow_execution_info.history_size_bytes
    results = sum(len(result.result) for result in turn.tool_results)
    assert results == 40 * 60 * KB
    assert results < size < 1.15 * results


async def test_a_result_of_3_mb_says_how_to_narrow_it(no_storage, serve):
    """A result too large to carry is `malformed_response`, and names the argument that narrows it (SR-90)."""
    _, _, turn = await run_step(serve, [give(3_000 * KB)])
    (result,) = turn.tool_results
    assert result.retry_hint.reason == "malformed_response"
    assert re.search(r"has 3,000,1\d\d bytes", result.error.message)
    assert "Narrow it with `limit`" in result.retry_hint.message


async def test_arguments_of_600_kb_are_refused(serve):
    """Arguments too large to carry are `invalid_arguments`: the call is not run, its payload not kept (SR-90)."""
    _, _, turn = await run_step(serve, [take(600 * KB)])
    (result,) = turn.tool_results
    assert result.retry_hint.reason == "invalid_arguments"
    assert "512,000" in result.retry_hint.message


UNREADABLE = {
    "nested 250 deep": lambda: nested(250),
    "nested 400 deep": lambda: nested(400),
    "an integer of 12,000 digits": lambda: 1 << 40_000,
    "half a surrogate pair": lambda: "\ud800",
    "an object": object,
}


async def test_a_result_that_cannot_be_read_back_is_malformed(serve, traces):
    """A result that could be written but not read again is `malformed_response`, and no workflow task fails (SR-90)."""
    tools = Toolset("test.tools")

    @tools.tool
    async def give(what: str):
        """Return a value that no JSON reader accepts."""
        return UNREADABLE[what]()

    calls = [give.call(what=what) for what in UNREADABLE]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    client = await serve(planner=planner, uses=(tools,))
    run = await client.start("test.agent", "go")
    await run.result()
    reasons = [result.retry_hint.reason for result in planner.turns[1].tool_results]
    assert dict(zip(UNREADABLE, reasons, strict=True)) == dict.fromkeys(UNREADABLE, "malformed_response")
    await traces(run).check()


def nested(depth: int) -> dict:
    value: dict = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value
