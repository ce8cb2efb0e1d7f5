"""The transcript of a long run goes to external storage, a part with each execution; only that run reads it."""

import importlib
import random
import shutil
import uuid

import pytest
from temporalio.client import Client as TemporalClient

from sojourn import Agent, App, Client, InvalidInput, RunFailed, RunPolicy, Toolset
from sojourn.core.run.continuation import KEY
from sojourn.errors import RunUnreadable
from sojourn.events import one_run
from sojourn.storage import FolderStorage
from tests.workflows.test_endless import counting, flood, shorter

__all__ = ["shorter"]

POLICY = RunPolicy(max_tool_calls=100_000, max_tool_rounds=100_000, interrupts_allowed=True)
archive = importlib.import_module("workflows.continue_as_new")
tools = Toolset("long.tools")


@tools.tool
async def note(n: int) -> str:
    """Note a number."""
    return f"{n}" + "x" * 50


def long_app(count: int, storage=None, *, ask_at: int = -1) -> App:
    agent = Agent("test.agent", planner=counting(count, ask_at=ask_at), uses=[tools], policy=POLICY)
    return App(agents=[agent], storage=storage)


async def arguments(client: Client, run_id: str) -> list[dict]:
    """The argument of each execution that continues another, oldest first."""
    found, execution = [], await one_run.first_execution(client.temporal, run_id)
    while execution:
        handle = client.temporal.get_workflow_handle(run_id, run_id=execution)
        execution = ""
        async for event in handle.fetch_history_events():
            continued = event.workflow_execution_continued_as_new_event_attributes
            if continued.new_execution_run_id:
                (value,) = await client.temporal.data_converter.decode(continued.input.payloads)
                found.append(value[KEY])
                execution = continued.new_execution_run_id
    return found


def answer_of(count: int) -> str:
    return ",".join(f"{n}" + "x" * 50 for n in range(count))


async def test_each_message_is_stored_once(shorter, serve, tmp_path):
    """An execution's argument has a claim for each execution before it, and no message; planners and readers get them all."""
    client = await serve(long_app(20, FolderStorage(tmp_path)), storage=FolderStorage(tmp_path))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(20)
    continued = await arguments(client, run.id)
    assert len(continued) >= 5
    for number, state in enumerate(continued, 1):
        assert [type(claim) for _, claim in state["transcript"]] == [dict] * number
        assert state["transcript"][: number - 1] == (
            [] if number == 1 else continued[number - 2]["transcript"]
        )
    assert len(list(tmp_path.glob("*/*"))) == len(continued)
    transcript = await run.transcript()
    assert [m.tool_results[0].result for m in transcript if m.role == "tool"] == answer_of(20).split(",")
    assert len(transcript) == 42


async def test_the_transcript_of_an_open_run(shorter, serve, tmp_path):
    """A run that waits shows the whole transcript to readers, and its planner goes on with it."""
    client = await serve(long_app(16, ask_at=12), storage=None)
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    await flood(run, 20)
    before = await run.transcript()
    assert (len(before), before[-1].text) == (26, "on?")
    await run.answer(wait, "yes")
    assert (await run.result()).text == answer_of(16)
    assert (await run.transcript())[: len(before)] == before


async def test_without_storage_the_run_carries_its_transcript(no_storage, shorter, serve):
    """Where the workers have no storage the messages are in the argument itself."""
    client = await serve(long_app(20))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(20)
    continued = await arguments(client, run.id)
    assert len(continued) >= 3
    assert {type(data) for state in continued for _, data in state["transcript"]} == {str}
    assert len(await run.transcript()) == 42


class Broken(FolderStorage):
    """A storage that takes nothing for a while."""

    refused, taken, fails_for = 0, 0, 1_000

    async def store(self, context, payloads):
        if self.refused < self.fails_for:
            self.refused += 1
            raise OSError("the disk is full")
        self.taken += 1
        return await super().store(context, payloads)


async def test_a_storage_that_fails(shorter, serve, tmp_path, monkeypatch):
    """The run goes on nevertheless, and carries the messages itself; it waits for the storage once, not in each execution."""
    monkeypatch.setattr(archive, "STORE_ATTEMPTS", 2)
    storage = Broken(tmp_path)
    client = await serve(long_app(16, storage))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(16)
    kinds = [event.type async for event in run.events()]
    assert kinds.count("run_continued") >= 2
    assert storage.refused == kinds.count("run_continued") + 1
    assert len(await run.transcript()) == 34


async def test_a_storage_that_is_mended(shorter, serve, tmp_path, monkeypatch):
    """The next execution tries once, and stores what those before it carried."""
    monkeypatch.setattr(archive, "STORE_ATTEMPTS", 2)
    storage = Broken(tmp_path)
    storage.fails_for = 3
    client = await serve(long_app(20, storage), storage=storage)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == answer_of(20)
    kinds = [event.type async for event in run.events()]
    assert (storage.refused, storage.taken) == (3, kinds.count("run_continued") - 2)
    last = (await arguments(client, run.id))[-1]
    assert not last["state"].get("storage_fails", False)
    assert len(await run.transcript()) == 42


async def test_a_transcript_too_large_to_carry(no_storage, shorter, serve, monkeypatch):
    """Without storage such a run stays in its execution, tries again after more events, and answers."""
    monkeypatch.setattr(importlib.import_module("sojourn.core.run.continuation"), "MAX_BYTES", 10)
    monkeypatch.setattr(importlib.import_module("workflows.history_budget"), "TRY_AGAIN_EVENTS", 100)
    client = await serve(long_app(30, ask_at=20))
    run = await client.start("test.agent", "go")
    await run.until_waiting()
    await flood(run, 30)
    await run.answer("yes")
    assert (await run.result()).text == answer_of(30)
    kinds = [event.type async for event in run.events()]
    assert (kinds.count("run_continued"), kinds.count("await_clarification")) == (0, 1)


async def test_a_reader_without_the_storage_is_told(shorter, serve, tmp_path):
    """A client without the storage cannot read the transcript, but events, status and result."""
    client = await serve(
        long_app(16, FolderStorage(tmp_path / "far")), storage=FolderStorage(tmp_path / "other")
    )
    run = await client.start("test.agent", "go")
    await run.result()
    assert [event.type async for event in run.events()][-1] == "run_stream_end"
    with pytest.raises(RunUnreadable, match="cannot be read from external storage"):
        await run.transcript()
    client.storage = None
    with pytest.raises(RunUnreadable, match=r"Client.connect\(storage="):
        await run.transcript()


async def test_a_planner_waits_for_a_storage_that_is_away(shorter, serve, tmp_path):
    """A plan that cannot read the transcript is attempted again until the storage is back."""
    client = await serve(long_app(16, FolderStorage(tmp_path / "here"), ask_at=10))
    run = await client.start("test.agent", "go")
    (wait,) = await run.until_waiting()
    await flood(run, 20)  # the run goes on, and no worker has its transcript in memory
    shutil.move(tmp_path / "here", tmp_path / "away")
    await run.answer(wait, "yes")
    async for event in run.events():
        if event.type == "tool_retry":
            assert "No such file" in event.error
            break
    shutil.move(tmp_path / "away", tmp_path / "here")
    assert (await run.result()).text == answer_of(16)


async def test_a_claim_opens_nothing_of_another_run(shorter, serve, tmp_path):
    """A state that somebody made up, with the claims of another run, fails its run; it shows no message of the other."""
    storage = FolderStorage(tmp_path)
    client = await serve(long_app(16, storage), storage=storage)
    run = await client.start("test.agent", "the secret")
    await run.result()
    state = (await arguments(client, run.id))[-1]
    temporal: TemporalClient = client.temporal
    handle = await temporal.start_workflow(
        "AgentRun", {KEY: state}, id=f"odd-{uuid.uuid4().hex}", task_queue=client.task_queue
    )
    other = client.get_run(handle.id)
    async for event in other.events():
        if event.type == "tool_retry":
            assert f"is of run {run.id}, not of {handle.id}" in event.error
            break
    with pytest.raises(RunUnreadable, match="is of run"):
        await other.transcript()
    await other.cancel()


@pytest.mark.parametrize(
    ("transcript", "why"),
    [
        ([[1, "eJw="], [1, {"sha256": "a"}]], "a segment in storage follows one that is not"),
        ([[1, {"a": 2}]], "transcript"),
    ],
    ids=["order", "kind"],
)
async def test_an_impossible_transcript_is_refused(serve, transcript, why):
    """A start with a damaged transcript fails its run with what is wrong."""
    client = await serve(long_app(1))
    opening = {"agent_id": "test.agent", "messages": []}
    state = {KEY: {"state": {"opening": opening}, "transcript": transcript}}
    handle = await client.temporal.start_workflow(
        "AgentRun", state, id=f"odd-{uuid.uuid4().hex}", task_queue=client.task_queue
    )
    with pytest.raises(RunFailed, match=why):
        await client.get_run(handle.id).result()


async def test_a_fork_has_what_its_origin_stored(shorter, serve, tmp_path):
    """Forks of a run whose transcript is in storage have all of its messages, early and late in the run."""
    storage = FolderStorage(tmp_path)
    client = await serve(long_app(12, storage), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    ends = [event.event_id async for event in run.events() if event.type == "tool_end"]
    whole = await run.transcript()
    early = await client.fork(run.id, at=ends[6])
    late = await client.fork(run.id, message="and now?")
    for fork, known in ((early, 2 * 7 + 1), (late, len(whole))):
        assert (await fork.result()).text == answer_of(12)
        assert (await fork.transcript())[:known] == whole[:known]


async def test_a_fork_too_large_for_its_start(serve, tmp_path, no_storage, monkeypatch):
    """The transcript of a fork that is too large for one payload is stored; without storage the fork is refused."""
    monkeypatch.setattr(importlib.import_module("sojourn.core.run.continuation"), "MAX_BYTES", 6_000)
    storage = FolderStorage(tmp_path)
    client = await serve(long_app(10, storage), storage=storage)
    run = await client.start("test.agent", random.Random(1).randbytes(6_000).hex())
    await run.result()
    fork = await client.fork(run.id, message="again")
    assert (await fork.result()).text == answer_of(10)
    assert len(await fork.transcript()) == len(await run.transcript()) + 2
    client.storage = None
    with pytest.raises(InvalidInput, match="storage="):
        await client.fork(run.id, message="again")
