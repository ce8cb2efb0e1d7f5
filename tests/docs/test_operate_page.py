"""docs/operate.md: every command line of the page is executed in a shell, and its effect checked."""

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
    Principal,
    RunFailed,
    RunNotFound,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Worker,
)
from sojourn.core.run.set_aside import requests_in

PAGE = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
WORDS = re.findall(r"`([A-Z]+)`", PAGE.split("| word | by |")[1].split("\n\n")[0])
"""The placeholders of the page's command lines."""

# The app that is operated.

CALLS: dict[str, list[tuple[str, str]]] = defaultdict(list)
"""`tool_call_id` and `idempotency_key` of each execution of `fetch`, by run id."""

REPAIRED: set[str] = set()
"""Ids of the runs whose planner raises no more."""

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
    """Fail with a network error."""
    raise RuntimeError(f"connection refused by peer.example.org, message {number}")


count = outside.declare("count", args=Site, result=Count, description="Count what is there.")


def answer_with_results(turn) -> PlanResult:
    """Answer with the results of the last step."""
    return PlanResult.final(" | ".join(str(result.error or result.result) for result in turn.tool_results))


async def guide(turn):
    """Fetch, ask, and answer with the person's answer."""
    if turn.tool_results:
        return PlanResult.ask(AwaitClarification(id="which", question="Which site?", missing_fields=["site"]))
    if any(message.role == "tool" for message in turn.messages):
        return PlanResult.final(turn.messages[-1].text)
    return PlanResult.calls(fetch.call(site="s-1"))


async def clear_twice(turn):
    """Clear twice, then answer with the last result."""
    done = sum(message.role == "tool" for message in turn.messages)
    return answer_with_results(turn) if done == 2 else PlanResult.calls(clear.call(site=f"s-{done}"))


async def insist(turn):
    """Call `call_out` until the last turn."""
    if turn.messages[-1].role == "system":
        return PlanResult.final("given up")
    return PlanResult.calls(call_out.call(number=len(turn.messages)))


async def raising(turn):
    """Fetch, then raise until the run is in `REPAIRED`."""
    if not turn.tool_results:
        return PlanResult.calls(fetch.call(site="s-1"))
    if turn.run.run_id not in REPAIRED:
        raise ApplicationError("the model is away", type="ModelAway", non_retryable=True)
    return PlanResult.final("mended")


async def away(turn):
    """Raise an error after which Temporal makes another attempt."""
    raise ConnectionError("the model is away")


async def never_right(turn):
    """Return an empty plan, which is refused."""
    return PlanResult()


def once(request: ToolRequest):
    """A planner that makes one call, and answers with its result."""

    async def plan(turn):
        return answer_with_results(turn) if turn.tool_results else PlanResult.calls(request)

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
    """The command lines of a section, in order."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def do(shell):
    """Execute a command line of the page with its placeholders replaced, `do(line, RUN=run.id)`; returns the output."""

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
    """A client of a worker that serves the app."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        yield client


@pytest.fixture
def listed(client, do, until):
    """Execute a list command, whose output must hold the wanted ids and no others of `of`, once visibility lists them."""

    async def execute(line: str, wanted: set[str], of: set[str] | None = None, **words: str) -> None:
        ids = of or wanted
        (query,) = re.findall(r'--query "([^"]*)"', line)
        for word, by in words.items():
            query = re.sub(rf"\b{word}\b", by, query)

        async def is_listed() -> bool:
            return {found.id async for found in client.temporal.list_workflows(query)} & ids == wanted

        await until(is_listed)
        assert set((await do(line, **words)).split()) & ids == wanted

    return execute


@pytest.fixture
def batch(client, do, listed, until):
    """Execute a batch command once visibility lists these runs for its query, and no other batch is running."""

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
    """Start a run in a new session; where its agent waits or calls, wait for that."""

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
    """The JSON of a query's result."""
    return json.loads(printed.split("QueryResult", 1)[1])


async def child_of(run):
    """The one child run of a run."""
    (call,) = (await run.status()).calls
    return run.client.get_run(call.run_link.run_id)


# The page as a whole.


def test_no_section_is_left_out() -> None:
    """Each section with command lines is used by a test below."""
    sections = [
        title for title in re.findall(r"^## (.*)$", PAGE, re.MULTILINE) if "```sh" in PAGE and commands(title)
    ]
    tried = re.findall(r'\bcommands\("([^"]+)"\)', Path(__file__).read_text())
    assert set(sections) == set(tried)


def test_all_code_of_the_page_is_commands() -> None:
    """The page's shell blocks hold only `temporal` command lines, and no other code is shown."""
    assert set(re.findall(r"^```(.*)$", PAGE, re.MULTILINE)) == {"sh", ""}
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert all(line.startswith("temporal ") for title in titles for line in commands(title))


# Find, see.


async def test_runs_are_found(start, do, listed):
    """Each list command finds the runs that it should find, and no others of this test."""
    waiting, failed, boss = await start("guide"), await start("faulty"), await start("boss")
    paused = await start("cleaner")
    await paused.pause()
    child = await child_of(boss)
    with pytest.raises(RunFailed):
        await failed.result()
    running, waits, pauses, failures, session, children, forks, tenants, counted = commands("Find runs")
    ana = Principal(subject="ana", tenant=f"t-{uuid.uuid4().hex[:8]}")
    fork = await boss.client.fork(boss.id, principal=ana)
    ids = {run.id for run in (waiting, failed, boss, paused, child, fork)}
    words = {"AGENT": "yard.faulty", "SESSION": (await waiting.status()).session_id, "RUN": boss.id}
    words["TENANT"] = ana.tenant
    for line, wanted in (
        (running, ids - {failed.id}),
        (waits, {waiting.id, paused.id, child.id}),
        (pauses, {paused.id}),
        (failures, {failed.id}),
        (session, {waiting.id}),
        (children, {child.id}),
        (forks, {fork.id}),
        (tenants, {fork.id}),
    ):
        await listed(line, wanted, of=ids, **words)
    assert re.search(r"values: Failed", await do(counted))


async def test_the_open_wait_is_shown(start, do):
    """The details hold a command line that answers; queries and description show status, transcript and opening."""
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
    for part in ("message", "Which is dark?", "SojournAgent", "SojournSession", "SojournAwaiting"):
        assert part in described
    await do(answer.replace("YOUR ANSWER", "s-9"))
    assert (await run.result()).text == "s-9"


# Answer.


async def test_each_answer_has_its_effect(start, do, status_when):
    """Each line of the page answers a question, decides on a call or sends results from outside."""
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
        if effect in ("done", "denied"):  # the next call needs another decision
            status = await status_when(
                run, lambda status, wait=wait: status.awaits and status.awaits[0].id != wait.id
            )
            assert status.calls[0].state == effect
            await run.cancel()
        else:
            assert (await run.result()).text == effect


async def test_a_signal_that_is_no_answer_harms_nothing(start, do, status_when):
    """A bad signal becomes a note, a bad update fails, and the run waits for the answer, which may leave out `id`."""
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


async def test_a_run_without_a_worker_is_shown_and_answered(temporal_address, status_when, do):
    """Without a worker the history shows question, plans and tools, and an answer by signal is used by the next worker."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("yard.guide", "go")
        await status_when(run, lambda status: status.awaits)
    *_, show = commands("See what a run waits for")
    shown = await do(show, RUN=run.id)
    for part in (
        "result[0].await.question: Which site?",
        "summary: plan 1",
        f"summary: {fetch.id}",
        "summary: plan 2",
    ):
        assert part in shown
    await do(commands("Answer")[0], RUN=run.id, WAIT="which")
    async with Worker(app, client):
        assert (await run.result()).text == "the one at the gate"


# Pause, cancel, terminate.


async def test_a_run_is_paused_and_resumed(start, do, status_when):
    """`pause` and `resume` also reach child runs; messages on resuming become user messages."""
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


async def test_a_message_and_a_result_are_set_aside(start, do, status_when):
    """Both updates are recorded in the transcript, with who and why."""
    of_message, of_result = commands("Set aside")
    run = await start("guide")
    await status_when(run, lambda status: status.awaits)
    (result,) = (await run.transcript())[2].tool_results
    await do(of_result, RUN=run.id, CALL=result.tool_call_id)
    await do(of_message, RUN=run.id)
    await run.answer("s-2")
    await run.result()
    found = [(each.message, each.tool_call_id, each.reason) for each in requests_in(await run.transcript())]
    assert found == [(2, result.tool_call_id, ""), (2, None, "spoils every answer")]


async def test_a_run_is_canceled_or_terminated(start, do, status_when):
    """Cancellation and termination end the child run too; failing an activity ends one call, and the run continues."""
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
    assert (
        await run.result()
    ).text == "it hangs since noon; the call may have taken effect, its outcome is unknown"


# Reset.


async def completed_before(run, traces, wanted: EventType, nth: int = 0) -> int:
    """The id of the last `WorkflowTaskCompleted` before the event of a type with the index `nth`."""
    history = await traces(run).history()
    at = [event.event_id for event in history if event.event_type == wanted][nth]
    done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return max(event.event_id for event in history if event.event_type == done and event.event_id < at)


async def test_a_run_is_reset_to_before_a_call(start, do, traces, status_when):
    """The call is executed again with the same id and key; status, events and result are those of the new execution."""
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


async def test_a_follower_is_led_over_a_reset(start, do, traces, status_when):
    """`events()` continues with the new execution to its end, and `result()` returns the new execution's result."""
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
    """Without `--reapply-exclude All` the reset sends the old answer again before its question, and it becomes a note."""
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
    """The run is paused and shown, its child runs are terminated; the reset run starts the child run anew with the same id."""
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


async def test_a_child_that_still_runs_is_terminated_and_started_anew(start, do, traces, until):
    """When the reset run makes the call again, the earlier child run is terminated."""
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
    """A reset to the last workflow task continues a terminated run at the step that was under way."""
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
    """After a reset to the first workflow task all calls are executed again."""
    *_, last = commands("Reset to an earlier point")
    run = await start("guide")
    await do(last.replace("LastWorkflowTask", "FirstWorkflowTask"), RUN=run.id)
    await status_when(run, lambda status: status.awaits)
    assert len(CALLS[run.id]) == 2
    await run.cancel()


# Failed.


async def test_why_a_run_failed(start, do, traces, rows):
    """The commands show the message and the type; after a repair and a reset the run continues where it failed."""
    text, as_json = commands("Why a run failed")
    types = [row[0].strip("`") for row in rows("operate.md", "## Why a run failed")]
    assert types == ["AgentNotFound", "InvalidInput", "PlannerError", "another"]
    run = await start("faulty")
    with pytest.raises(RunFailed):
        await run.result()
    assert "the model is away" in await do(text, fails=True, RUN=run.id)
    assert '"type": "ModelAway"' in await do(as_json, fails=True, RUN=run.id)
    REPAIRED.add(run.id)
    last_plan = await completed_before(run, traces, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, nth=2)
    *_, reset, _ = commands("Reset to an earlier point")
    await do(reset, RUN=run.id, EVENT=str(last_plan))
    assert (await run.result()).text == "mended"
    assert len(CALLS[run.id]) == 1


async def test_the_types_of_failures(start, do):
    """A refused plan, an unknown agent and a bad input each fail with the type of the page's table."""
    _, as_json = commands("Why a run failed")
    wrong, unknown = await start("wrong"), await start("guided")
    await wrong.client.temporal.start_workflow(
        "AgentRun", 5, id=(no_input := f"no-input-{uuid.uuid4().hex}"), task_queue=wrong.client.task_queue
    )
    for run, kind in (
        (wrong, "PlannerError"),
        (unknown, "AgentNotFound"),
        (wrong.client.get_run(no_input), "InvalidInput"),
    ):
        with pytest.raises(RunFailed):
            await run.result()
        assert f'"type": "{kind}"' in await do(as_json, fails=True, RUN=run.id)


# Stuck.


async def test_a_pending_call_is_shown(start, do):
    """A call at work is a pending activity with the call's id, and the task queue shows its pollers."""
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


async def test_a_repeated_attempt_is_shown(start, do, until):
    """A pending activity shows its attempt, and why the last attempt failed."""
    describe, *_ = commands("Why a run is stuck")
    run = await start("away")
    handle = run.client.temporal.get_workflow_handle(run.id)

    async def repeated() -> bool:
        return any(each.attempt > 1 for each in (await handle.describe()).raw_description.pending_activities)

    async def failed() -> str | None:
        pending = await do(describe, RUN=run.id)
        waits = re.search(r"Type +PlanActivity\n +State +Scheduled\n +Attempt +[2-9]", pending)
        return pending if waits and "LastFailure" in pending else None

    await until(repeated)
    assert "the model is away" in await until(failed)
    await run.cancel()


async def test_a_queue_without_a_worker_is_shown(temporal_address, do):
    """A task queue without a worker shows no pollers."""
    _, queue, *_ = commands("Why a run is stuck")
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    run = await client.start("yard.guide", "go", wait_for_worker=True)
    assert not re.search(r"\d+@", await do(queue, QUEUE=client.task_queue))
    await client.temporal.get_workflow_handle(run.id).terminate()


@workflow.defn(name="AgentRun")
class BadDeploy:
    """A workflow that cannot continue the runs of another version."""

    @workflow.run
    async def run(self, given: dict) -> str:
        """Raise an error that fails the workflow task, not the run."""
        raise RuntimeError("a bad deploy")


async def test_a_deploy_that_does_not_fit_loses_nothing(temporal_address, status_when, traces, until, do):
    """With the wrong code the workflow task fails repeatedly; with the right code the run continues."""
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


async def test_a_stuck_tool_is_dumped_by_one_query(start, do, rows):
    """The query `status` shows what each error matched, the number of similar errors, and whether they stopped the run (ME-15)."""
    _, _, status, _ = commands("Why a run is stuck")
    run = await start("caller")
    assert (await run.result()).text == "given up"
    dumped = queried(await do(status, RUN=run.id))["safeguards"]
    assert (dumped["similar"], dumped["stopped"], dumped["category"]) == (3, True, "network_error")
    assert [(error["tool"], error["matched"]) for error in dumped["errors"]] == [
        (call_out.id, "connection refused")
    ] * 3
    assert "message 1" in dumped["errors"][0]["message"]
    fields = {row[0].strip("`") for row in rows("operate.md", "`safeguards` is the dump")}
    assert set(dumped) < fields == {"errors", "similar", "category", "stopped", "loop"}


# Start.


async def test_a_run_is_started(client, do, listed, status_when):
    """The run is found by its search attributes, and a second start with its id fails."""
    (begin,) = commands("Start a run")
    run = client.get_run(f"by-hand-{uuid.uuid4().hex[:8]}")
    words = {"RUN": run.id, "QUEUE": client.task_queue, "AGENT": "yard.guide", "SESSION": run.id}
    await do(begin, **words)
    await status_when(run, lambda status: status.awaits)
    _, waits, *_, session, _, _, _, _ = commands("Find runs")
    for line in (waits, session):
        await listed(line, {run.id}, **words)
    await run.answer(None, "s-1")
    assert (await run.result()).text == "s-1"
    await do(begin, fails=True, **words)


# Talk.


async def test_a_conversation_by_the_cli_alone(client, do, listed, status_when):
    """A conversation is begun, answered, steered, interrupted and ended by the commands of the page."""
    begin, update, steer, interrupt, stop, transcript, close, idle = commands("Talk")
    run = client.get_run(f"yard.cleaner@{uuid.uuid4().hex[:8]}")
    words = {"SESSION": run.id.partition("@")[2], "AGENT": "yard.cleaner", "QUEUE": client.task_queue}
    await do(begin, **words)
    await do(begin, fails=True, **words)
    await listed(idle, {run.id})
    for _ in range(2):
        assert "m-1" in await do(update, **words)
    await status_when(run, lambda status: status.awaits)
    await do(steer, **words)
    await do(interrupt, **words)
    await status_when(run, lambda status: status.turns == 1 and status.awaits)
    await do(stop, **words)
    await status_when(run, lambda status: (status.turns, status.status) == (2, "idle"))
    told = queried(await do(transcript, **words))
    said = [message["parts"][0]["text"] for message in told if message["role"] == "user"]
    assert said == ["Which is dark?", "no, the closed ones", "only the open ones"]
    await do(close, **words)
    assert (await run.result()).reason == "closed"


async def test_notices_that_nobody_takes(temporal_address, do, listed, until):
    """A delivery that fails is listed as running, with its last failure; one that was given up as failed."""
    running, failed = commands("Notices that are not delivered")

    async def refuse(notice) -> None:
        raise ConnectionError("nobody is in")

    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(App(agents=[guide_agent], on_wait=refuse), client):
        run = await client.start("yard.guide", "go")
        delivery = f"{run.id}/wait/which"
        await listed(running, {delivery})
        describe, *_ = commands("Why a run is stuck")

        async def is_told() -> bool:
            return "nobody is in" in await do(describe, RUN=delivery)

        await until(is_told)
        bad = await client.temporal.start_workflow(
            "NoticeDelivery", args=[3], id=f"n-{uuid.uuid4().hex}", task_queue=client.task_queue
        )
        await listed(failed, {bad.id})
        await do(commands("Cancel, terminate")[1], RUN=delivery)
        await run.cancel()


# Many.


async def test_many_runs_at_once(start, do, batch, status_when):
    """Batches pause and resume all runs of an agent and cancel those of a session, and are listed."""
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


async def test_retention_is_changed_and_a_run_deleted(do, start, until):
    """The namespace has the new retention, and the deleted run is no longer found."""
    describe, update, delete = commands("Retention")
    namespace = f"kept-{uuid.uuid4().hex[:8]}"
    await do("temporal operator namespace create --namespace NAMESPACE --retention 3d", NAMESPACE=namespace)

    async def has(retention: str) -> bool:
        return retention in await do(describe, NAMESPACE=namespace)

    await until(lambda: has("72h0m0s"))
    await do(update, NAMESPACE=namespace)
    await until(lambda: has("2160h0m0s"))
    run = await start("guide")
    await do(delete, RUN=run.id)

    async def is_gone() -> bool:
        try:
            await run.status()
        except RunNotFound:
            return True
        return False

    await until(is_gone)
