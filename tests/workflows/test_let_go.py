"""What a worker keeps of a run, such as its transcript, goes with the run: with its eviction and with its end."""

import uuid

import pytest
import temporalio.client
import temporalio.worker
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from sojourn import Agent, App, Client, ModelPlanner, SojournPlugin, Worker
from sojourn.serving import run_cache
from sojourn.serving.run_cache import evict

EVERY = 0.05
FREED_AFTER = 0.3


async def count(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Answer with the number of the user's messages."""
    said = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return ModelResponse(parts=[TextPart(str(len(said)))])


def make_app(**options) -> App:
    return App(agents=[Agent("test.counter", planner=ModelPlanner(FunctionModel(count)))], **options)


def keepers(run_id: str) -> int:
    """How many caches of this process keep something of a run."""
    return sum(run_id in each._slots for each in list(run_cache._everything))


async def say(session) -> str:
    """Send a message, and return the answer."""
    return (await (await session.send("more")).result()).text


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(run_cache, "LOOKED_AT_EVERY", EVERY)
    monkeypatch.setattr(run_cache, "FREED_AFTER", FREED_AFTER)


@pytest.fixture
async def serving(temporal_address):
    """A client, and the worker that serves it."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(make_app(), client) as worker:
        yield client, worker


async def others_are_let_go(until) -> None:
    """Wait until the worker has let go of a run that is not in its memory, and that is kept from now on."""
    witness = run_cache.RunCache[str](1, 1)
    witness.keep("nobody", "", 0)
    await until(lambda: len(witness) == 0)


async def test_an_idle_conversation_in_memory_keeps_its_transcript(serving, until):
    """While its run is in the worker's memory, the transcript stays, however long nobody sends a message."""
    client, _ = serving
    session = client.session("test.counter", f"desk-{uuid.uuid4().hex[:8]}")
    assert [await say(session) for _ in range(2)] == ["1", "2"]
    await others_are_let_go(until)
    assert (
        keepers(session.run.id) == 3
    )  # the transcript, what the model reads, and the tools that it is offered
    assert await say(session) == "3"


async def test_an_evicted_conversation_costs_nothing(serving, until):
    """Soon after its eviction nothing is kept of it; the next message is answered from the whole transcript."""
    client, worker = serving
    session = client.session("test.counter", f"desk-{uuid.uuid4().hex[:8]}")
    assert [await say(session) for _ in range(2)] == ["1", "2"]
    (execution,) = worker._present.workflows

    def is_let_go() -> bool:
        if worker._present.run_ids:
            evict(worker._worker, execution)  # a run whose workflow task is still ending is not evicted
        return keepers(session.run.id) == 0

    await until(is_let_go)
    assert worker._present.run_ids == set()
    assert await say(session) == "3"
    assert keepers(session.run.id) == 3


async def test_a_conversation_that_ends_leaves_nothing(serving, until):
    """Soon after it was closed nothing is kept of a conversation."""
    client, _ = serving
    session = client.session("test.counter", f"desk-{uuid.uuid4().hex[:8]}")
    assert [await say(session) for _ in range(2)] == ["1", "2"]
    await session.close()
    await session.run.result()
    await until(lambda: keepers(session.run.id) == 0)


async def test_a_users_own_worker_lets_go(temporal_address, until):
    """A worker with `SojournPlugin`, whose workflows run in the sandbox, keeps a conversation in memory, and nothing of an ended one."""
    queue = f"q-{uuid.uuid4().hex[:8]}"
    plugin = SojournPlugin(make_app())
    temporal = await temporalio.client.Client.connect(temporal_address, plugins=[plugin])
    async with temporalio.worker.Worker(temporal, task_queue=queue):
        session = Client(temporal, task_queue=queue).session("test.counter", f"desk-{uuid.uuid4().hex[:8]}")
        assert [await say(session) for _ in range(2)] == ["1", "2"]
        assert plugin._present.run_ids == {session.run.id}
        await session.close()
        await session.run.result()
        await until(lambda: keepers(session.run.id) == 0)
        assert plugin._present.run_ids == set()
