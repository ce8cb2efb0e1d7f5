"""What docs/operate.md says is so: every command of the page is pasted into a shell, and its effect looked at."""

import asyncio
import json
import re
import uuid
from collections import defaultdict
from pathlib import Path

import pytest
from pydantic import BaseModel
from temporalio import workflow
from temporalio.api.enums.v1 import BatchOperationState, EventType
from temporalio.api.workflowservice.v1 import ListBatchOperationsRequest
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as TemporalWorker

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    RunFailed,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Worker,
)

PAGE = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
WORDS = re.findall(r"`([A-Z]+)`", PAGE.split("| word | by |")[1].split("\n\n")[0])
"""What is to be replaced in a command."""

# What is operated here.

CALLS: dict[str, list[tuple[str, str]]] = defaultdict(list)
"""By run: `tool_call_id` and `idempotency_key` of each execution of `fetch`."""

MENDED: set[str] = set()
"""Runs whose planner raises no more."""

yard = Toolset("yard.tools")
outside = Toolset("yard.outside", external=True)


class Site(BaseModel):
    """Where."""

    site: str


class Count(BaseModel):
    """How many."""

    count: int


@yard.tool
async def fetch(meta: ToolCallMeta, site: str) -> str:
    """Fetch."""
    CALLS[meta.run_id].append((meta.tool_call_id, meta.idempotency_key))
    return f"fetched {site}"


@yard.tool(destructive=True)
async def clear(site: str) -> str:
    """Clear."""
    return f"cleared {site}"


@yard.tool
async def hang() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


@yard.tool
async def call_out(number: int) -> str:
    """Fail as a network does."""
    raise RuntimeError(f"connection refused by peer {number}")


count = outside.declare("count", args=Site, result=Count, description="Count what is there.")


def told(turn) -> PlanResult:
    """What came of the last step."""
    return PlanResult.final(" | ".join(str(result.error or result.result) for result in turn.tool_results))


async def guide(turn):
    """Fetch, ask, and tell the answer."""
    if turn.tool_results:
        return PlanResult.ask(AwaitClarification(id="which", question="Which site?", missing_fields=["site"]))
    if any(message.role == "tool" for message in turn.messages):
        return PlanResult.final(turn.messages[-1].text)
    return PlanResult.calls(fetch.call(site="s-1"))


async def clear_twice(turn):
    """Clear, and clear again."""
    done = sum(message.role == "tool" for message in turn.messages)
    return told(turn) if done == 2 else PlanResult.calls(clear.call(site=f"s-{done}"))


async def insist(turn):
    """Call out until told to stop."""
    if turn.messages[-1].role == "system":
        return PlanResult.final("given up")
    return PlanResult.calls(call_out.call(number=len(turn.messages)))


async def raising(turn):
    """Fetch, and then raise until somebody mends it."""
    if not turn.tool_results:
        return PlanResult.calls(fetch.call(site="s-1"))
    if turn.run.run_id not in MENDED:
        raise ApplicationError("the model is away", type="ModelAway", non_retryable=True)
    return PlanResult.final("mended")


async def away(turn):
    """Raise what is tried again."""
    raise ConnectionError("the model is away")


async def never_right(turn):
    """Answer with what is no plan."""
    return PlanResult()


def once(request: ToolRequest):
    """A planner that makes one call, and tells what came of it."""

    async def plan(turn):
        return told(turn) if turn.tool_results else PlanResult.calls(request)

    return plan


ASKS = RunPolicy(interrupts_allowed=True)
guide_agent = Agent("yard.guide", planner=guide, uses=[yard], policy=ASKS)
guides = guide_agent.export("yard.guides", tools=[AgentTool("ask", args=Site, user="Where is {site}?")])
ask_guide = ToolRequest(name=guides["ask"].spec.id, payload={"site": "s-2"})
app = App(
    agents=[
        guide_agent,
        Agent("yard.cleaner", planner=clear_twice, uses=[yard], policy=ASKS),
        Agent("yard.picker", planner=once(count.call(Site(site="s-1"))), uses=[outside], policy=ASKS),
        Agent("yard.sleeper", planner=once(hang.call()), uses=[yard], policy=ASKS),
        Agent("yard.caller", planner=insist, uses=[yard], policy=ASKS),
        Agent("yard.faulty", planner=raising, uses=[yard], policy=ASKS),
        Agent("yard.wrong", planner=never_right, policy=ASKS),
        Agent("yard.away", planner=away, policy=ASKS),
        Agent("yard.boss", planner=once(ask_guide), uses=[guides], policy=ASKS),
    ]
)


def commands(section: str) -> list[str]:
    """The commands of a section, in order."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def do(shell):
    """Carry out a command of the page, its words replaced: `do(line, RUN=run.id)`; gives what it prints."""

    async def execute(line: str, fails: bool = False, **words: str) -> str:
        for word, by in words.items():
            line = re.sub(rf"\b{word}\b", lambda _, by=by: by, line)
        left = [word for word in WORDS if re.search(rf"\b{word}\b", line)]
        assert left == []
        status, printed = await shell(line)
        assert (status != 0) == fails, printed
        return printed

    return execute


@pytest.fixture(scope="module")
async def client(temporal_address):
    """A client of the one worker that serves the app."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        yield client


@pytest.fixture
def listed(client, do, until):
    """Carry out the line of a list once it has, of these runs, only those that are wanted: lists lag."""

    async def execute(line: str, wanted: set[str], of: set[str] | None = None, **words: str) -> None:
        ids = of or wanted
        (query,) = re.findall(r'--query "([^"]*)"', line)
        for word, by in words.items():
            query = re.sub(rf"\b{word}\b", by, query)

        async def there() -> bool:
            return {found.id async for found in client.temporal.list_workflows(query)} & ids == wanted

        await until(there)
        assert set((await do(line, **words)).split()) & ids == wanted

    return execute


@pytest.fixture
def batch(client, do, listed, until):
    """Carry out a batch on these runs: once a list with its query has them, and no other batch is at work."""

    async def execute(line: str, ids: set[str], **words: str) -> None:
        (query,) = re.findall(r'--query "[^"]*"', line)

        async def idle() -> bool:
            request = ListBatchOperationsRequest(namespace="default")
            batches = (await client.temporal.workflow_service.list_batch_operations(request)).operation_info
            return all(one.state != BatchOperationState.BATCH_OPERATION_STATE_RUNNING for one in batches)

        await listed(f"temporal workflow list {query}", ids, **words)
        await until(idle)
        await do(line, **words)

    return execute


@pytest.fixture
def start(client, status_when):
    """Start a run of an agent, of a session of its own, and wait until it waits, or ends."""

    async def begin(agent: str, **options):
        run = await client.start(f"yard.{agent}", "Which is dark?", session_id=uuid.uuid4().hex, **options)
        if agent in ("guide", "cleaner", "picker"):
            await status_when(run, lambda status: status.awaits)
        elif agent == "boss":
            await status_when(run, lambda status: status.child_awaits)
        elif agent == "sleeper":
            await status_when(run, lambda status: status.calls)
        return run

    return begin


def queried(printed: str):
    """The JSON of a query's answer."""
    return json.loads(printed.split("QueryResult", 1)[1])


async def child_of(run):
    """The one child run of a run."""
    (call,) = (await run.status()).calls
    return run.client.get_run(call.run_link.run_id)


# The page as a whole.


def test_no_section_is_left_out() -> None:
    """Each section with commands is tried below, where the number of its commands is fixed too."""
    sections = [
        title for title in re.findall(r"^## (.*)$", PAGE, re.MULTILINE) if "```sh" in PAGE and commands(title)
    ]
    tried = re.findall(r'\bcommands\("([^"]+)"\)', Path(__file__).read_text())
    assert set(sections) == set(tried)


def test_all_code_of_the_page_is_commands() -> None:
    """Nothing shown as code is left untried."""
    assert set(re.findall(r"^```(.*)$", PAGE, re.MULTILINE)) == {"sh", ""}
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert all(line.startswith("temporal ") for title in titles for line in commands(title))


# Find, see.


async def test_runs_are_found(start, do, listed):
    """Each list has the run that it should have, and not the others."""
    waiting, failed, boss = await start("guide"), await start("faulty"), await start("boss")
    paused = await start("cleaner")
    await paused.pause()
    child = await child_of(boss)
    with pytest.raises(RunFailed):
        await failed.result()
    running, waits, pauses, failures, session, children, counted = commands("Find runs")
    ids = {run.id for run in (waiting, failed, boss, paused, child)}
    words = {"AGENT": "yard.faulty", "SESSION": (await waiting.status()).session_id, "RUN": boss.id}
    for line, wanted in (
        (running, ids - {failed.id}),
        (waits, {waiting.id, paused.id, child.id}),
        (pauses, {paused.id}),
        (failures, {failed.id}),
        (session, {waiting.id}),
        (children, {child.id}),
    ):
        await listed(line, wanted, of=ids, **words)
    assert re.search(r"values: Failed", await do(counted))


async def test_what_a_run_waits_for_is_seen(start, do):
    """The details hold the very command that answers; the queries and the description tell the rest."""
    run = await start("guide")
    metadata, status, transcript, describe, _ = commands("See what a run waits for")
    shown = await do(metadata, RUN=run.id)
    assert "Which site?\nWanted: site\n" in shown
    (answer,) = re.findall(r"^temporal workflow signal .*$", shown, re.MULTILINE)
    (wait,) = queried(await do(status, RUN=run.id))["awaits"]
    assert wait["id"] == "which"
    assert queried(await do(transcript, RUN=run.id))[0]["parts"][0]["text"] == "Which is dark?"
    described = await do(describe, RUN=run.id)
    assert 'StaticSummary  "yard.guide: `Which is dark?`"' in described
    assert "**Asked:**" in described
    for said in ("message", "Which is dark?", "SojournAgent", "SojournSession", "SojournAwaiting"):
        assert said in described
    await do(answer.replace("YOUR ANSWER", "s-9"))
    assert (await run.result()).text == "s-9"


# Answer.


async def test_each_answer_has_its_effect(start, do, status_when):
    """Questions, approvals and results from outside, each by its own line of the page."""
    expected = [
        ("guide", "the one at the gate"),
        ("guide", '{"site": "s-7"}'),
        ("guide", "The question was declined: nobody knows"),
        ("cleaner", "done"),
        ("cleaner", "denied"),
        ("cleaner", "cleared s-1"),
        ("picker", "{'count': 3}"),
        ("picker", "the shelf is empty"),
        ("guide", "the one at the gate"),
    ]
    for line, (agent, effect) in zip(commands("Answer"), expected, strict=True):
        run = await start(agent)
        (wait,) = (await run.status()).awaits
        call = wait.items[0].tool_call_id if agent == "picker" else wait.id
        digest = wait.payload_digest if agent == "cleaner" else ""
        await do(line, RUN=run.id, WAIT=wait.id, CALL=call, DIGEST=digest)
        if effect in ("done", "denied"):  # and the next call is asked about again
            status = await status_when(
                run, lambda status, wait=wait: status.awaits and status.awaits[0].id != wait.id
            )
            assert status.calls[0].state == effect
            await run.cancel()
        else:
            assert (await run.result()).text == effect


async def test_a_signal_that_is_no_answer_harms_nothing(start, do, status_when):
    """It is noted, the run goes on waiting, and an update is told the reason at once.

    While one question is open, `id` may be left out of the answer; in the shell an apostrophe is written as JSON has it.
    """
    run = await start("guide")
    signal, update = commands("Answer")[0], commands("Answer")[-1]
    await do(signal, RUN=run.id, WAIT="another")
    status = await status_when(run, lambda status: status.notes)
    assert [wait.id for wait in status.awaits] == ["which"]
    assert status.notes[0].startswith("answer refused: ")
    assert status.notes[0].removeprefix("answer refused: ") in await do(
        update, fails=True, RUN=run.id, WAIT="another"
    )
    line = signal.replace('"id": "WAIT", ', "").replace("the one", r"it\u0027s the one")
    await do(line, RUN=run.id)
    assert (await run.result()).text == "it's the one at the gate"


async def test_a_run_without_a_worker_is_seen_and_answered(temporal_address, status_when, do):
    """The question stands in the last plan's result, summaries name plans and tools; an answer by signal is not lost."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("yard.guide", "go")
        await status_when(run, lambda status: status.awaits)
    *_, show = commands("See what a run waits for")
    shown = await do(show, RUN=run.id)
    for said in (
        "result[0].await.question: Which site?",
        "summary: plan 1",
        f"summary: {fetch.id}",
        "summary: plan 2",
    ):
        assert said in shown
    await do(commands("Answer")[0], RUN=run.id, WAIT="which")
    async with Worker(app, client):
        assert (await run.result()).text == "the one at the gate"


# Pause, cancel, terminate.


async def test_a_run_is_paused_and_resumed(start, do, status_when):
    """Its child runs with it; messages become a person's."""
    pause, resume, resume_with = commands("Pause")
    run = await start("boss")
    child = await child_of(run)
    await do(pause, RUN=run.id)
    for one in (run, child):
        assert (await status_when(one, lambda status: status.status == "paused")).paused == "let me look"
    await do(resume, RUN=run.id)
    await status_when(child, lambda status: status.status == "waiting")
    await do(pause, RUN=child.id)
    await status_when(child, lambda status: status.status == "paused")
    await child.answer(None, "s-3")
    await do(resume_with, RUN=child.id)
    assert (await child.result()).text == "only what is in stock"
    await run.result()


async def test_a_run_is_canceled_or_terminated(start, do, status_when):
    """And a call alone is ended by failing its activity: the run goes on with that error."""
    cancel, terminate, fail = commands("Cancel, terminate")
    run = await start("boss")
    child = await child_of(run)
    await do(cancel, RUN=run.id)
    for one in (run, child):
        await status_when(one, lambda status: status.status == "canceled")
    run = await start("boss")
    child = await child_of(run)
    await do(terminate, RUN=run.id)
    with pytest.raises(RunFailed, match="wedged since noon"):
        await run.result()
    await status_when(child, lambda status: status.status == "canceled")
    run = await start("sleeper")
    (call,) = (await run.status()).calls
    await do(fail, RUN=run.id, CALL=call.tool_call_id)
    assert (await run.result()).text == "it hangs since noon"


# Reset.


async def completed_before(run, traces, wanted: EventType, nth: int = 0) -> int:
    """The number of the `WorkflowTaskCompleted` right before the nth event of a type."""
    history = await traces(run).history()
    at = [event.event_id for event in history if event.event_type == wanted][nth]
    done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return max(event.event_id for event in history if event.event_type == done and event.event_id < at)


async def test_a_run_is_reset_to_before_a_call(start, do, traces, status_when):
    """The call is executed again under its own id and key, and status, events and result tell the new execution."""
    _, show, _, reset, _ = commands("Reset to an earlier point")
    run = await start("guide")
    await do(commands("Answer")[0], RUN=run.id, WAIT="which")
    await run.result()
    (first,) = CALLS[run.id]
    assert f"activityId: {first[0]}" in await do(show, RUN=run.id)
    event = await completed_before(run, traces, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, nth=1)
    await do(reset, RUN=run.id, EVENT=str(event))
    status = await status_when(run, lambda status: status.awaits)
    assert (status.status, status.notes) == ("waiting", [])
    assert CALLS[run.id] == [first, first]
    await run.answer(None, "s-5")
    assert (await run.result()).text == "s-5"
    events = [event.type async for event in run.events()]
    assert events.count("tool_start") == events.count("await_clarification") == 1
    assert events[-2:] == ["run_completed", "run_stream_end"]


async def test_who_follows_a_run_is_led_over_a_reset(start, do, traces, status_when):
    """Its events go on with those of the new execution to its end, and who awaited the result gets the new one's."""
    _, _, _, reset, _ = commands("Reset to an earlier point")
    run = await start("guide")
    types: list[str] = []

    async def follow() -> None:
        async for event in run.events():
            types.append(event.type)

    following, awaited = asyncio.create_task(follow()), asyncio.create_task(run.result())
    event = await completed_before(run, traces, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, nth=1)
    await do(reset, RUN=run.id, EVENT=str(event))
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "s-8")
    assert (await awaited).text == "s-8"
    await following
    assert types.count("tool_start") == types.count("await_clarification") == 2
    assert types.count("run_started") == types.count("run_stream_end") == 1
    assert types[-1] == "run_stream_end"


async def test_without_the_option_an_answer_comes_before_its_question(start, do, traces, status_when):
    """It is sent again at once, and only noted: the page says to leave it behind."""
    *_, reset, _ = commands("Reset to an earlier point")
    run = await start("guide")
    await do(commands("Answer")[0], RUN=run.id, WAIT="which")
    await run.result()
    event = await completed_before(run, traces, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
    await do(reset.replace(" --reapply-exclude All", ""), RUN=run.id, EVENT=str(event))
    status = await status_when(run, lambda status: status.awaits)
    assert [note.split(":")[0] for note in status.notes] == ["answer refused"]
    await run.cancel()


async def test_a_run_with_children_is_reset_step_by_step(start, do, batch, traces, status_when):
    """Paused, looked at, its child runs ended; then the child run is started anew, under the same id."""
    pause, show, end_children, reset, _ = commands("Reset to an earlier point")
    run = await start("boss")
    child = await child_of(run)
    await do(pause, RUN=run.id)
    await status_when(child, lambda status: status.status == "paused")
    assert "StartChildWorkflowExecutionInitiated" in await do(show, RUN=run.id)

    await batch(end_children, {child.id}, RUN=run.id)
    await status_when(child, lambda status: status.status == "terminated")
    assert (await run.status()).status == "paused"
    initiated = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    await do(reset, RUN=run.id, EVENT=str(await completed_before(run, traces, initiated)))
    await status_when(run, lambda status: status.child_awaits)
    assert (await child_of(run)).id == child.id
    await child.answer(None, "s-6")
    assert (await run.result()).text == "s-6"
    assert len(CALLS[child.id]) == 2


async def test_a_child_that_still_runs_is_ended_and_started_anew(start, do, traces, until):
    """Where its call comes again, the one before is terminated."""
    *_, reset, _ = commands("Reset to an earlier point")
    run = await start("boss")
    child = await child_of(run)
    handle = run.client.temporal.get_workflow_handle(child.id)
    before = (await handle.describe()).run_id
    initiated = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    await do(reset, RUN=run.id, EVENT=str(await completed_before(run, traces, initiated)))

    async def anew() -> bool:
        return (await handle.describe()).run_id != before

    await until(anew)
    old = await run.client.temporal.get_workflow_handle(child.id, run_id=before).describe()
    assert old.status is not None
    assert old.status.name == "TERMINATED"
    await run.cancel()


async def test_a_run_that_was_terminated_goes_on(start, do, status_when):
    """Its last workflow task is the beginning of the step that was under way."""
    *_, last = commands("Reset to an earlier point")
    run = await start("guide")
    await do(commands("Cancel, terminate")[1], RUN=run.id)
    await status_when(run, lambda status: status.status == "terminated")
    await do(last, RUN=run.id)
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "s-7")
    assert (await run.result()).text == "s-7"
    assert len(CALLS[run.id]) == 1


async def test_a_reset_to_the_first_task_begins_anew(start, do, status_when):
    """Everything happens again."""
    *_, last = commands("Reset to an earlier point")
    run = await start("guide")
    await do(last.replace("LastWorkflowTask", "FirstWorkflowTask"), RUN=run.id)
    await status_when(run, lambda status: status.awaits)
    assert len(CALLS[run.id]) == 2
    await run.cancel()


# Failed.


async def test_why_a_run_failed(start, do, traces, rows):
    """The message, and the type that the page's table has; mended, and reset, it goes on where it failed."""
    text, as_json = commands("Why a run failed")
    types = [row[0].strip("`") for row in rows("operate.md", "## Why a run failed")]
    assert types == ["AgentNotFound", "InvalidInput", "PlannerError", "another"]
    run = await start("faulty")
    with pytest.raises(RunFailed):
        await run.result()
    assert "the model is away" in await do(text, fails=True, RUN=run.id)
    assert '"type": "ModelAway"' in await do(as_json, fails=True, RUN=run.id)
    MENDED.add(run.id)
    last_plan = await completed_before(run, traces, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, nth=2)
    *_, reset, _ = commands("Reset to an earlier point")
    await do(reset, RUN=run.id, EVENT=str(last_plan))
    assert (await run.result()).text == "mended"
    assert len(CALLS[run.id]) == 1


async def test_the_types_of_failures(start, do):
    """A planner that is refused, an agent that is not there, an input that is none."""
    _, as_json = commands("Why a run failed")
    wrong, unknown = await start("wrong"), await start("guided")
    await wrong.client.temporal.start_workflow(
        "AgentRun", 5, id=(none := f"none-{uuid.uuid4().hex}"), task_queue=wrong.client.task_queue
    )
    for run, kind in (
        (wrong, "PlannerError"),
        (unknown, "AgentNotFound"),
        (wrong.client.get_run(none), "InvalidInput"),
    ):
        with pytest.raises(RunFailed):
            await run.result()
        assert f'"type": "{kind}"' in await do(as_json, fails=True, RUN=run.id)


# Stuck.


async def test_what_is_pending_is_seen(start, do):
    """A call at work is a pending activity, whose id is the call's; the queue has its pollers."""
    describe, queue, status, show = commands("Why a run is stuck")
    run = await start("sleeper")
    (call,) = (await run.status()).calls
    pending = await do(describe, RUN=run.id)
    assert re.search(
        rf"ActivityId +{call.tool_call_id}\n +Type +ExecuteToolActivity\n +State +Started", pending
    )
    assert re.search(r"(workflow|activity) +\d+@", await do(queue, QUEUE=run.client.task_queue))
    assert queried(await do(status, RUN=run.id))["calls"][0]["state"] == "running"
    assert (await do(show, RUN=run.id)).rstrip().endswith("ActivityTaskScheduled")
    boss = await start("boss")
    assert re.search(rf"WorkflowId +{(await child_of(boss)).id}\n", await do(describe, RUN=boss.id))
    await run.cancel()
    await boss.cancel()


async def test_what_is_tried_again_is_seen(start, do, until):
    """A pending activity tells its attempt, and why the last one failed."""
    describe, *_ = commands("Why a run is stuck")
    run = await start("away")
    handle = run.client.temporal.get_workflow_handle(run.id)

    async def tried() -> bool:
        return any(each.attempt > 1 for each in (await handle.describe()).raw_description.pending_activities)

    async def failed() -> str | None:
        pending = await do(describe, RUN=run.id)
        waits = re.search(r"Type +PlanActivity\n +State +Scheduled\n +Attempt +[2-9]", pending)
        return pending if waits and "LastFailure" in pending else None

    await until(tried)
    assert "the model is away" in await until(failed)
    await run.cancel()


async def test_a_queue_without_a_worker_is_seen(temporal_address, do):
    """It has no pollers."""
    _, queue, *_ = commands("Why a run is stuck")
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    run = await client.start("yard.guide", "go", wait_for_worker=True)
    assert not re.search(r"\d+@", await do(queue, QUEUE=client.task_queue))
    await client.temporal.get_workflow_handle(run.id).terminate()


@workflow.defn(name="AgentRun")
class BadDeploy:
    """A workflow that cannot carry on the runs of another."""

    @workflow.run
    async def run(self, given: dict) -> str:
        """Raise what Temporal does not take for the run's own failure."""
        raise RuntimeError("a bad deploy")


async def test_a_deploy_that_does_not_fit_loses_nothing(temporal_address, status_when, traces, until, do):
    """The workflow task fails again and again, and with the right code the run goes on."""
    *_, show = commands("Why a run is stuck")
    detailed = commands("See what a run waits for")[-1]
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("yard.guide", "go")
        await status_when(run, lambda status: status.awaits)
    bad = TemporalWorker(
        client.temporal,
        task_queue=client.task_queue,
        workflows=[BadDeploy],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with bad:
        await do(commands("Answer")[0], RUN=run.id, WAIT="which")

        async def failed() -> bool:
            return (await do(show, RUN=run.id)).rstrip().endswith("WorkflowTaskFailed")

        await until(traces(run).failed_tasks)
        await until(failed)
        assert re.search(r"failure\.message: \S", await do(detailed, RUN=run.id))
    async with Worker(app, client):
        assert (await run.result()).text == "the one at the gate"


async def test_a_stuck_tool_is_dumped_by_one_call(start, do, rows):
    """Which pattern each error matched, how many there were, and whether retrying was stopped (ME-15)."""
    _, _, status, _ = commands("Why a run is stuck")
    run = await start("caller")
    assert (await run.result()).text == "given up"
    dumped = queried(await do(status, RUN=run.id))["safeguards"]
    assert (dumped["similar"], dumped["stopped"], dumped["category"]) == (3, True, "network_error")
    assert [(error["tool"], error["matched"]) for error in dumped["errors"]] == [
        (call_out.id, "connection refused")
    ] * 3
    assert "peer 1" in dumped["errors"][0]["message"]
    told_of = {row[0].strip("`") for row in rows("operate.md", "`safeguards` is the dump")}
    assert set(dumped) < told_of == {"errors", "similar", "category", "stopped", "loop"}


# Start.


async def test_a_run_is_started(client, do, listed, status_when):
    """It is found by its attributes like any other, and its id is used once."""
    (begin,) = commands("Start a run")
    run = client.get_run(f"by-hand-{uuid.uuid4().hex[:8]}")
    words = {"RUN": run.id, "QUEUE": client.task_queue, "AGENT": "yard.guide", "SESSION": run.id}
    await do(begin, **words)
    await status_when(run, lambda status: status.awaits)
    _, waits, *_, session, _, _ = commands("Find runs")
    for line in (waits, session):
        await listed(line, {run.id}, **words)
    await run.answer(None, "s-1")
    assert (await run.result()).text == "s-1"
    await do(begin, fails=True, **words)


# Many.


async def test_many_runs_at_once(start, do, batch, status_when):
    """Pause and resume all runs of an agent, cancel those of a session; the batches are listed."""
    pause, resume, cancel, batches = commands("Many runs at once")
    first, second = await start("cleaner"), await start("cleaner")
    words = {"AGENT": "yard.cleaner", "SESSION": (await first.status()).session_id}
    for line, status in ((pause, "paused"), (resume, "waiting")):
        await batch(line, {first.id, second.id}, **words)
        for run in (first, second):
            await status_when(run, lambda found, status=status: found.status == status)
    await batch(cancel, {first.id}, **words)
    await status_when(first, lambda found: found.status == "canceled")
    assert (await second.status()).status == "waiting"
    assert "Completed" in await do(batches)
    await second.cancel()
