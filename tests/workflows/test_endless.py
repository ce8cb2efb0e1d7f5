"""A long run goes on in new executions by itself: nothing that it knows, promised or was told is lost or made twice."""

import asyncio
import importlib
import os
import uuid
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    AwaitClosed,
    Client,
    InvalidInput,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.contracts.ids import place_of
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import PAUSED
from sojourn.core.awaits.waits import Waits
from sojourn.core.history.fold import Fold
from sojourn.core.run.state import RunState
from sojourn.errors import RunCanceled
from sojourn.events import one_run
from sojourn.testing import skip_time
from sojourn.values.frozen import copy_with
from tests.chain import replay

room = importlib.import_module("workflows.history_budget")

tools = Toolset("long.tools")
made: list[int] = []


@tools.tool
async def note(n: int) -> int:
    """Note a number."""
    made.append(n)
    return n


def counting(count: int, *, ask_at: int = -1):
    """A planner that calls `note` with 0, 1, ... and answers with the numbers."""

    async def plan(turn: Turn) -> PlanResult:
        done = len(turn.results)
        if done == ask_at and turn.messages[-1].role != "user":
            return PlanResult.ask(AwaitClarification(question="on?", id="on"))
        usage = Usage(input_tokens=10, output_tokens=1)
        if done == count:
            return PlanResult.final(",".join(str(result.result) for result in turn.results))
        call = ToolRequest(name="long.tools.note", payload={"n": done}, tool_call_id=f"c{done}")
        return PlanResult.calls(call).model_copy(update={"usage": usage})

    return plan


MONTHS = int(os.environ.get("SOJOURN_CASES", "6"))
"""Months of a long run; a campaign takes 120."""

POLICY = RunPolicy(max_tool_calls=100_000, max_tool_rounds=100_000, interrupts_allowed=True)


@pytest.fixture
def short(monkeypatch):
    """Let a run continue after 60 events."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 60)


@pytest.fixture
def shorter(monkeypatch):
    """Let a run continue after 30 events."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 30)


async def executions(client: Client, run_id: str) -> list:
    """The executions of a run."""
    return [each async for each in client.temporal.list_workflows(f"WorkflowId = '{run_id}'")]


async def test_a_run_of_many_executions_is_one_run(shorter, serve, until):
    """Its answer, events, transcript, totals and status are those of a run of one execution."""
    made.clear()
    client = await serve(planner=counting(20), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go", labels={"team": "a"})
    seen = [event async for event in run.events()]
    output = await run.result()
    assert output.text == ",".join(map(str, range(20)))
    assert made == list(range(20))
    kinds = [event.type for event in seen]
    continued = kinds.count("run_continued")
    assert continued >= 5

    async def all_listed() -> bool:
        return len(await executions(client, run.id)) == continued + 1

    assert await until(all_listed)
    assert [kinds.count(kind) for kind in ("run_started", "tool_start", "tool_end", "run_completed")] == [
        1,
        20,
        20,
        1,
    ]
    places = [place_of(event.event_id) for event in seen if event.event_id]
    assert places == sorted(set(places))
    assert [event.result.result for event in seen if event.type == "tool_end"] == list(range(20))
    assert seen == [event async for event in run.events(follow=False)]
    assert (output.tool_calls, output.usage.input_tokens) == (20, 200)
    transcript = await run.transcript()
    assert len(transcript) == 42
    assert [m.tool_results[0].result for m in transcript if m.role == "tool"] == list(range(20))
    status = await run.status()
    assert (status.status, status.tool_calls, status.started_at) == ("completed", 20, seen[0].time)
    newest, *_, oldest = [
        await client.temporal.get_workflow_handle(run.id, run_id=each.run_id).describe()
        for each in await executions(client, run.id)
    ]
    assert await newest.memo() == {**await oldest.memo(), "started_at": seen[0].time.isoformat()}
    assert await oldest.memo()

    async def listed() -> bool:
        since = seen[0].time
        found = [
            each
            async for each in client.list_runs(agent_id="test.agent", since=since)
            if each.run_id == run.id
        ]
        later = client.list_runs(agent_id="test.agent", since=since + timedelta(seconds=0.001))
        assert run.id not in [each.run_id async for each in later]
        return [(each.status, each.started_at) for each in found] == [("completed", since)]

    assert await until(listed)


@pytest.mark.parametrize("carried", [100, 20_000])
async def test_an_execution_is_as_long_as_its_input_is_large(carried, shorter, serve, monkeypatch):
    """What two executions record of a state is a share of the rest, however large the state; each replays."""
    monkeypatch.setattr(room, "INPUT_BYTES", 10_000)
    count = counting(24)

    async def plan(turn: Turn) -> PlanResult:
        planned = await count(turn)
        return planned if turn.results else planned.model_copy(update={"memory": {"known": "x" * carried}})

    app = App(agents=[Agent("test.agent", planner=plan, uses=[tools], policy=POLICY)])
    client = await serve(app)
    run = await client.start("test.agent", "go")
    await run.result()
    limits = list[float]()
    for execution in await executions(client, run.id):
        history = await client.temporal.get_workflow_handle(run.id, run_id=execution.run_id).fetch_history()
        first = next(e for e in history.events if e.HasField("workflow_task_started_event_attributes"))
        begins_with = first.workflow_task_started_event_attributes.history_size_bytes
        began = history.events[0].workflow_execution_started_event_attributes
        limit = (
            room.CONTINUE_EVENTS * max(1, begins_with / room.INPUT_BYTES)
            if began.continued_execution_run_id
            else room.CONTINUE_EVENTS
        )
        if history.events[-1].HasField("workflow_execution_continued_as_new_event_attributes"):
            limits.append(limit)
            assert limit <= len(history.events) <= limit + 30
    await replay(client.temporal, run.id)
    assert len(limits) >= 2
    assert (max(limits) > 50) == (carried > 1_000)


async def test_answers_sent_while_a_run_goes_on(shorter, serve):
    """Steering and answers that are sent all the time reach the run, or are refused with a reason; none is lost or fails oddly."""
    made.clear()
    client = await serve(planner=counting(20), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")
    ending = asyncio.create_task(run.result())
    sent, refused = 0, ""
    while not ending.done():
        try:
            await run.stop_asking(f"long.tools.t{sent}")
            sent += 1
        except AwaitClosed as error:
            refused = str(error)
    assert (await ending).text == ",".join(map(str, range(20)))
    told = [event.text async for event in run.events() if event.type == "planner_note"]
    assert [text.partition(":")[0] for text in told] == [f"long.tools.t{n}" for n in range(sent)]
    assert sent > 5  # one that meets the end of an execution takes a second
    assert refused in (
        "",
        f"{run.id} has ended; it accepts no answers and no messages: start another run, or another session",
    )
    assert made == list(range(20))


async def test_signals_sent_while_a_run_goes_on(shorter, serve):
    """Each signal becomes an event, in whichever execution it arrives."""
    client = await serve(planner=counting(20), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")
    handle, ending, sent = client.temporal.get_workflow_handle(run.id), asyncio.create_task(run.result()), 0
    while not ending.done() and sent < 60:
        try:
            await handle.signal("stop_asking", {"tools": [f"long.tools.t{sent}"]})
        except RPCError:
            break  # the run has ended
        sent += 1
    await ending
    told = [event.text async for event in run.events() if event.type == "planner_note"]
    assert [text.partition(":")[0] for text in told] == [f"long.tools.t{n}" for n in range(sent)]
    assert "run_continued" in [event.type async for event in run.events()]


async def test_a_pause_and_a_cancel_hold_over_executions(shorter, serve, status_when):
    """A run that is paused stays paused with its reason; one that is asked to cancel is canceled, however close to going on."""
    client = await serve(planner=counting(500), uses=(tools,), policy=POLICY)
    runs = [await client.start("test.agent", "go") for _ in range(4)]
    for each, run in enumerate(runs):
        await asyncio.sleep(0.01 * each)
        await run.pause("let me look", by="ana")
    for run in runs:
        assert (await run.status()).paused == "let me look"
        await run.resume(messages="go on")
    for run in runs:
        await run.cancel("enough")
    for run in runs:
        with pytest.raises(RunCanceled, match="enough"):
            await run.result()
        kinds = [event.type async for event in run.events()]
        assert kinds.count("tool_start") == kinds.count("tool_end")
        assert (kinds.count("run_paused"), kinds.count("run_resumed"), kinds.count("run_canceled")) == (
            1,
            1,
            1,
        )


class Question(BaseModel):
    text: str


async def test_a_child_run_of_many_executions_is_one_child(shorter, serve):
    """The parent gets the child's one answer, with what all of its executions spent; events with children are complete."""
    child = Agent("test.child", planner=counting(16), uses=[tools], policy=POLICY)
    below = child.export("test.below", tools=[AgentTool("ask", args=Question)])

    async def plan(turn: Turn) -> PlanResult:
        if not turn.results:
            call = ToolRequest(name="test.below.ask", payload={"text": "count"}, tool_call_id="p1")
            return PlanResult.calls(call)
        return PlanResult.final(turn.results[-1].result)

    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[below], policy=POLICY), child]))
    run = await client.start("test.agent", "go")
    output = await run.result()
    assert output.text == ",".join(map(str, range(16)))
    assert output.telemetry.input_tokens == 160
    assert output.children_count == 17
    seen = [event async for event in run.events(children=True)]
    ends = [event for event in seen if event.type == "tool_end" and event.run_id != run.id]
    assert [event.result.result for event in ends] == list(range(16))
    assert len([event for event in seen if event.type == "run_continued"]) >= 3


async def test_limits_and_questions_count_over_executions(shorter, serve):
    """Limits count all executions, ids of questions are unique in the run, and an answer is used once."""
    client = await serve(
        planner=counting(12, ask_at=4), uses=(tools,), policy=POLICY.model_copy(update={"max_tool_calls": 8})
    )
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    await run.answer(wait, "yes", by="ana")
    output = await run.result()
    assert (output.reason, output.tool_calls) == ("max_tool_calls", 8)
    kinds = [event.type async for event in run.events()]
    assert kinds.count("await_answered") == 1
    assert kinds.count("run_continued") >= 2


async def awaiting(client: Client, run_id: str, status: str) -> list[str]:
    """What a run waits for, as it is listed with this status, which may take a second."""
    return [each.awaiting async for each in client.list_runs(status=status) if each.run_id == run_id]


async def flood(run, count: int, *, start: int = 0) -> None:
    """Send signals that change nothing but the history: bad answers, and releases of tools that nobody has."""
    handle = run.client.temporal.get_workflow_handle(run.id)
    for n in range(start, start + count):
        await handle.signal("stop_asking", {"tools": [f"long.tools.t{n}"]})
        await handle.signal("provide_clarification", {"id": "nothing", "answer": "x"})


async def test_a_question_stays_open_over_executions(shorter, serve, until):
    """Signals that pile up while a run waits end no wait: the question keeps its id, and its one answer is used once."""
    client = await serve(planner=counting(6, ask_at=3), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    await flood(run, 30)
    assert [each.id for each in (await run.status()).awaits] == [wait.id] == ["on"]
    assert await until(lambda: awaiting(client, run.id, "waiting")) == ["on"]
    await run.answer("yes", by="ana")
    with pytest.raises(AwaitClosed):
        await run.answer("on", "no")
    assert (await run.result()).text == "0,1,2,3,4,5"
    events = [event async for event in run.events()]
    kinds = [event.type for event in events]
    assert kinds.count("run_continued") >= 3
    assert (kinds.count("await_clarification"), kinds.count("await_answered")) == (1, 1)
    assert kinds.count("planner_note") == 60
    transcript = await run.transcript()
    assert [m.text for m in transcript if m.role in ("user", "assistant") and not m.tool_calls] == [
        "go",
        "on?",
        "yes",
        "0,1,2,3,4,5",
    ]


async def test_a_question_expires_by_its_first_day(shorter, serve):
    """The time that is left goes on over executions; it does not begin anew."""

    async def plan(turn: Turn) -> PlanResult:
        if turn.messages[-1].role == "user":
            return PlanResult.ask(
                AwaitClarification(question="on?", id="on", expires_after=timedelta(days=10))
            )
        return PlanResult.final(turn.messages[-1].text)

    client = await serve(planner=plan, policy=POLICY)
    run = await client.start("test.agent", "go")
    await run.until_waiting()
    began = (await run.status()).started_at
    for n in range(3):
        await flood(run, 20, start=20 * n)
        await skip_time(run, timedelta(days=3))
    assert [each.id for each in (await run.status()).awaits] == ["on"]
    await skip_time(run, timedelta(days=1, minutes=1))
    assert (await run.result()).text == "Nobody answered within 10 days, 0:00:00."
    events = [event async for event in run.events()]
    (expired,) = [event for event in events if event.type == "await_answered"]
    assert timedelta(days=10) <= expired.time - began < timedelta(days=10, minutes=5)
    assert [event.type for event in events].count("run_continued") >= 2


async def test_a_sleep_ends_by_its_first_day(shorter, serve):
    """A sleep of weeks that signals interrupt ends when it would have ended without them."""

    async def plan(turn: Turn) -> PlanResult:
        if turn.messages[-1].role == "user":
            return PlanResult.wait(timedelta(days=21))
        return PlanResult.final(turn.messages[-1].text)

    client = await serve(planner=plan, policy=POLICY)
    run = await client.start("test.agent", "go")
    for n in range(2):
        await flood(run, 20, start=20 * n)
        await skip_time(run, timedelta(days=10))
    began = (await run.status()).started_at
    assert (await run.status()).status in ("running", "waiting")
    await skip_time(run, timedelta(days=1, minutes=1))
    assert (await run.result()).text == "Waited 1814400 s."
    events = [event async for event in run.events()]
    assert timedelta(days=21) <= events[-1].time - began < timedelta(days=21, minutes=5)
    assert [event.type for event in events].count("run_continued") >= 2


async def test_a_paused_run_stays_paused_over_executions(shorter, serve, until):
    """A flood of signals lifts no pause."""
    made.clear()
    client = await serve(planner=counting(16), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")
    await run.pause("hold", by="ana")
    before = len(made)
    await flood(run, 30)
    status = await run.status()
    assert (status.status, status.paused) == ("paused", "hold")
    assert len(made) <= before + 1
    assert await until(lambda: awaiting(client, run.id, "paused")) == [PAUSED]
    await run.resume()
    assert (await run.result()).text == ",".join(map(str, range(16)))
    assert made == list(range(16))


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ({"continued": {}}, "continued.state: Field required"),
        ({"continued": {"state": 3}}, "continued.state"),
        (
            {
                "continued": {
                    "state": {"opening": {"agent_id": "test.agent", "messages": []}},
                    "transcript": [[1, "!"]],
                }
            },
            "Base64",
        ),
    ],
    ids=["empty", "kind", "transcript"],
)
async def test_a_state_that_somebody_made_up_is_refused(serve, argument, reason):
    """A start with a damaged state fails the run with what is wrong; it wedges nothing."""
    client = await serve(planner=counting(1), uses=(tools,), policy=POLICY)
    handle = await client.temporal.start_workflow(
        "AgentRun", argument, id=f"odd-{uuid.uuid4().hex}", task_queue=client.task_queue
    )
    with pytest.raises(RunFailed, match=reason):
        await client.get_run(handle.id).result()


async def test_the_status_is_that_of_the_history_in_every_execution(shorter, serve):
    """Read from the last execution alone, or from all, the state is the same, while the run waits and after its end."""
    client = await serve(planner=counting(16, ask_at=10), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    await flood(run, 15)
    await same_from_both_ends(client, run.id)
    await run.answer(wait, "yes")
    await run.result()
    state = await same_from_both_ends(client, run.id)
    assert state.executions > 4


def without_times(fold: Fold) -> Waits:
    """The waits of a folded state, without when each release was made."""
    waits = fold.state.waits
    return copy_with(waits, releases=tuple(copy_with(each, at=None) for each in waits.releases))


async def same_from_both_ends(client: Client, run_id: str) -> RunState:
    """The folded state of a run, from its first execution and from its last alone."""
    folds = [Fold(run_id), Fold(run_id)]
    ends = (
        await one_run.first_execution(client.temporal, run_id),
        await one_run.present_execution(client.temporal, run_id),
    )
    for fold, first in zip(folds, ends, strict=True):
        async for _ in one_run.records_of(client.temporal, fold, first, follow=False):
            pass
    whole, last = folds
    # Active time is by the workflow's clock in the one, and by the events' in the other. Only the run itself records
    # when it was told to stop asking.
    assert copy_with(whole.state, active=last.state.active, waits=without_times(whole)) == copy_with(
        last.state, waits=without_times(last)
    )
    assert whole.status() == last.status()
    return last.state


async def test_a_run_of_a_year(shorter, serve, until):
    """Each month the planner works, sleeps and asks; times and answers are right to the end."""
    made.clear()

    async def plan(turn: Turn) -> PlanResult:
        months = sum(message.role == "user" for message in turn.messages) - 1
        last = turn.messages[-1]
        if months == MONTHS:
            return PlanResult.final(f"{months} months, {len(turn.results)} notes")
        if last.role == "user":
            calls = [ToolRequest(name="long.tools.note", payload={"n": 5 * months + n}) for n in range(5)]
            return PlanResult.calls(*calls)
        if last.role == "tool":
            return PlanResult.wait(timedelta(days=20))
        # Without an expiry: the server moves the clock of a run further than asked where the run goes on meanwhile.
        return PlanResult.ask(AwaitClarification(question="on?", id="on"))

    client = await serve(planner=plan, uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")

    async def sleeps() -> bool:
        status = await run.status()
        return status.phase == "waiting" and not status.awaits

    for month in range(MONTHS):
        assert await until(sleeps)
        await skip_time(run, timedelta(days=20))
        (wait,) = await run.until_waiting()
        await skip_time(run, timedelta(days=10))
        await run.answer(wait, f"month {month}")
    assert (await run.result()).text == f"{MONTHS} months, {5 * MONTHS} notes"
    assert sorted(made) == list(range(5 * MONTHS))
    events = [event async for event in run.events()]
    assert events[-1].time - events[0].time >= timedelta(days=30 * MONTHS)
    assert [event.type for event in events].count("run_continued") >= MONTHS - 2


async def test_earlier_executions_may_be_deleted(shorter, serve, until):
    """After retention the events begin with the oldest execution that is left, with their ids; nothing else needs the others."""
    client = await serve(planner=counting(16), uses=(tools,), policy=POLICY)
    run = await client.start("test.agent", "go")
    text, whole = (await run.result()).text, [event async for event in run.events()]
    *_, second, first = await executions(client, run.id)
    for each in (first, second):
        await client.temporal.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=client.temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=each.run_id),
            )
        )

    async def left() -> list | None:
        events = [event async for event in run.events()]
        return events if len(events) < len(whole) and events[0].event_id.startswith("2-") else None

    gone, *rest = await until(left)
    assert (gone.type, gone.executions, gone.is_start) == ("run_continued", 2, True)
    assert rest == [event for event in whole if place_of(event.event_id) >= (2,)]
    with pytest.raises(InvalidInput, match=f"the oldest that Temporal has not deleted is {gone.event_id}"):
        await client.fork(run.id, at=whole[3].event_id)
    assert (await run.status()).tool_calls == 16
    assert len(await run.transcript()) == 34
    assert (await run.result()).text == text
