"""External tools: a program or a person outside executes a call, and the run waits for the result."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel

from sojourn import (
    AwaitClosed,
    AwaitExternalTools,
    ExternalCall,
    InvalidInput,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.errors import DefinitionError
from sojourn.testing.scripted import ScriptedPlanner


class Pick(BaseModel):
    shelf: str


class Picked(BaseModel):
    count: int


def warehouse(**options) -> Toolset:
    tools = Toolset("test.warehouse", external=True)
    tools.declare("pick", args=Pick, result=Picked, description="Take from a shelf.", **options)
    return tools


def pick(shelf: str, id: str = "") -> ToolRequest:
    return ToolRequest(name="test.warehouse.pick", payload={"shelf": shelf}, tool_call_id=id)


def planner(*calls) -> ScriptedPlanner:
    """A planner that makes these calls, then answers with their results."""

    def report(turn):
        results = [part for message in turn.messages for part in message.tool_results]
        return PlanResult.final(" | ".join(str(r.error or r.result) for r in results))

    return ScriptedPlanner([PlanResult.calls(*calls), report])


@pytest.fixture
async def waiting(serve, status_when):
    """A run that waits for three picks, and its wait."""
    client = await serve(
        planner=planner(pick("a", "c1"), pick("b", "c2"), pick("d", "c3")), uses=(warehouse(),)
    )
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    (wait,) = status.awaits
    assert isinstance(wait, AwaitExternalTools)
    return run, wait


async def test_results_come_in_parts(waiting, status_when, traces):
    """The run keeps the results that were sent and waits for the rest; a result counts once, and may be sent again."""
    run, wait = waiting
    assert [(item.tool_call_id, item.payload) for item in wait.items] == [
        ("c1", {"shelf": "a"}),
        ("c2", {"shelf": "b"}),
        ("c3", {"shelf": "d"}),
    ]
    assert (
        await run.provide_tool_results(wait.id, [{"tool_call_id": "c2", "result": {"count": 2}}]) == wait.id
    )
    await status_when(run, lambda status: [call.state for call in status.calls].count("done") == 1)
    assert (
        await run.provide_tool_results(wait.id, [{"tool_call_id": "c2", "result": {"count": 2}}]) == wait.id
    )
    with pytest.raises(AwaitClosed, match="answered before"):
        await run.provide_tool_results(None, [{"tool_call_id": "c2", "result": {"count": 3}}])
    await traces(run).handle.signal(
        "provide_tool_results", {"results": [{"tool_call_id": "c1", "error": "the shelf is empty"}]}
    )
    await run.provide_tool_results(None, [{"tool_call_id": "c3", "result": {"count": 1}}], by="robot")
    assert (await run.result()).text == "the shelf is empty | {'count': 2} | {'count': 1}"
    kinds = [event.type async for event in run.events()]
    assert (kinds.count("tool_start"), kinds.count("tool_end")) == (3, 3)
    assert (kinds.count("await_external_tools"), kinds.count("await_answered")) == (1, 1)
    await traces(run).check()


WRONG = [
    ([], "`results` is a list"),
    ([{"tool_call_id": "c9", "result": {}}], "no call .c9. waits here"),
    ([{"tool_call_id": "c1"}], "either `result` or `error`"),
    ([{"tool_call_id": "c1", "result": {}, "error": "x"}], "either `result` or `error`"),
    ([{"tool_call_id": "c1", "result": {"count": "many"}}], "does not fit its own schema"),
    (
        [{"tool_call_id": "c1", "result": {"count": 1}}, {"tool_call_id": "c1", "result": {"count": 1}}],
        "twice",
    ),
    ([{"tool_call_id": "c1", "result": "x" * 1_100_000}], "bytes"),
]


async def test_a_wrong_result_is_refused_and_still_awaited(waiting):
    """The sender gets the reason; the wait stays open, and accepts a right result."""
    run, wait = waiting
    for results, why in WRONG:
        with pytest.raises(InvalidInput, match=why):
            await run.provide_tool_results(wait.id, results)
    right = [{"tool_call_id": item.tool_call_id, "result": {"count": 1}} for item in wait.items]
    await run.provide_tool_results(wait.id, right)
    assert (await run.result()).text == " | ".join(["{'count': 1}"] * 3)


async def test_the_third_result_that_does_not_fit_answers_its_call(waiting, traces):
    """The third result that does not fit the tool's schema is the call's error, so that the run does not wait for ever."""
    run, wait = waiting
    answered = "; the call is answered with this"
    for is_third in (False, False, True):
        with pytest.raises(InvalidInput, match="does not fit its own schema") as refused:
            await run.provide_tool_results(wait.id, [{"tool_call_id": "c1", "result": 3}])
        assert (answered in str(refused.value)) is is_third
        assert ((await run.status()).calls[0].state == "failed") is is_third
    await run.provide_tool_results(
        wait.id, [{"tool_call_id": c, "result": {"count": 1}} for c in ("c2", "c3")]
    )
    assert "does not fit its own schema" in (await run.result()).text
    await traces(run).check()


async def test_a_refused_result_gives_no_more_time(serve, status_when, traces):
    """After a refusal the wait has the time that was left before it."""
    tools = warehouse(timeout=timedelta(hours=1))
    client = await serve(planner=planner(pick("a", "c1")), uses=(tools,))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    for _ in range(2):
        with pytest.raises(InvalidInput):
            await run.provide_tool_results(None, [{"tool_call_id": "c1", "result": 3}])
    await run.provide_tool_results(None, [{"tool_call_id": "c1", "result": {"count": 1}}])
    assert (await run.result()).text == "{'count': 1}"
    timers = [event.timer_started_event_attributes for event in await traces(run).history()]
    left = [timer.start_to_fire_timeout.ToTimedelta() for timer in timers if timer.timer_id]
    assert timedelta(hours=1) == left[0] > left[1] > left[2]
    assert len(left) == 3


async def test_a_hint_from_outside_is_about_its_call(serve, status_when):
    """The hint of a sent error gets the name of the call's tool; a malformed hint is left out, and the error stays."""
    client = await serve(planner=(script := planner(pick("a", "c1"), pick("b", "c2"))), uses=(warehouse(),))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    hint = {"reason": "invalid_arguments", "tool": "test.other.tool", "message": "No such shelf."}
    sent = [
        {"tool_call_id": "c1", "error": "empty", "retry_hint": hint},
        {"tool_call_id": "c2", "error": "empty", "retry_hint": {"reason": 5}},
    ]
    await run.provide_tool_results(None, sent)
    assert (await run.result()).text == "empty | empty"
    mended, unread = (result.retry_hint for result in script.turns[1].tool_results)
    assert (mended.tool, mended.message, unread) == ("test.warehouse.pick", "No such shelf.", None)


async def test_an_error_from_outside_may_have_a_code(serve, status_when):
    """A sent error is a text, or an object with a message and perhaps a code; a code that is no text is left out."""
    client = await serve(planner=(script := planner(pick("a", "c1"), pick("b", "c2"))), uses=(warehouse(),))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    sent = [
        {"tool_call_id": "c1", "error": {"message": "empty", "code": "out_of_stock"}},
        {"tool_call_id": "c2", "error": {"message": "empty", "code": 404}},
    ]
    await run.provide_tool_results(None, sent)
    assert (await run.result()).text == "empty | empty"
    assert [result.error.code for result in script.turns[1].tool_results] == ["out_of_stock", None]


async def test_a_result_that_is_not_sent_in_time_is_a_timeout(serve, status_when, traces):
    """Results that arrive in time are kept."""
    tools = warehouse(timeout=timedelta(seconds=4))
    client = await serve(planner=planner(pick("a", "c1"), pick("b", "c2")), uses=(tools,))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await run.provide_tool_results(None, [{"tool_call_id": "c1", "result": {"count": 1}}])
    assert (await run.result()).text.startswith("{'count': 1} | its result was not sent in time")
    ends = {e.result.tool_call_id: e.result async for e in run.events() if e.type == "tool_end"}
    assert ends["c2"].retry_hint.reason == "timeout"
    assert len(ends) == 2
    await traces(run).check()


async def test_a_planner_has_its_own_tools_executed_outside(serve, status_when, traces):
    """`AwaitExternalTools` names calls of the agent's own tools, and is validated against them."""
    tools = Toolset("test.tools")

    @tools.tool
    async def count(site: str) -> int:
        """Count."""
        raise AssertionError(site)

    items = [
        ExternalCall(tool="test.tools.count", payload={"site": "s-1"}, tool_call_id="c1"),
        ExternalCall(tool="test.tools.count", payload={}, tool_call_id="c2"),
    ]

    def report(turn):
        return PlanResult.final(" | ".join(str(r.error or r.result) for r in turn.tool_results))

    script = ScriptedPlanner([PlanResult.ask(AwaitExternalTools(id="count", items=items)), report])
    client = await serve(planner=script, uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    assert [item.tool_call_id for item in status.awaits[0].items] == ["c1"]  # c2 is invalid, and answered
    await run.provide_tool_results("count", [{"tool_call_id": "c1", "result": 4}])
    assert (await run.result()).text.startswith("4 | ")
    await traces(run).check()


async def test_cancel_while_waiting_outside(waiting):
    """Each call is answered `canceled`."""
    run, _ = waiting
    await run.cancel("enough")
    with pytest.raises(Exception, match="enough"):
        await run.result()
    ends = [event.result.error.code async for event in run.events() if event.type == "tool_end"]
    assert ends == ["canceled"] * 3


def test_an_external_toolset_has_no_code():
    """A tool with code in an external toolset is a definition error."""
    tools = Toolset("test.warehouse", external=True)
    with pytest.raises(DefinitionError, match="is external"):

        @tools.tool
        def pick(shelf: str) -> int:
            return len(shelf)


async def test_many_senders_at_once(waiting, traces):
    """Of eight senders of the same results at once, each call is answered once."""
    run, wait = waiting
    right = [{"tool_call_id": item.tool_call_id, "result": {"count": 1}} for item in wait.items]
    done = await asyncio.gather(
        *(run.provide_tool_results(wait.id, right) for _ in range(8)), return_exceptions=True
    )
    assert wait.id in done
    assert (await run.result()).text == " | ".join(["{'count': 1}"] * 3)
    await traces(run).check()
