"""docs/waiting.md: its module works as written, and its claims are tested."""

import asyncio
import json
import re
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata

import sojourn.client.sending
from sojourn import (
    Agent,
    App,
    AwaitClosed,
    Client,
    InvalidInput,
    PlanResult,
    RunFailed,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    Toolset,
    Worker,
)
from sojourn.contracts import ToolInput
from sojourn.contracts.event import EVENT_CLASSES
from sojourn.errors import AlreadyAnswered, NoWorker
from sojourn.testing import ScriptedPlanner

PAGE = (Path(__file__).parents[2] / "docs" / "waiting.md").read_text()
ASKS_NOBODY = RunPolicyOverride(interrupts_allowed=False)


@pytest.fixture
def depot(module_of):
    """The module of the page."""
    return module_of("waiting.md", "depot")


@pytest.fixture
def briefly(depot, monkeypatch):
    """Make every duration of the page's planners 0.2 s."""
    monkeypatch.setattr(depot, "timedelta", lambda **_: timedelta(seconds=0.2))


@pytest.fixture
def waiting(serve, depot, status_when):
    """Start a run of an agent of the page, and wait until it waits; returns the run and its open waits."""

    async def start(agent, text, count=1):
        client = await serve(depot.app)
        run = await client.start(f"depot.{agent}", text)
        status = await status_when(run, lambda status: len(status.awaits) == count)
        return run, status.awaits

    return start


# Two kinds of waiting.


async def test_a_call_that_takes_its_time_needs_nothing(serve):
    """Two calls of one plan run at once under the default policy: each waits for the other (SR-73, SR-75)."""
    tools, both = Toolset("test.tools"), asyncio.Barrier(2)

    @tools.tool
    async def meet(name: str) -> str:
        """Wait for the other call."""
        await both.wait()
        return name

    async def join(turn):
        return PlanResult.final(" ".join(result.result for result in turn.tool_results))

    planner = ScriptedPlanner([PlanResult.calls(meet.call(name="a"), meet.call(name="b")), join])
    client = await serve(planner=planner, uses=(tools,), policy=RunPolicy())
    assert (await client.execute("test.agent", "go")).text == "a b"


async def test_a_question_needs_the_policy(serve, depot):
    """With `interrupts_allowed=False` a question is a planner error: the planner receives the reason, and at last the run fails (SR-74)."""
    client = await serve(depot.app)
    out = await client.execute("depot.buyer", "valve", policy=ASKS_NOBODY)
    assert "Nothing is ordered. The last plan was refused: this agent may not ask" in out.text
    with pytest.raises(RunFailed, match="interrupts_allowed=False"):
        await client.execute("depot.by-hand", "valve", policy=ASKS_NOBODY)


async def test_waits_that_need_no_policy(serve, depot, briefly, status_when):
    """A sleep, a pause and a wait for external results work with `interrupts_allowed=False`."""
    client = await serve(depot.app)
    assert (await client.execute("depot.watcher", "go", policy=ASKS_NOBODY)).text == "A day has passed."
    run = await client.start("depot.picker", "a", policy=ASKS_NOBODY)
    await status_when(run, lambda status: status.awaits)
    await run.pause()
    await run.resume()
    await depot.deliver(client, run.id)
    assert (await run.result()).text == "{'count': 3}"


def test_the_table_of_waits_says_what_needs_the_policy(rows):
    """Four of the eight waits need no `interrupts_allowed`, and the page advises on it before the table (SR-76)."""
    needs = [cells[-1] for cells in rows("waiting.md", "has to stop at all")]
    assert needs == ["no", "no", "no", "yes", "yes", "yes", "yes", "no"]


# Ask.


async def test_the_page_answers_its_own_question(waiting, depot):
    """The question has a form with the schema of the tool's field, and the answer by field places the order."""
    run, (question,) = await waiting("buyer", "valve")
    assert question.id == "how-many"
    assert question.form == {
        "type": "object",
        "properties": {
            "count": {
                "description": "How many",
                "maximum": 100,
                "minimum": 1,
                "title": "Count",
                "type": "integer",
            }
        },
        "required": ["count"],
        "additionalProperties": False,
    }
    await depot.answer(run.client, run.id)
    assert (await run.result()).text == "5 x valve ordered"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"count": 5}, "5 x valve ordered"),
        ('{"count": 5}', "5 x valve ordered"),
        ("5", "5 x valve ordered"),
        ("a dozen", 'invalid arguments for depot.orders.place: `count` must be an integer, got "a dozen"'),
    ],
    ids=["by field", "JSON", "the only field", "words"],
)
async def test_answers_that_are_accepted(waiting, answer, text):
    """An answer is values by field, or a text: JSON, the value of the only field, or free text."""
    run, _ = await waiting("buyer", "valve")
    await run.answer(None, answer)
    assert (await run.result()).text == text


async def test_answers_that_are_refused(waiting):
    """A bad answer raises InvalidInput, and the question stays open."""
    run, _ = await waiting("buyer", "valve")
    for answer in ({"count": "many"}, {"count": 101}, '{"count": 0}', "", {}, "x" * 64_001):
        with pytest.raises(InvalidInput):
            await run.answer("how-many", answer)
    await run.answer("how-many", "7", by="ana")
    assert (await run.result()).text == "7 x valve ordered"


async def test_an_answer_is_used_once_and_never_kept(waiting):
    """A repeated answer changes nothing; another answer, an answer to no open question and one after the run's end are refused."""
    run, _ = await waiting("buyer", "valve")
    with pytest.raises(AwaitClosed):
        await run.answer("how-many#2", "early")
    assert await run.answer("how-many", "5") == await run.answer("how-many", "5") == "how-many"
    with pytest.raises(AwaitClosed):
        await run.answer("how-many", "6")
    assert (await run.result()).text == "5 x valve ordered"
    with pytest.raises(AlreadyAnswered, match="was already answered"):
        await run.answer("how-many", "7")


@pytest.mark.parametrize(
    ("how", "last", "turn_id"),
    [
        ("text", ("user", "a dozen"), "t2"),
        ("fields", ("user", '{"count": 5}'), "t2"),
        ("declined", ("system", "The question was declined: too dear"), "t2"),
        ("expired", ("system", "Nobody answered within 0:00:00.200000."), "t1"),
    ],
)
async def test_what_the_planner_sees(serve, depot, monkeypatch, how, last, turn_id):
    """The planner receives the last message, the reminders and the turn of the page's table."""
    planner = ScriptedPlanner([depot.buy, PlanResult.final("seen")])
    depot.buyer.planner = planner
    if how == "expired":
        monkeypatch.setattr(depot, "timedelta", lambda **_: timedelta(seconds=0.2))
    client = await serve(depot.app)
    run = await client.start("depot.buyer", "valve")
    answers = {"text": "a dozen", "fields": {"count": 5}}
    async for event in run.events():
        if event.type == "await_clarification" and how in answers:
            await run.answer(None, answers[how])
        elif event.type == "await_clarification" and how == "declined":
            await run.decline(None, "too dear")
    turn = planner.turns[-1]
    assert (turn.messages[-1].role, turn.messages[-1].text) == last
    assert turn.reminders == ([last[1]] if last[0] == "system" else [])
    assert turn.messages[-2].text == "How many shall I order?"
    assert turn.run.turn_id == turn_id


def test_the_table_of_what_the_planner_sees(rows):
    """The rows of the table are the cases of the test before, with the same turns."""
    table = [
        (cells[0].split()[0], cells[2].split(":")[0])
        for cells in rows("waiting.md", "### What the planner sees")
    ]
    assert table == [
        ("answered", "a new one"),
        ("answered", "a new one"),
        ("declined", "a new one"),
        ("expired", "the same"),
    ]


async def test_the_policy_asks_by_itself(waiting):
    """With `on_missing_fields="await_clarification"` the run asks for the missing field, and the planner uses the answer."""
    run, (question,) = await waiting("clerk", "valve")
    assert (question.missing_fields, question.restrict_to_tool) == (["count"], "depot.orders.place")
    await run.answer(None, {"count": 2})
    assert (await run.result()).text == "2 x valve ordered"


@pytest.mark.parametrize(
    ("override", "reason"),
    [(ASKS_NOBODY, "answered"), (RunPolicyOverride(on_missing_fields="finalize"), "missing_fields")],
    ids=["nobody may be asked", "finalize"],
)
async def test_missing_fields_without_a_question(serve, depot, override, reason):
    """A run that may not ask returns the error to the planner; with `finalize` the planner gets its last turn."""
    client = await serve(depot.app)
    out = await client.execute("depot.clerk", "valve", policy=override)
    assert "`count` is required" in out.text
    assert out.reason == reason


# Temporal's own tools.


@pytest.mark.parametrize(
    ("holding", "text"),
    [
        ('"answer"', "5 x valve ordered"),
        ('"declined"', "Nothing is ordered. The question was declined: not needed"),
    ],
)
async def test_the_lines_of_the_page_answer(waiting, temporal, lines, holding, text):
    """Each signal of the page, sent with the `temporal` command, is an answer."""
    run, _ = await waiting("buyer", "valve")
    (line,) = lines("waiting.md", holding)
    assert (await temporal(line, run))[0] == 0
    assert (await run.result()).text == text


async def test_temporal_shows_the_open_wait(waiting, temporal, lines, traces, until):
    """`workflow list` finds the run, the query returns its status, and the details hold the command line that answers."""
    run, _ = await waiting("buyer", "valve")
    (listing,), (query,) = lines("waiting.md", "workflow list"), lines("waiting.md", "--type status")

    async def listed() -> bool:
        return run.id in (await temporal(listing, run))[1]

    await until(listed)
    status, printed = await temporal(query, run)
    assert (status, '"how-many"' in printed) == (0, True)
    metadata = await traces(run).handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    (line,) = re.findall(r"^temporal workflow signal .*$", metadata.current_details, re.MULTILINE)
    assert (await temporal(line.replace("YOUR ANSWER", "9"), run))[0] == 0
    assert (await run.result()).text == "9 x valve ordered"


async def test_an_update_says_why_it_is_refused(waiting, temporal, lines):
    """A bad answer by signal becomes a note; by `update execute` the command fails and prints the reason."""
    run, _ = await waiting("buyer", "valve")
    (line,) = lines("waiting.md", '"answer"')
    bad = line.replace("5", '"many"')
    assert (await temporal(bad, run))[0] == 0
    (note,) = (await run.status()).notes
    assert "count must be an integer, not a string" in note
    status, printed = await temporal(bad.replace("workflow signal", "workflow update execute"), run)
    assert status != 0
    assert "count must be an integer, not a string" in printed
    status, printed = await temporal(line.replace("workflow signal", "workflow update execute"), run)
    assert (status, "how-many" in printed) == (0, True)
    assert (await run.result()).text == "5 x valve ordered"


# Results from outside.


async def test_results_come_in_parts(waiting):
    """Results may come in parts, as errors and repeated; a second or misfit result is refused, and each call is answered once."""
    run, (wait,) = await waiting("picker", "a b c")
    first, second, third = (item.tool_call_id for item in wait.items)
    part = [{"tool_call_id": first, "result": {"count": 2}}]
    assert await run.provide_tool_results(wait.id, part) == await run.provide_tool_results(wait.id, part)
    with pytest.raises(AwaitClosed):
        await run.provide_tool_results(wait.id, [{"tool_call_id": first, "result": {"count": 9}}])
    await run.provide_tool_results(wait.id, [{"tool_call_id": second, "error": "the shelf is empty"}])
    wrong = [{"tool_call_id": third, "result": "many"}]
    for _ in range(3):
        with pytest.raises(InvalidInput, match="does not fit"):
            await run.provide_tool_results(wait.id, wrong)
    (_, failed, misfit) = [e.result async for e in run.events() if e.type == "tool_end"]
    assert (failed.error.message, misfit.retry_hint.reason) == ("the shelf is empty", "malformed_response")
    assert (await run.result()).text.startswith("{'count': 2} | the shelf is empty | ")


async def test_a_result_that_is_too_large(waiting):
    """A result of more than 1,000,000 bytes raises InvalidInput, which says to send a smaller one."""
    run, (wait,) = await waiting("picker", "a")
    with pytest.raises(InvalidInput, match="one result has at most 1,000,000; send a smaller one"):
        await run.provide_tool_results(
            wait.id, [{"tool_call_id": wait.items[0].tool_call_id, "result": "x" * 1_000_001}]
        )


async def test_a_result_that_is_not_sent_in_time(serve, depot):
    """A call of an external tool is answered with `timeout` when its time is over."""
    tools = Toolset("depot.slow", external=True)
    slow = tools.declare("pick", args=depot.Pick, result=depot.Picked, timeout=timedelta(seconds=0.2))
    planner = ScriptedPlanner([PlanResult.calls(slow.call(depot.Pick(shelf="a"))), PlanResult.final("done")])
    client = await serve(planner=planner, uses=(tools,))
    await client.execute("test.agent", "go")
    assert planner.turns[1].tool_results[0].retry_hint.reason == "timeout"


async def test_a_planner_has_its_own_tool_executed_outside(waiting):
    """The call of an ordinary tool becomes an external wait, and the result that is sent is the call's."""
    run, (wait,) = await waiting("by-hand", "valve")
    assert (wait.id, wait.items[0].tool, wait.expires_after) == (
        "by-hand",
        "depot.orders.place",
        timedelta(hours=8),
    )
    sent = [{"tool_call_id": wait.items[0].tool_call_id, "result": "one by hand"}]
    await run.provide_tool_results(None, sent)
    assert (await run.result()).text == "one by hand"


# A tool that needs input.


async def test_a_tool_gets_the_input_that_it_asks_for(waiting, traces):
    """Only an answer that fits the form is accepted; the call continues in the same turn, with its state."""
    run, (question,) = await waiting("shipper", "order 4")
    assert question.question == "At which hour may it come?"
    assert question.server == "depot.orders"
    assert question.tool_call_id
    for wrong in ({"hour": 20}, {"minute": 3}, {}, "later"):
        with pytest.raises(InvalidInput):
            await run.answer(None, wrong)
    await run.answer(None, "9")
    out = await run.result()
    assert (out.text, out.tool_calls) == ("order 4 is on tour 7 at 9:00", 1)
    assert {event.turn_id async for event in run.events()} == {"t1"}
    await traces(run).check()


async def test_a_declined_input_goes_to_the_tool(waiting):
    """`decline` answers the tool's form, and the tool decides its result."""
    run, _ = await waiting("shipper", "order 4")
    await run.decline(None)
    assert (await run.result()).text == "order 4 stays: no hour was named"


async def test_a_tool_that_may_ask_nobody(serve, depot):
    """The call of a tool that needs input is answered with the error `input_required`."""
    client = await serve(depot.app)
    run = await client.start("depot.shipper", "order 4", policy=ASKS_NOBODY)
    assert "may ask nobody" in (await run.result()).text
    (end,) = [event.result async for event in run.events() if event.type == "tool_end"]
    assert end.error.code == "input_required"


async def test_a_tool_with_input_is_still_a_function(depot):
    """A test may call the tool with a `ToolInput` of its own."""
    filled = ToolInput(responses={"window": {"action": "accept", "content": {"hour": 8}}}, request_state="t")
    assert await depot.ship(ToolCallMeta(run_id="r", input=filled), order="o") == "o is on t at 8:00"


# Pause.


async def test_the_lines_of_the_page_pause_and_resume(waiting, temporal, lines, status_when):
    """A paused run accepts answers and starts nothing; a message on resuming begins a new turn."""
    run, _ = await waiting("buyer", "valve")
    (pause,), (resume,) = lines("waiting.md", "--name pause"), lines("waiting.md", "--name resume")
    assert (await temporal(pause, run))[0] == 0
    status = await status_when(run, lambda status: status.status == "paused")
    assert (status.paused, [wait.id for wait in status.awaits]) == ("let me look", ["how-many"])
    await run.answer(None, "5")
    status = await status_when(run, lambda status: not status.awaits)
    assert (status.status, status.tool_calls) == ("paused", 0)
    assert (await temporal(resume, run))[0] == 0
    await run.result()
    events = [event async for event in run.events()]
    (paused,) = [event for event in events if event.type == "run_paused"]
    assert (paused.text, paused.by) == ("let me look", "ana")
    assert events[-1].turn_id == "t3"
    with pytest.raises(AwaitClosed):
        await run.resume()


async def test_both_signals_work_without_input(waiting, temporal, lines, status_when):
    """`pause` and `resume` work as signals without input; `resume` of a run that is not paused raises."""
    run, _ = await waiting("buyer", "valve")
    with pytest.raises(AwaitClosed, match="not paused"):
        await run.resume()
    for name, wanted in (("pause", "paused"), ("resume", "waiting")):
        (line,) = lines("waiting.md", f"--name {name}")
        assert (await temporal(line.split(" --input")[0], run))[0] == 0
        await status_when(run, lambda status, wanted=wanted: status.status == wanted)


async def test_timers_go_on_while_paused(serve, depot, monkeypatch, status_when):
    """A question expires during a pause; the next plan waits for the resume."""
    monkeypatch.setattr(depot, "timedelta", lambda **_: timedelta(seconds=5))
    client = await serve(depot.app)
    run = await client.start("depot.buyer", "valve")
    await status_when(run, lambda status: status.awaits)
    await run.pause()
    async for event in run.events():
        if event.type == "await_answered":
            assert event.code == "expired"
            break
    status = await run.status()
    assert (status.status, status.awaits) == ("paused", [])
    await run.resume()
    assert (await run.result()).text == "Nothing is ordered. Nobody answered within 0:00:05."


# Events, and what survives what.


def test_the_events_of_the_page_are_events(rows):
    """Each event type of the table exists, and so do its fields, or the `wait` of its JSON."""
    for types, fields in rows("waiting.md", "## In events and status"):
        kinds = [EVENT_CLASSES[name] for name in re.findall(r"`(\w+)`", types)]
        named = [name for name in re.findall(r"`(\w+)`", fields) if name not in ("expired", "wait")]
        assert named
        assert set(named) <= {field for kind in kinds for field in kind.model_fields}


@pytest.fixture
async def left(temporal_address, depot, status_when):
    """A run that waits, without a worker."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(depot.app, client):
        run = await client.start("depot.buyer", "valve")
        await status_when(run, lambda status: status.awaits)
    return run


async def test_a_wait_outlives_its_worker(left, depot, traces):
    """Without a worker the status shows the wait, and the server keeps a signal for the next worker."""
    assert [wait.id for wait in (await left.status()).awaits] == ["how-many"]
    await traces(left).handle.signal("provide_clarification", {"answer": "6"})
    async with Worker(depot.app, left.client):
        assert (await left.result()).text == "6 x valve ordered"


async def test_an_answer_without_a_worker(left, monkeypatch):
    """An answer raises `NoWorker` if no worker accepts it in time."""
    monkeypatch.setattr(sojourn.client.sending, "ANSWER_DEADLINE", 0.3)
    with pytest.raises(NoWorker):
        await left.answer(None, "5")


async def test_a_cancelled_run_waits_no_more(waiting):
    """After a cancellation each call that waited is answered as canceled."""
    run, _ = await waiting("picker", "a b")
    await run.cancel("enough")
    with pytest.raises(RunFailed, match="enough"):
        await run.result()
    ends = [event.result.error.code async for event in run.events() if event.type == "tool_end"]
    assert ends == ["canceled"] * 2


async def test_a_question_without_an_id_gets_one(serve, depot):
    """A question without an id gets one from its tool's name, unique in the run."""
    asked = []

    async def plan(turn):
        if len(asked) == 2:
            return PlanResult.final("done")
        question = depot.AwaitClarification(question="How many?", restrict_to_tool=depot.place.id)
        return PlanResult.ask(question)

    client = await serve(
        App(agents=[Agent("depot.test", planner=plan, uses=[depot.orders], policy=depot.asking)])
    )
    run = await client.start("depot.test", "go")
    async for event in run.events():
        if event.type == "await_clarification":
            asked.append(event.question.id)
            await run.answer(event.question.id, json.dumps(len(asked)))
    assert asked == ["fix-depot.orders.place", "fix-depot.orders.place#2"]
