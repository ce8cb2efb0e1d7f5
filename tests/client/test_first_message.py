"""The first message of a conversation: one request starts the run and sends it."""

import asyncio
import gc
import re
import uuid

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.client import Interceptor, OutboundInterceptor
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as TemporalWorker

from sojourn import (
    Agent,
    App,
    AwaitClosed,
    Client,
    InvalidInput,
    Message,
    PlanResult,
    RunPolicyOverride,
    Worker,
)
from sojourn.client import sending
from sojourn.client.start import start_workflow
from sojourn.contracts.run import RunInput
from sojourn.errors import NoWorker
from sojourn.search_attributes import AGENT


async def plan(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"]
    return PlanResult.final(", ".join(said))


@pytest.fixture
async def client(serve):
    return await serve(planner=plan)


class Requests(Interceptor):
    """Notes the requests of a client that start a run or send it a message."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def intercept_client(self, next):
        made = self.made

        class Noting(OutboundInterceptor):
            async def start_workflow(self, input):
                made.append("start")
                return await super().start_workflow(input)

            async def start_workflow_update(self, input):
                made.append("update")
                return await super().start_workflow_update(input)

            async def start_update_with_start_workflow(self, input):
                made.append("update with start")
                return await super().start_update_with_start_workflow(input)

        return Noting(next)


async def test_the_first_message_starts_the_conversation_in_one_request(client):
    """A message to a conversation that exists takes one request; where there is none, a second one does all the rest."""
    requests = Requests()
    noted = TemporalClient(**{**client.temporal.config(), "interceptors": [requests]})
    session = Client(noted, task_queue=client.task_queue).session("test.agent", uuid.uuid4().hex)
    await session.send("hello")
    assert requests.made == ["update", "update with start"]
    await session.send("again")
    assert requests.made[2:] == ["update"]


@pytest.mark.parametrize("message", ["hello", Message.user("hello")], ids=["text", "parts"])
async def test_temporal_shows_of_a_conversation_what_it_shows_of_any_run(client, traces, message):
    """Its summary, details and search attributes are set with the first message, which its first workflow task has."""
    session = client.session("test.agent", uuid.uuid4().hex, labels={"team": "shop"})
    turn = await session.send(message, by="ana")
    assert (await turn.result()).text == "hello"
    described = await traces(session.run).handle.describe()
    assert described.typed_search_attributes.get(AGENT) == "test.agent"
    assert await described.static_summary() == "test.agent: `hello`"
    assert "team: shop" in (await described.static_details() or "")
    kinds = [event.event_type for event in await traces(session.run).history()]
    accepted = kinds.index(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
    assert kinds[:accepted].count(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) == 1
    events = [event.type async for event in session.events(follow=False)]
    assert events[:3] == ["run_started", "message_received", "turn_started"]


async def test_two_programs_send_the_first_message_at_once(client):
    """One of them starts the conversation, and each message is delivered once; the same message gives the same turn."""
    for _ in range(10):
        name = uuid.uuid4().hex
        sent = [("a", "one"), ("b", "two"), ("a", "one"), ("c", "three")]
        turns = await asyncio.gather(
            *(client.session("test.agent", name).send(text, message_id=id) for id, text in sent)
        )
        outputs = [(await turn.result()).text for turn in turns]
        assert outputs[0] == outputs[2]
        session = client.session("test.agent", name)
        events = [event async for event in session.events(follow=False)]
        received = [event.message_id for event in events if event.type == "message_received"]
        assert sorted(received) == ["a", "b", "c"]
        assert (await session.status()).turns == 3


@pytest.mark.parametrize(
    ("message", "fields", "why"),
    [
        (" ", {}, "a text that is not empty"),
        ("x" * 256_001, {}, "at most 256,000"),
        ("x", {"message_id": "i" * 201}, "at most 200 characters"),
        ("x", {"mode": "shout"}, "`mode` is one of"),
        ("\ud800", {}, "`text` is a text"),
    ],
)
async def test_a_refused_first_message_starts_nothing(client, message, fields, why):
    """What no conversation would accept is refused before anything starts."""
    session = client.session("test.agent", uuid.uuid4().hex)
    with pytest.raises(InvalidInput, match=re.escape(why)):
        await session.send(message, **fields)
    assert not await session.run.exists()


async def test_a_first_message_whose_sender_gave_up_is_delivered_once(client, caplog):
    """Whenever the sender is cancelled, the message sent again gives one turn, and nothing is logged."""
    for pause in (0.0, 0.002, 0.004, 0.006, 0.01):
        session = client.session("test.agent", uuid.uuid4().hex)
        sending_it = asyncio.create_task(session.send("hello", message_id="m"))
        await asyncio.sleep(pause)
        sending_it.cancel()
        await asyncio.wait({sending_it})
        turn = await session.send("hello", message_id="m")
        assert (await turn.result()).text == "hello"
        assert (await session.status()).turns == 1
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_conversation_that_has_ended_is_not_started_again(client):
    """Not even by a message that finds no run at first; the sender learns that it has ended."""
    session = client.session("test.agent", uuid.uuid4().hex)
    await (await session.send("hello")).result()
    await session.close()
    await session.run.result()
    run = RunInput(agent_id="test.agent", messages=[], conversation=True)

    async def begun(fields):
        return await start_workflow(
            client.temporal,
            session.run.id,
            run,
            client.task_queue,
            argument=run,
            update=("send", fields),
        )

    with pytest.raises(WorkflowAlreadyStartedError):
        await begun({"text": "late"})
    handle = client.temporal.get_workflow_handle(session.run.id)
    with pytest.raises(AwaitClosed, match="has ended"):
        await sending.send(handle, "send", begun, {"text": "late"})


@workflow.defn(name="AgentRun")
class Broken:
    """A version of the workflow that fails every workflow task."""

    @workflow.run
    async def run(self, _given: dict) -> None:
        """Fail the task, not the run."""
        raise RuntimeError("this version is broken")


async def test_a_first_message_that_no_worker_accepts_raises_no_worker(temporal_address, until, monkeypatch):
    """It is accepted by a worker that comes later, and delivered once where it is sent again."""
    monkeypatch.setattr(sending, "ANSWER_DEADLINE", 1.0)
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    session = client.session("test.agent", "broken")
    with pytest.raises(NoWorker, match="no worker polls"):
        await session.send("hello", message_id="m")
    assert not await session.run.exists()
    broken = TemporalWorker(
        client.temporal,
        task_queue=client.task_queue,
        workflows=[Broken],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with broken:
        await until(lambda: client.has_worker(client.task_queue))
        with pytest.raises(NoWorker):
            await session.send("hello", message_id="m")
    monkeypatch.undo()
    async with Worker(App(agents=[Agent("test.agent", planner=plan)]), client):
        turn = await session.send("hello", message_id="m")
        assert (await turn.result()).text == "hello"
        assert (await session.status()).turns == 1


async def test_a_policy_of_the_handle_is_that_of_the_conversation(client):
    """The first message of a handle brings its limits."""
    session = client.session("test.agent", uuid.uuid4().hex, policy=RunPolicyOverride(max_tool_calls=3))
    await (await session.send("hello")).result()
    assert (await session.status()).caps.tool_calls == 3
