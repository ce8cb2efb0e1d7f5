"""Tool error handling: what repeated failures of a run's tools lead to (ME-8 to ME-10, ME-15, ME-19).

The port of `function_call_error_handler_spec`: the core's own rules are in `tests/core/safeguards/test_error_patterns.py` and
`tests/core/safeguards/test_judge.py`, the network's in `tests/network/test_network.py`.
"""

import pytest

from sojourn import PlanResult, RateLimited, RunPolicy, ToolRequest, Toolset, ToolUnavailable

FONTS = ["findfont: Font family 'Arial' not found", "cannot find font", "Missing required font"]
MIXED = ["cannot find font", "cannot find font", "No module named pandas", "cannot find font"]
MEMORY = ["Out of memory", "Cannot allocate memory", "Disk full"]
NETWORK = [f"a.example.org: {fault}" for fault in ("connection refused", "no route to host", "timeout")]
OTHER = ["the moon is full", "the tide is low", "a cat sat here"]

FREE = RunPolicy(max_consecutive_failed_tool_calls=None)
"""Without the limit on failed steps in a row, so that only similar failures count."""


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def fail(how: str) -> str:
        """Fail with this message."""
        raise RuntimeError(how)

    @tools.tool
    async def work(how: str) -> str:
        """Succeed."""
        return how

    @tools.tool(idempotent=False)
    async def reach(how: str) -> str:
        """Be unavailable, or over a limit."""
        raise (RateLimited(how) if how == "limit" else ToolUnavailable(how))

    return tools


def call(tool: str, how: str) -> ToolRequest:
    return ToolRequest(name=f"test.tools.{tool}", payload={"how": how})


class Tries:
    """A planner that makes these calls, step by step, then answers; keeps its last turn."""

    def __init__(self, *calls) -> None:
        self.calls = calls
        self.last = None

    async def plan_start(self, turn):
        return self.plan(turn)

    async def plan_resume(self, turn):
        return self.plan(turn)

    def plan(self, turn) -> PlanResult:
        self.last = turn
        made = sum(bool(message.tool_calls) for message in turn.messages)
        if turn.finalize or made == len(self.calls):
            return PlanResult.final(turn.finalize.reason if turn.finalize else "answered")
        step = self.calls[made]
        return PlanResult.calls(*(step if isinstance(step, list) else [step]))


async def played(serve, *calls):
    planner = Tries(*calls)
    client = await serve(planner=planner, uses=(make_tools(),), policy=FREE)
    run = await client.start("test.agent", "go")
    out = await run.result()
    stopped = [event.limit async for event in run.events() if event.type == "retries_stopped"]
    return planner, run, out, stopped


@pytest.mark.parametrize(
    ("messages", "category"),
    [
        (FONTS, "font_error"),
        (MEMORY, "resource_error"),
        (NETWORK, "network_error"),
        ([OTHER[0]] * 3, "generic_error"),
    ],
    ids=["fonts", "resources", "network", "the same unknown error"],
)
async def test_the_third_similar_failure_stops_the_retrying(serve, traces, messages, category):
    """One event with the suggestion, a final turn, and nothing called after it (ME-4, ME-5, ME-9)."""
    planner, run, out, stopped = await played(
        serve, *(call("fail", message) for message in [*messages, "never made"])
    )
    assert (out.text, out.reason, out.tool_calls) == ("retries_stopped", "retries_stopped", 3)
    (limit,) = stopped
    assert "What you can do:" in limit.message
    assert messages[-1] in limit.message
    assert planner.last.tools == []
    assert planner.last.finalize.message == limit.message
    safeguards = (await run.status()).safeguards
    assert (safeguards.category, safeguards.similar, safeguards.stopped) == (category, 3, True)
    assert [error["message"] for error in safeguards.errors] == messages
    await traces(run).check()


@pytest.mark.parametrize(
    "steps",
    [
        [call("fail", message) for message in MIXED],
        [call("fail", message) for message in OTHER],
        [[call("fail", f"{message}: host {n}") for n in range(5)] for message in NETWORK[:2]],
    ],
    ids=[
        "one of another kind between",
        "unrelated errors",
        "five at once are one",
    ],
)
async def test_fewer_than_three_similar_failures_in_a_row_do_not_stop_the_run(serve, steps):
    """Only similar failures in a row count, and several in one step count once (ME-4)."""
    _, _, out, stopped = await played(serve, *steps)
    assert (out.reason, stopped) == ("answered", [])


async def test_a_success_of_the_tool_clears_its_count(serve):
    """Failures before a success of the same tool do not count."""

    class Flaky:
        count = 0

    tools = Toolset("test.tools")

    @tools.tool
    async def fail(how: str) -> str:
        """Fail, except the second time."""
        Flaky.count += 1
        if Flaky.count == 2:
            return how
        raise RuntimeError(how)

    planner = Tries(*(call("fail", font) for font in [FONTS[0], "fine", FONTS[1], FONTS[2]]))
    client = await serve(planner=planner, uses=(tools,), policy=FREE)
    assert (await client.execute("test.agent", "go")).reason == "answered"


@pytest.mark.parametrize(
    "step",
    [call("reach", "Connection refused"), call("reach", "limit"), call("none", "x"), call("work", 3)],
    ids=["unavailable", "rate limited", "unknown tool", "bad arguments"],
)
async def test_every_answer_of_a_tool_is_routed_to_the_detector(serve, step):
    """Whatever answers a call, its failure counts: the tool, the boundary or the catalogue (ME-8)."""
    _, run, out, _ = await played(serve, step, step, step, step)
    assert (out.reason, out.tool_calls) == ("retries_stopped", 3)
    assert len((await run.status()).safeguards.errors) == 3


async def test_each_run_starts_clean(serve):
    """Failures of one run do not count in the next, of the same session or another (ME-2, ME-10)."""
    planner = Tries(call("fail", FONTS[0]), call("fail", FONTS[1]))
    client = await serve(planner=planner, uses=(make_tools(),), policy=FREE)
    for session in ("a", "a", "b"):
        run = await client.start("test.agent", "go", session_id=session)
        assert (await run.result()).reason == "answered"
        assert (await run.status()).safeguards.similar == 2


async def test_a_loop_is_named(serve):
    """A cycle of the same calls with the same results ends the run, with the cycle in the message (ME-19)."""
    _, run, out, stopped = await played(serve, *([call("work", "a"), call("work", "b")] * 6))
    assert out.reason == "retries_stopped"
    assert out.tool_calls == 10
    assert "test.tools.work → test.tools.work → test.tools.work" in stopped[0].message
    assert (await run.status()).safeguards.loop
