"""Waiting: a run waits for an answer or a timer, shows its question everywhere, and goes on when answered."""

import asyncio
import json
import re
import shlex
import uuid
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.common import SearchAttributeKey

from sojourn import Agent, App, AwaitClarification, Client, PlanResult, RunPolicy, Worker
from sojourn.testing.scripted import ScriptedPlanner

AWAITING = SearchAttributeKey.for_keyword("SojournAwaiting")
ASKS = RunPolicy(interrupts_allowed=True)


def asking(*questions: AwaitClarification) -> ScriptedPlanner:
    """A planner that asks these questions, then answers with their answers."""

    def report(turn):
        answers = [message.text for message in turn.messages if message.role == "user"][1:]
        return PlanResult.final(json.dumps(answers))

    return ScriptedPlanner([*(PlanResult.ask(question) for question in questions), report])


@pytest.mark.parametrize("by_signal", [False, True], ids=["update", "signal"])
@pytest.mark.parametrize("answer", ["s-1", {"site_id": "s-1"}], ids=["text", "fields"])
async def test_an_answer_becomes_a_user_message_and_a_new_turn(serve, status_when, traces, answer, by_signal):
    """A run answered by update or by plain signal goes on with the answer in a new user turn (SR-74, SR-94)."""
    turns = []

    async def plan(turn):
        turns.append(turn)
        if turn.run.turn_id == "t1":
            return PlanResult.ask(AwaitClarification(id="q", question="Which site?"))
        return PlanResult.final("done")

    client = await serve(planner=plan, policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    if by_signal:
        await traces(run).handle.signal("provide_clarification", {"id": "q", "answer": answer})
    else:
        assert await run.answer("q", answer, by="ana") == "q"
    await run.result()
    assert [turn.run.turn_id for turn in turns] == ["t1", "t2"]
    text = answer if isinstance(answer, str) else json.dumps(answer)
    transcript = await traces(run).check()
    assert [(message.role, message.text) for message in transcript] == [
        ("user", "go"),
        ("assistant", "Which site?"),
        ("user", text),
        ("assistant", "done"),
    ]


async def test_a_waiting_run_shows_its_question(serve, status_when, until, traces):
    """While it waits, status and search attribute name the question; afterwards neither does."""
    question = AwaitClarification(
        id="fix", question="Which?", missing_fields=["site_id"], restrict_to_tool="ops.sites.get"
    )
    client = await serve(planner=asking(question), policy=ASKS)
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    shown = question.model_copy(update={"closed": True})  # an answer by field has the missing fields only
    assert (status.status, status.phase, status.awaits) == ("waiting", "waiting", [shown])

    async def awaiting(value: str | None) -> bool:
        described = await traces(run).handle.describe()
        return described.typed_search_attributes.get(AWAITING) == value

    await until(lambda: awaiting("fix"))
    await run.answer(None, "this")
    await run.result()
    await until(lambda: awaiting(None))
    assert (await run.status()).awaits == []


async def test_a_waiting_run_outlives_its_worker(temporal_address, status_when):
    """With no worker alive the status still shows the question; the next worker takes the answer (SR-78)."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    question = AwaitClarification(id="q", question="Which?")
    app = App(agents=[Agent("test.agent", planner=asking(question), policy=ASKS)])
    async with Worker(app, client):
        run = await client.start("test.agent", "go")
        with_worker = await status_when(run, lambda status: status.awaits)
    async with asyncio.timeout(60):
        status = await run.status()
    assert (status.status, status.phase, status.awaits) == ("waiting", "waiting", [question])
    assert (status.turn_id, status.agent_id) == (with_worker.turn_id, "test.agent")
    async with Worker(app, client):
        await run.answer("q", "later")
        assert (await run.result()).text == '["later"]'


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("run_id", "await_id"),
    [
        pytest.param("plain", "q", id="plain"),
        pytest.param("o:1@x=2+3", "what's \"up\"? $(reboot) `id` \\ 'x", id="quotes"),
        pytest.param("uni", "größe ☃ {0} %s", id="not ASCII"),
        pytest.param("lines", "two\nlines\x1b[31m\u202e", id="lines and escapes"),
        pytest.param("fence", "``` ```` # *x*", id="fences"),
    ],
)
async def test_the_command_on_temporals_screen_answers_the_question(
    serve, status_when, traces, temporal_server, run_id, await_id
):
    """The run's current details hold a `temporal` command line that, pasted into a shell, answers the run."""
    question = AwaitClarification(id=await_id, question="Which ```site```?\n# really")
    client = await serve(planner=asking(question), policy=ASKS)
    run = await client.start("test.agent", "go", run_id=f"{run_id}-{uuid.uuid4().hex[:8]}")
    await status_when(run, lambda status: status.awaits)
    metadata = await traces(run).handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    details = metadata.current_details
    assert "Which ```site```?" in details
    (line,) = re.findall(r"^temporal workflow signal .*$", details, re.MULTILINE)
    assert line.isprintable()
    command = [word.replace("YOUR ANSWER", "it's s-1") for word in shlex.split(line)]
    temporal = await asyncio.create_subprocess_exec(
        temporal_server.cli.path, *command[1:], "--address", temporal_server.address
    )
    assert await temporal.wait() == 0
    assert (await run.result()).text == '["it\'s s-1"]'


async def test_the_screen_is_cleared_after_the_answer(serve, status_when, traces, until):
    """Once the question is answered, the current details are empty; the metadata lists the queries."""
    held = asyncio.Event()

    async def plan(turn):
        if turn.run.turn_id == "t1":
            return PlanResult.ask(AwaitClarification(question="Which?"))
        await held.wait()
        return PlanResult.final("done")

    client = await serve(planner=plan, policy=ASKS)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "this")
    await status_when(run, lambda status: status.turn_id == "t2")
    metadata = await traces(run).handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    assert metadata.current_details == ""
    assert {each.name for each in metadata.definition.query_definitions} >= {"status", "transcript"}
    held.set()
    await run.result()


async def test_await_ids_are_unique_in_a_run(serve):
    """A question asked again gets an id of its own, derived from its tool when it has none."""
    about = AwaitClarification(question="Which?", restrict_to_tool="ops.devices.upsert")
    named = AwaitClarification(question="Who?", id="who")
    client = await serve(planner=asking(about, about, named, named, named), policy=ASKS)
    run = await client.start("test.agent", "go")
    asked = []
    async for event in run.events():
        if event.type == "await_clarification":
            asked.append(event.question.id)
            await run.answer(event.question.id, f"answer {len(asked)}")
    assert asked == [
        "fix-ops.devices.upsert",
        "fix-ops.devices.upsert#2",
        "who",
        "who#2",
        "who#3",
    ]
    assert json.loads((await run.result()).text) == [f"answer {n}" for n in range(1, 6)]


async def test_a_wait_is_a_durable_timer_and_then_a_new_plan(serve, traces):
    """A planner that waits is asked again after a timer of the server, with a reminder that it has waited."""
    turns = []

    async def plan(turn):
        turns.append(turn)
        return PlanResult.wait(timedelta(milliseconds=50)) if len(turns) == 1 else PlanResult.final("done")

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"
    assert turns[1].reminders == ["Waited 0.05 s."]
    assert turns[1].run.turn_id == "t1"
    assert await traces(run).count(EventType.EVENT_TYPE_TIMER_FIRED) == 1
    await traces(run).check()
