"""Transcripts: a plan gets the right transcript, whatever the worker's cache holds."""

import asyncio
import uuid

import pytest

import sojourn.worker
from activities.execute_tool import ExecuteToolActivity
from activities.plan import PlanActivity
from activities.transcripts import Transcripts
from sojourn import Agent, App, Client, Message, PlanResult, RunFailed, Toolset, Worker
from sojourn.contracts.tasks import PlanTask
from sojourn.testing import ScriptedPlanner
from sojourn.values.wire import size_of
from sojourn.worker import Shell
from workflows.agent_run import AgentRun

RUN = ("run", "execution")


class QueryRecorder(Transcripts):
    """A cache that records its queries instead of sending them to the run."""

    def __init__(self, **bounds: int) -> None:
        super().__init__(**bounds)
        self.queries: list[tuple[int, int]] = []

    async def _ask(self, key: tuple[str, str], after: int, until: int) -> list[Message]:
        self.queries.append((after, until))
        return messages_of("asked", until - after)


def messages_of(word: str, count: int) -> list[Message]:
    """Return `count` messages of 5 letters each, which have the same size."""
    return [Message.user(f"{word[:5]:5}") for _ in range(count)]


def task(after: int, *, plan: int = 2, accepted: int = 1, until: int | None = None) -> PlanTask:
    """A plan's input, whose new messages follow the first `after` messages; with `until` they are passed by position."""
    new = [] if until else [Message.user("new")]
    return PlanTask(agent_id="a.b", plan=plan, after=after, new=new, until=until, accepted_attempt=accepted)


async def test_the_entry_of_the_previous_plan_is_used():
    """The entry of the previous plan, made by its accepted attempt, is used without a query."""
    cache = QueryRecorder()
    cache.keep(RUN, messages_of("kept", 3), plan=1, attempt=1)
    assert await cache.read(RUN, task(3)) == [*messages_of("kept", 3), Message.user("new")]
    assert (cache.queries, cache.hits, cache.misses) == ([], 1, 0)


async def test_the_first_plan_needs_no_cache():
    """A plan without earlier messages needs neither an entry nor a query."""
    cache = QueryRecorder()
    assert await cache.read(RUN, task(0, plan=1)) == [Message.user("new")]
    assert (cache.queries, cache.hits, cache.misses) == ([], 0, 0)


async def test_an_entry_of_another_attempt_is_not_used(subtests: pytest.Subtests) -> None:
    """An entry whose length, plan or attempt is not the accepted one is ignored: the run is queried."""
    rows = [
        (task(4), "the run has gone further on another worker"),
        (task(2), "the entry is of a plan that was never accepted"),
        (task(3, accepted=2), "a late attempt made the entry"),
        (task(3, plan=3), "an older plan made the entry"),
        (task(3, plan=1), "this same plan made the entry, in an attempt before"),
    ]
    for wanted, why in rows:
        with subtests.test(wanted=wanted, why=why):
            cache = QueryRecorder()
            cache.keep(RUN, messages_of("kept", 3), plan=1, attempt=1)
            assert await cache.read(RUN, wanted) == [*messages_of("asked", wanted.after), Message.user("new")]
            assert (cache.queries, cache.misses) == ([(0, wanted.after)], 1)


async def test_an_entry_of_another_execution_is_not_used():
    """An entry of an earlier execution with the same workflow id is not used."""
    cache = QueryRecorder()
    cache.keep(("run", "before"), messages_of("kept", 3), plan=1, attempt=1)
    await cache.read(RUN, task(3))
    assert cache.queries == [(0, 3)]


async def test_by_default_25_megabytes_are_kept():
    """A worker's cache holds the transcripts of its runs up to 25 MB together, and drops the oldest beyond."""
    cache = QueryRecorder()
    for number in range(26):
        cache.keep((f"run-{number}", "execution"), [Message.user("x" * 1_000_000)], plan=1, attempt=1)
    for number in range(26):
        await cache.read((f"run-{number}", "execution"), task(1))
    assert (cache.hits, cache.misses) == (24, 2)
    assert 24_000_000 < cache.bytes <= 25_000_000


async def test_large_messages_are_queried():
    """New messages that are passed by position are queried: after the known messages, or from the start."""
    cache = QueryRecorder()
    assert await cache.read(RUN, task(3, until=5)) == messages_of("asked", 5)
    cache.keep(RUN, messages_of("kept", 3), plan=1, attempt=1)
    assert await cache.read(RUN, task(3, until=5)) == [*messages_of("kept", 3), *messages_of("asked", 2)]
    assert cache.queries == [(0, 5), (3, 5)]


def keys(count: int) -> list[tuple[str, str]]:
    """Return the cache keys of `count` runs."""
    return [(f"run-{number}", "execution") for number in range(count)]


async def test_entries_are_bounded():
    """Beyond `max_entries` the least recently used run is removed."""
    cache = QueryRecorder(max_entries=2)
    one, two, three = keys(3)
    for key in (one, two):
        cache.keep(key, messages_of("kept", 1), plan=1, attempt=1)
    await cache.read(one, task(1))
    cache.keep(three, messages_of("kept", 1), plan=1, attempt=1)
    for key in (one, two, three):
        await cache.read(key, task(1))
    assert (cache.hits, cache.misses) == (3, 1)
    assert cache.bytes == 2 * size_of(messages_of("kept", 1)[0])


async def test_bytes_are_bounded():
    """Beyond `max_bytes` the least recently used runs are removed; a transcript larger than `max_bytes` is not kept."""
    size = size_of(messages_of("kept", 1)[0])
    cache = QueryRecorder(max_bytes=5 * size)
    one, two, three = keys(3)
    cache.keep(one, messages_of("kept", 2), plan=1, attempt=1)
    cache.keep(two, messages_of("kept", 3), plan=1, attempt=1)
    assert cache.bytes == 5 * size
    cache.keep(three, messages_of("kept", 1), plan=1, attempt=1)
    assert cache.bytes == 4 * size
    cache.keep(two, messages_of("kept", 6), plan=2, attempt=1)
    assert cache.bytes == size
    await cache.read(three, task(1))
    assert (cache.hits, cache.misses) == (1, 0)


async def test_bytes_are_those_of_what_is_kept():
    """`bytes` stays right when a transcript grows, is replaced by another attempt's, or is dropped."""
    size = size_of(messages_of("kept", 1)[0])
    cache = QueryRecorder()
    cache.keep(RUN, messages_of("kept", 2), plan=1, attempt=1)
    known = await cache.read(RUN, task(2))
    grown = [*known[:2], *messages_of("more", 2)]
    cache.keep(RUN, grown, plan=2, attempt=1)
    assert cache.bytes == 4 * size
    cache.keep(RUN, messages_of("other", 1), plan=2, attempt=2)
    assert cache.bytes == size
    cache.drop(RUN)
    cache.drop(RUN)
    assert cache.bytes == 0


async def test_the_returned_list_is_a_copy():
    """A planner that changes its list of messages does not change the cache."""
    cache = QueryRecorder()
    cache.keep(RUN, messages_of("kept", 2), plan=1, attempt=1)
    (await cache.read(RUN, task(2))).clear()
    assert (await cache.read(RUN, task(2)))[:2] == messages_of("kept", 2)


async def test_two_runs_and_room_for_one(temporal_address, monkeypatch):
    """Two runs that share a cache of one entry get their own messages at every plan, by the query."""
    desk, received = Toolset("test.desk"), dict[str, list[list[str]]]()
    both, called = asyncio.Barrier(2), asyncio.Barrier(2)

    @desk.tool
    async def write(text: str) -> str:
        """Write a note."""
        await called.wait()  # both runs have kept their transcript before either reads it again
        return f"wrote {text}"

    def step(number: int):
        async def plan(turn):
            await both.wait()  # both runs have read their transcript before either keeps its own
            texts = [message.text for message in turn.messages if message.role == "user"]
            results = [str(result.result) for message in turn.messages for result in message.tool_results]
            received.setdefault(turn.run.run_id, []).append(texts + results)
            if number == 3:
                return PlanResult.final("done")
            return PlanResult.calls(write.call(text=f"{texts[0]}-{number}"))

        return plan

    transcripts = Transcripts(max_entries=1)
    app = App(agents=[Agent("test.agent", planner=ScriptedPlanner([step(n) for n in range(4)]), uses=[desk])])
    activities = [PlanActivity(app, transcripts).plan, ExecuteToolActivity(app).execute_tool]
    monkeypatch.setattr(sojourn.worker, "shell", lambda app, **_: Shell([AgentRun], activities))
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        runs = [await client.start("test.agent", word) for word in ("red", "blue")]
        await asyncio.gather(*(run.result() for run in runs))
    for run, word in zip(runs, ("red", "blue"), strict=True):
        wrote = [f"wrote {word}-{number}" for number in range(3)]
        assert received[run.id] == [[word, *wrote[:count]] for count in range(4)]
    assert (transcripts.hits, transcripts.misses) == (3, 3)


async def test_a_conversation_keeps_its_transcript_between_turns(temporal_address, monkeypatch):
    """The planner of a later message gets the transcript from memory, also after a turn with calls, and one that failed by its planner's word."""
    desk = Toolset("test.desk")

    @desk.tool
    async def write(text: str) -> str:
        """Write a note."""
        return f"wrote {text}"

    async def plan(turn):
        said = turn.messages[-1]
        if said.role == "tool":
            return PlanResult.final("written")
        if said.text == "fail":
            return PlanResult.fail("no")
        if said.text == "write":
            return PlanResult.calls(write.call(text="x"))
        return PlanResult.final(
            ", ".join(message.text for message in turn.messages if message.role == "user")
        )

    transcripts = Transcripts()
    app = App(agents=[Agent("test.agent", planner=plan, uses=[desk])])
    activities = [PlanActivity(app, transcripts).plan, ExecuteToolActivity(app).execute_tool]
    monkeypatch.setattr(sojourn.worker, "shell", lambda app, **_: Shell([AgentRun], activities))
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        session = client.session("test.agent", "kept")
        for text in ("hello", "write"):
            await (await session.send(text)).result()
        with pytest.raises(RunFailed, match="no"):
            await (await session.send("fail")).result()
        assert (await (await session.send("bye")).result()).text == "hello, write, fail, bye"
        assert (transcripts.hits, transcripts.misses) == (4, 0)


async def test_a_run_that_ends_leaves_nothing_behind(temporal_address, monkeypatch):
    """The transcript of a run that has its answer is no longer kept."""
    transcripts = Transcripts()
    app = App(agents=[Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")]))])
    monkeypatch.setattr(
        sojourn.worker, "shell", lambda app, **_: Shell([AgentRun], [PlanActivity(app, transcripts).plan])
    )
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        await (await client.start("test.agent", "hello")).result()
    assert transcripts.bytes == 0
