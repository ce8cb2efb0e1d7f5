"""The history's limit: a run near it gets its last turn, whatever it is doing."""

import asyncio
import contextlib
import importlib
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.service import RPCError

from sojourn import (
    Agent,
    AwaitClarification,
    InvalidInput,
    Message,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
    WithArtifacts,
)
from sojourn.authoring.app import App
from sojourn.errors import SessionBusy
from tests.chain import replay

room = importlib.import_module("workflows.history_budget")


class Shelf(BaseModel):
    n: int


EXECUTED: list[int] = []
tools = Toolset("far.tools")


@tools.tool
async def step(n: int) -> int:
    """Return the number."""
    EXECUTED.append(n)
    return n


@tools.tool(artifacts={"note": str})
async def fetch(n: int) -> WithArtifacts[str]:
    """Return a tenth of what a result and its artifacts may hold."""
    EXECUTED.append(n)
    return WithArtifacts("x" * 99_000, note="y" * 78_000)


def last(turn) -> bool:
    return getattr(turn, "finalize", None) is not None


@pytest.fixture
def near(monkeypatch):
    """Lower the limit to 60 events."""
    monkeypatch.setattr(room, "MAX_EVENTS", 60)
    EXECUTED.clear()


async def ended(run, traces, client_app, received=None) -> None:
    """Assert that the history's limit ended the run, that its events equal its transcript, and that it replays."""
    output = await run.result()
    assert (output.reason, output.text) == ("history", "so far")
    messages = await traces(run).check(received)
    events = [event async for event in run.events(follow=False)]
    limits = [event.limit.reason for event in events if event.type == "limit_reached"]
    assert limits == ["history"]
    ends = [event.result.model_dump() for event in events if event.type == "tool_end"]
    results = [result.model_dump() for message in messages for result in message.tool_results]
    key = "tool_call_id"
    assert sorted((one[key], str(one["error"])) for one in ends) == sorted(
        (one[key], str(one["error"])) for one in results
    )
    assert (await run.status()).awaits == []
    await replay(run.client.temporal, run.id)


def app_of(plan) -> App:
    policy = RunPolicy(
        interrupts_allowed=True, max_tool_rounds=1_000, max_calls_per_step=100, max_parallel_calls=2
    )
    return App(agents=[Agent("test.agent", planner=plan, uses=[tools], policy=policy)])


async def test_a_planner_that_polls_for_ever_gets_a_last_turn(serve, traces, near):
    """Each poll adds a timer and a plan to the history; the last turn comes before the server terminates the run."""

    async def plan(turn):
        return PlanResult.final("so far") if last(turn) else PlanResult.wait(timedelta(milliseconds=1))

    app = app_of(plan)
    client = await serve(app)
    await ended(await client.start("test.agent", "go"), traces, app)


async def test_of_a_step_of_many_calls_the_rest_is_not_executed(serve, traces, near):
    """Calls in flight end, calls that have not begun are answered without, and none runs twice."""

    async def plan(turn):
        calls = [step.call(n=n) for n in range(100)]
        return PlanResult.final("so far") if last(turn) else PlanResult.calls(*calls)

    app = app_of(plan)
    client = await serve(app)
    run = await client.start("test.agent", "go")
    await ended(run, traces, app)
    assert 0 < len(EXECUTED) == len(set(EXECUTED)) < 100


async def test_answers_as_large_as_may_be_fit_beside_each_other(serve, traces, monkeypatch):
    """64 quick calls with answers of 1.8 MB do not reach the server's limit of 50 MB. Here all of it is a tenth."""
    assert room.LARGEST_ANSWER >= 1_000_000 + 780_000
    for limit in ("MAX_BYTES", "MOST_BYTES", "UNCOUNTED_MOST_BYTES", "CONTINUE_BYTES", "LARGEST_ANSWER"):
        monkeypatch.setattr(room, limit, getattr(room, limit) // 10)
    EXECUTED.clear()
    received = []

    async def plan(turn):
        received[:] = turn.messages
        calls = [fetch.call(n=n) for n in range(64)]
        return PlanResult.final("so far") if last(turn) else PlanResult.calls(*calls)

    policy = RunPolicy(max_calls_per_step=64, max_parallel_calls=64)
    app = App(agents=[Agent("test.agent", planner=plan, uses=[tools], policy=policy)])
    client = await serve(app)
    run = await client.start("test.agent", "go")
    await ended(run, traces, app, received)
    assert 9 < len(EXECUTED) == len(set(EXECUTED)) < 64
    described = await traces(run).handle.describe()
    assert described.raw_description.workflow_execution_info.history_size_bytes <= room.MOST_BYTES + 100_000


@pytest.mark.parametrize("name", ["provide_clarification", "unheard-of"])
@pytest.mark.parametrize("doing", ["waiting", "paused", "sleeping"])
async def test_a_flood_of_signals_ends_a_wait_not_the_run(serve, traces, near, status_when, doing, name):
    """A run that waits, sleeps or is paused gets its last turn when signals fill its history."""

    async def plan(turn):
        if last(turn):
            return PlanResult.final("so far")
        if doing == "sleeping":
            return PlanResult.wait(timedelta(days=1))
        return PlanResult.ask(AwaitClarification(id="q", question="which?"))

    app = app_of(plan)
    client = await serve(app)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits or status.phase == "waiting")
    if doing == "paused":
        await run.pause("for now")
    with contextlib.suppress(RPCError):  # the run has ended
        for n in range(80):
            await traces(run).handle.signal(name, n)
    await ended(run, traces, app)
    notices = [message.text for message in await run.transcript() if message.role == "system"]
    assert ("The wait of 86400 s was cut short." in notices) == (doing == "sleeping")


outside = Toolset("far.outside", external=True)
outside.declare("pick", args=Shelf, result=str)


def picks(count: int, received: list[Message]) -> App:
    async def plan(turn):
        received[:] = turn.messages
        calls = [ToolRequest(name="far.outside.pick", payload={"n": n}) for n in range(count)]
        if last(turn):
            return PlanResult.final("so far")
        return PlanResult.final("all") if turn.tool_results else PlanResult.calls(*calls)

    return App(agents=[Agent("test.agent", planner=plan, uses=[outside])])


async def test_large_results_from_outside_fit_into_the_history(serve, traces, status_when, monkeypatch):
    """Of ten signals with 245 KB each, those without room are not read, and the planner gets its last turn."""
    assert 2 * room.MAX_BYTES < 50_000_000  # the server's limit; a result that is read is recorded twice
    monkeypatch.setattr(room, "MAX_BYTES", 1_000_000)
    received = []
    app = picks(10, received)
    client = await serve(app)
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    for item in wait.items:
        sent = {
            "id": wait.id,
            "results": [{"tool_call_id": item.tool_call_id, "result": "x" * 245_000}],
        }
        with contextlib.suppress(RPCError):  # the run has ended
            await traces(run).handle.signal("provide_tool_results", sent)
    await ended(run, traces, app, received)
    results = [result for message in received for result in message.tool_results]
    assert len(results) == 10
    # Signals that come while a workflow task waits for its worker are read together.
    assert sum(result.ok for result in results) <= 7


async def test_the_sender_of_a_result_without_room_gets_an_error(serve, traces, status_when, monkeypatch):
    """A result that arrives when the history has no room to check it is refused, and its call is answered without it."""
    app = picks(1, [])
    client = await serve(app)
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    monkeypatch.setattr(room, "MAX_EVENTS", len(await traces(run).history()) + 1)  # full with the next task
    with pytest.raises(InvalidInput, match="reads no result of it"):
        await run.provide_tool_results(wait.id, [{"tool_call_id": wait.items[0].tool_call_id, "result": "x"}])
    await ended(run, traces, app)


async def test_large_results_at_once_end_no_run(serve, traces, status_when):
    """Eight updates of 700 KB at once are all accepted."""
    received = []
    client = await serve(picks(8, received))
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    sent = [
        run.provide_tool_results(wait.id, [{"tool_call_id": item.tool_call_id, "result": "x" * 700_000}])
        for item in wait.items
    ]
    await asyncio.gather(*sent)
    assert (await run.result()).text == "all"
    await traces(run).check(received)


async def test_a_large_message_is_refused_while_answers_in_flight_need_the_room(serve, traces, monkeypatch):
    """It would fill the history beside the largest answer of a call. A small message has room, and the large one has it afterwards."""
    begun, ends = asyncio.Event(), asyncio.Event()
    slow = Toolset("far.slow")

    @slow.tool
    async def hold() -> str:
        """Return late."""
        begun.set()
        await ends.wait()
        return "held"

    async def plan(turn):
        is_first = turn.messages[-1].text == "hold"
        return PlanResult.calls(hold.call()) if is_first else PlanResult.final(turn.messages[-1].text[:5])

    monkeypatch.setattr(room, "MOST_BYTES", room.LARGEST_ANSWER + 100_000)
    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[slow])]))
    session = client.session("test.agent", "large")
    first = await session.send("hold")
    await begun.wait()
    with pytest.raises(SessionBusy, match="send it again once they have ended"):
        await session.send("large" * 20_000, message_id="m1")
    small = await session.send("small")
    ends.set()
    await first.result()
    assert (await small.result()).text == "small"
    assert (await (await session.send("large" * 20_000, message_id="m1")).result()).text == "large"
    await traces(session.run).check()
