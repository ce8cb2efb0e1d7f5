"""Starting a run: a wrong argument is refused at once, with the rule that it breaks."""

import asyncio
import socket
import uuid

import pytest

from sojourn import Agent, App, Client, InvalidInput, Message, PlanResult, RunFailed, Worker
from sojourn.contracts.message import TextPart
from sojourn.errors import NoWorker, RunAlreadyExists, ServerUnavailable
from sojourn.testing.scripted import ScriptedPlanner


def make_app() -> App:
    planner = ScriptedPlanner([PlanResult.final("done")])
    return App(agents=[Agent("ops.assistant", planner=planner), Agent("ops.researcher", planner=planner)])


def deep(depth: int) -> Message:
    value: dict = {}
    for _ in range(depth):
        value = {"a": value}
    return Message(role="user", parts=[TextPart(type="text", text="x", provider_metadata=value)])


BAD = {
    "an agent id of one part": ({"agent_id": "assistant"}, "<service>.<agent>"),
    "no agent id": ({"agent_id": ""}, "<service>.<agent>"),
    "an agent id that is no text": ({"agent_id": None}, "agent_id"),
    "a line break in the agent id": ({"agent_id": "a.b\n"}, "<service>.<agent>"),
    "a slash in the run id": ({"run_id": "a/b"}, "run_id must begin"),
    "a run id of 201 characters": ({"run_id": "x" * 201}, "at most 200"),
    "a run id like an option": ({"run_id": "-x"}, "run_id must begin"),
    "no messages": ({"messages": []}, "at least one message"),
    "a text in the list": ({"messages": ["go"]}, "messages.0"),
    "a text in the list, with a file": ({"messages": ["go"], "attachments": ["no-file.pdf"]}, "messages.0"),
    "a role": ({"messages": [Message(role="boss", parts=[])]}, "role is one of"),
    "no parts": ({"messages": [Message(role="user", parts=[])]}, "at least one part"),
    "3 MB": ({"messages": "x" * 3_000_000}, "at most 1,000,000"),
    "half a surrogate pair": ({"messages": "\ud800"}, "surrogate"),
    "metadata 250 deep": ({"messages": deep(250)}, "recursion"),
    "21 labels": ({"labels": {str(n): "x" for n in range(21)}}, "at most 20 labels"),
    "a label of 257 characters": ({"labels": {"a": "x" * 257}}, "256"),
    "a label that is no text": ({"labels": {"a": 1}}, "labels.a"),
    "a long session id": ({"session_id": "x" * 201}, "at most 200"),
    "quotes in a session id": ({"session_id": 'the "s"'}, "session_id holds no quotes"),
    "a long turn id": ({"turn_id": "x" * 65}, "turn_id at most"),
}


async def test_a_bad_argument_is_refused_with_its_rule(serve, subtests):
    """Nothing is started, and the error says which rule is broken."""
    client = await serve(make_app())
    for kind, (given, rule) in BAD.items():
        arguments = {"agent_id": "ops.assistant", "messages": "go", **given}
        agent_id, messages = arguments.pop("agent_id"), arguments.pop("messages")
        with subtests.test(kind), pytest.raises(InvalidInput, match=rule.replace(".", r"\.")):
            await client.start(agent_id, messages, **arguments)


async def test_an_unknown_agent_fails_the_run_with_close_names(serve, traces):
    """A run of an agent that its worker lacks fails after 3 attempts, with close names; in a deploy another worker may have it."""
    client = await serve(make_app())
    run = await client.start("ops.asistant", "go")
    with pytest.raises(RunFailed, match=r"no agent 'ops\.asistant'.*did you mean ops\.assistant") as failed:
        await run.result()
    assert failed.value.code == "AgentNotFound"
    attempts = [event.activity_task_started_event_attributes.attempt for event in await traces(run).history()]
    assert max(attempts) == 3


async def test_a_taken_run_id_is_refused_or_followed(serve):
    """A second start with a run id raises, while the run is open and afterwards; with `attach` it returns that run."""
    client = await serve(make_app())
    run_id = f"order:{uuid.uuid4().hex}@x=1+2"
    first = await client.start("ops.assistant", "go", run_id=run_id)
    for _ in range(2):
        with pytest.raises(RunAlreadyExists, match="attach=True"):
            await client.start("ops.assistant", "go", run_id=run_id)
        await first.result()
    second = await client.start("ops.researcher", "other", run_id=run_id, attach=True)
    assert second.id == first.id
    assert (await second.result()).agent_id == "ops.assistant"


async def test_starts_at_once_make_one_run(serve):
    """Of ten simultaneous starts of one id exactly one starts the run."""
    client = await serve(make_app())
    run_id = uuid.uuid4().hex
    starts = [client.start("ops.assistant", "go", run_id=run_id) for _ in range(10)]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert sum(isinstance(outcome, RunAlreadyExists) for outcome in outcomes) == 9


async def test_a_queue_that_nobody_polls_is_noticed(temporal_address):
    """A start without a worker raises `NoWorker` with the command that starts one, and starts nothing."""
    client = await Client.connect(temporal_address, task_queue=f"nobody-{uuid.uuid4().hex[:8]}")
    run_id = uuid.uuid4().hex
    with pytest.raises(NoWorker, match=f"sojourn worker MODULE:APP --task-queue {client.task_queue}"):
        await client.start("ops.assistant", "go", run_id=run_id)
    run = await client.start("ops.assistant", "go", run_id=run_id, wait_for_worker=True)
    status = await run.status()
    assert (status.status, status.agent_id) == ("running", "ops.assistant")
    assert status.hints == [f"no worker polls task queue {client.task_queue}"]
    async with Worker(make_app(), client):
        assert (await run.result()).text == "done"


async def test_a_worker_that_starts_meanwhile_is_waited_for(temporal_address):
    """A start does not fail while a worker is just starting."""
    client = await Client.connect(temporal_address, task_queue=f"soon-{uuid.uuid4().hex[:8]}")
    starting = asyncio.create_task(client.start("ops.assistant", "go"))
    async with Worker(make_app(), client):
        assert (await (await starting).result()).text == "done"


async def test_a_dead_address_names_the_next_step():
    """`connect` to an address without a server raises an error that says how to get a server."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=f"{address}.*`sojourn server`.*TEMPORAL_ADDRESS"):
            await Client.connect(address)


async def test_run_ids_labels_and_sessions_reach_the_planner(serve):
    """The planner's `RunContext` has the session id, turn id and labels of the start."""
    seen = []

    async def plan(turn):
        seen.append(turn.run)
        return PlanResult.final("done")

    client = await serve(planner=plan)
    await client.execute("test.agent", "go", session_id="s", turn_id="m-7", labels={"team": "ops"})
    (context,) = seen
    assert context.run_id.startswith("agent-")
    assert (context.session_id, context.turn_id, context.labels) == ("s", "m-7", {"team": "ops"})
