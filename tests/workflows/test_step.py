"""One step: every call is answered, in call order, whatever happens to it (SR-50, SR-71)."""

import asyncio
import time
from datetime import timedelta

from sojourn import (
    PlanResult,
    RateLimited,
    RunPolicy,
    ToolCallMeta,
    ToolFailed,
    Toolset,
    ToolUnavailable,
)
from sojourn.contracts.tool_call import ToolRequest
from sojourn.testing.scripted import ScriptedPlanner


def make_tools() -> tuple[Toolset, dict[str, int]]:
    tools, seen = Toolset("test.tools"), dict[str, int]()

    @tools.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool
    def block(seconds: float) -> str:
        """Block a thread."""
        time.sleep(seconds)
        return "done"

    @tools.tool(timeout=timedelta(seconds=0.2))
    async def hang() -> str:
        """Never answer."""
        seen["hang"] = seen.get("hang", 0) + 1
        await asyncio.Event().wait()
        return ""

    @tools.tool
    async def fail() -> str:
        """Raise with a cause."""
        seen["fail"] = seen.get("fail", 0) + 1
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error

    @tools.tool
    async def refuse() -> str:
        """Fail on purpose."""
        raise ToolFailed("the site is closed")

    @tools.tool
    async def busy(meta: ToolCallMeta) -> str:
        """Raise `RateLimited` each time."""
        seen["busy"] = seen.get("busy", 0) + 1
        raise RateLimited("slow down", retry_after=0.01)

    @tools.tool
    async def absent() -> str:
        """Be unavailable for a long time."""
        seen["absent"] = seen.get("absent", 0) + 1
        raise ToolUnavailable("maintenance", retry_after=3600)

    @tools.tool
    async def lie() -> int:
        """Return another type than declared."""
        return "no number"  # type: ignore[return-value]

    @tools.tool
    async def exits() -> str:
        """Try to end the worker."""
        raise SystemExit(3)

    @tools.tool
    async def whose(meta: ToolCallMeta) -> dict[str, str]:
        """Return the fields of the call's meta."""
        return {
            "run": meta.run_id,
            "call": meta.tool_call_id,
            "key": meta.idempotency_key,
            "turn": meta.turn_id,
        }

    return tools, seen


async def results_of(serve, *calls: ToolRequest, policy: RunPolicy | None = None):
    tools, seen = make_tools()
    kept = []

    async def answer(turn):
        kept.extend(turn.tool_results)
        return PlanResult.final("done")

    client = await serve(
        planner=ScriptedPlanner([PlanResult.calls(*calls), answer]), uses=(tools,), policy=policy
    )
    out = await client.execute("test.agent", "go")
    return kept, out, seen


def request(tool: str, **payload) -> ToolRequest:
    return ToolRequest(name=f"test.tools.{tool}", payload=payload)


async def test_every_call_is_answered_in_call_order(serve):
    """Good, bad, unknown and slow calls of one plan are answered in the order of the plan (SR-130)."""
    results, out, _ = await results_of(
        serve,
        request("block", seconds=0.3),
        request("add", a=1, b=2),
        request("add", a=1),
        request("ad", a=1),
    )
    assert [r.name for r in results] == [
        "test.tools.block",
        "test.tools.add",
        "test.tools.add",
        "test.tools.ad",
    ]
    assert [r.result for r in results] == ["done", 3, None, None]
    assert out.tool_calls == 4
    assert out.children_count == 4


async def test_invalid_payload_comes_back_with_a_hint_that_mends_it(serve):
    """A missing field is listed in the hint, whose example has every field and says which are invented (SR-86, SR-120, SR-128, SR-137)."""
    results, _, _ = await results_of(serve, request("add", a=1))
    hint = results[0].retry_hint
    assert hint.reason == "missing_fields"
    assert hint.missing_fields == ["b"]
    assert hint.prior_input == {"a": 1}
    assert (hint.example_input, hint.invented) == ({"a": 1, "b": 0}, ["/b"])
    assert hint.mended() is None


async def test_unknown_tool_is_unavailable_with_close_names(serve):
    """A call of a tool that does not exist is answered with the names of similar tools (SR-61)."""
    results, _, _ = await results_of(serve, request("ad", a=1))
    assert results[0].retry_hint.reason == "tool_unavailable"
    assert "test.tools.add" in results[0].retry_hint.message


async def test_exceptions_keep_their_chain(serve):
    """An exception becomes a ToolError with its causes (SR-87, SR-123), and is not retried."""
    results, _, seen = await results_of(serve, request("fail"))
    assert seen == {"fail": 1}
    chain = list(results[0].error.chain())
    assert [link.message for link in chain] == ["outer", "KeyError: 'inner'"]
    assert [link.code for link in chain] == ["RuntimeError", "KeyError"]


async def test_a_time_out_is_a_result(serve):
    """A tool over its time limit is answered `timeout` (SR-90), and runs once, since it may have written."""
    results, _, seen = await results_of(serve, request("hang"))
    assert results[0].retry_hint.reason == "timeout"
    assert seen == {"hang": 1}


async def test_transient_faults_are_retried_three_times_then_returned(serve):
    """With a short `retry_after` a call is attempted three times, with a long one once, and then answered (SR-90)."""
    tools, seen = make_tools()
    plan = PlanResult.calls(request("busy"), request("absent"))
    client = await serve(planner=ScriptedPlanner([plan, PlanResult.final("done")]), uses=(tools,))
    run = await client.start("test.agent", "go")
    await run.result()
    ends = {event.result.name: event.result async for event in run.events() if event.type == "tool_end"}
    busy, absent = ends["test.tools.busy"], ends["test.tools.absent"]
    assert (busy.retry_hint.reason, absent.retry_hint.reason) == ("rate_limited", "tool_unavailable")
    assert busy.retry_hint.retry_after == timedelta(seconds=0.01)
    assert seen == {"busy": 3, "absent": 1}
    assert busy.telemetry.attempts == 3
    assert absent.telemetry is None or absent.telemetry.attempts == 1  # None: it took no millisecond


async def test_planned_failures_wrong_results_and_exits_are_results(serve):
    """A ToolFailed, a result of another type and a SystemExit are answers, and the worker goes on (SR-115)."""
    results, _, _ = await results_of(
        serve, request("refuse"), request("lie"), request("exits"), request("add", a=1, b=1)
    )
    assert results[0].error.message == "the site is closed"
    assert results[1].retry_hint.reason == "malformed_response"
    assert results[2].error.code == "SystemExit" or "3" in results[2].error.message
    assert results[3].result == 2


async def test_a_tool_gets_the_meta_of_its_call(serve):
    """ToolCallMeta has the ids of run, turn and call, and an idempotency key (SR-62 to SR-66)."""
    results, out, _ = await results_of(serve, request("whose"))
    meta = results[0].result
    assert meta["run"] == out.run_id
    assert meta["call"] == results[0].tool_call_id
    assert meta["turn"] == "t1"
    assert len(meta["key"]) == 32


async def test_calls_run_at_once_up_to_the_limit(serve, until):
    """Calls of one plan run concurrently, never more than `max_parallel_calls` (SR-73)."""
    tools, running, most = Toolset("test.tools"), 0, 0

    @tools.tool
    async def work() -> int:
        """Count the calls in flight."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await until(lambda: most >= 3)
        await asyncio.sleep(0.05)  # a fourth call would start now
        running -= 1
        return most

    calls = [ToolRequest(name="test.tools.work") for _ in range(9)]
    client = await serve(
        planner=ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("ok")]),
        uses=(tools,),
        policy=RunPolicy(max_parallel_calls=3),
    )
    await client.execute("test.agent", "go")
    assert most == 3
