"""Stored histories can be forked at any event: the transcript is the origin's, and nothing finished is executed again.

`SOJOURN_CASES` sets the number of forks.
"""

import asyncio
import contextlib
import json
import os
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sojourn import (
    Agent,
    App,
    AwaitClosed,
    Client,
    Message,
    PlanResult,
    Run,
    RunFailed,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Turn,
    Worker,
    data_converter,
)
from sojourn.client.forking import ForkRequest, fork_of, read_histories
from sojourn.contracts.message import Part, ToolResultPart
from sojourn.contracts.run import RunInput
from sojourn.core.history.fold import Fold
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.state import RunState
from sojourn.core.run.transcript import Packed
from sojourn.events import Event, RunStartedEvent
from sojourn.events.history import HistoryReader
from tests.replay import folding

HERE = Path(__file__).parent
OTHERS = {"notice_delivery.json", "tenant_ledger.json"}
"""Histories of workflows that are no runs."""
HISTORIES = sorted(path for path in (HERE / "histories").glob("*.json") if path.name not in OTHERS)
CASES = int(os.environ.get("SOJOURN_CASES", "80"))
AT_ONCE = 20
PATIENCE = 60.0
ANSWER = PlanResult.final("done", result={"guilty": True})  # some callers want a typed answer


@dataclass
class Origin:
    """A stored run."""

    path: Path
    run_id: str
    agent_id: str
    events: list[Event]
    transcripts: dict[str, list[Message]]
    """The transcript after the history event of each event."""
    calls: set[tuple[str, str]]
    """Toolset and tool of every call."""
    is_conversation: bool = False


async def read(path: Path) -> Origin | None:
    """Read a stored run; None for one that never had an input, or whose messages are in a storage that is not here."""
    history = folding.load(path)
    reader, fold = HistoryReader(data_converter), Fold(history.workflow_id)
    projection = TranscriptProjection(fold)
    origin = Origin(path, history.workflow_id, "", [], {}, set())
    for each in history.events:
        record = await reader.record(each)
        if record is None:
            continue
        if record.kind == "started" and not isinstance(record.value, RunInput | Continuation):
            return None
        if isinstance(record.value, Continuation) and Packed.unpacked(record.value.transcript).claims:
            return None
        events = fold.feed(record)
        projection.feed(record, events)
        origin.agent_id = fold.state.opening.agent_id
        origin.is_conversation = fold.state.opening.conversation
        place = events[-1].event_id if events else fold.place_of(record)
        origin.transcripts[place.rpartition("-")[0]] = for_fork(projection.messages_so_far(), fold.state)
        origin.events += events
    for event in origin.events:
        if event.type == "assistant_message":
            names = (call.name.rpartition(".") for call in event.message.tool_calls)
            origin.calls |= {(toolset, tool) for toolset, _, tool in names if toolset}
    return origin


def for_fork(messages: list[Message], state: RunState) -> list[Message]:
    """The transcript without the notice of a limit that no planner has received: the limits of a fork count anew."""
    if state.limit is None or state.safeguards.finalize() is not None:
        return messages
    notice = Message.system(state.limit.notice)
    given = len(messages) - len(state.new) - len(state.resume_messages)
    return [message for n, message in enumerate(messages) if n < given or message != notice]


def is_left_open(result: ToolResult) -> bool:
    return bool(result.error and "which was forked from" in result.error.message)


async def repeat(turn: Turn) -> PlanResult:
    """Request again what was not executed, then answer."""
    last = next((m for m in reversed(turn.messages) if m.tool_results), None)
    left = {r.tool_call_id for r in last.tool_results if is_left_open(r)} if last else set()
    again = [
        ToolRequest(name=call.name, payload=call.payload)
        for message in turn.messages
        for call in message.tool_calls
        if call.tool_call_id in left
    ]
    return PlanResult.calls(*again) if again and not turn.finalize else ANSWER


class Counting:
    """Carries out every call, and counts what it has executed."""

    def __init__(self) -> None:
        self.done = Counter[tuple[str, str]]()
        self.keys = Counter[str]()

    async def execute(self, meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
        self.done[meta.run_id, meta.tool_call_id] += 1
        self.keys[meta.idempotency_key] += 1
        return ToolResult(result="executed")


@pytest.fixture(scope="module")
async def origins() -> list[Origin]:
    """All stored runs that had an input."""
    return [origin for path in HISTORIES if (origin := await read(path))]


@pytest.fixture(scope="module")
async def executor() -> Counting:
    """What the forks execute."""
    return Counting()


@pytest.fixture(scope="module")
async def client(temporal_address: str, origins: list[Origin], executor: Counting) -> AsyncIterator[Client]:
    """A client of a worker that has every agent and tool of the stored runs, under the same names."""
    names = {pair for origin in origins for pair in origin.calls}
    toolsets = [Toolset(name) for name in sorted({toolset for toolset, _ in names})]
    for toolset in toolsets:
        for tool in sorted(tool for owner, tool in names if owner == toolset.id):
            toolset.declare(tool, args=dict[str, Any], result=Any)
    agents = [Agent(id, planner=repeat, uses=toolsets) for id in sorted({o.agent_id for o in origins})]
    app = App(agents=agents, executors=dict.fromkeys(toolsets, executor), allow_loosening=True)
    connected = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, connected):
        yield connected


async def forked(client: Client, origin: Origin, at: str) -> Run:
    """Fork a stored run at an event, with an answer or a message where it waits there."""
    asked = ForkRequest(origin.run_id, at)
    found = await fork_of(client.temporal, asked, read_histories(origin.run_id, origin.path))
    waits_for = found.begins.waits_for
    given: dict[str, Any] = {}
    if waits_for:
        given = {"answer": "s-1"} if waits_for.await_ else {"message": "go on"}
    return await client.fork(origin.run_id, at=at, history=origin.path, wait_for_worker=True, **given)


def is_new(part: Part, known: set[str]) -> bool:
    """Whether a part is a result that the origin's events do not have yet, since the call was left open, or just canceled."""
    if not isinstance(part, ToolResultPart) or part.result.tool_call_id in known:
        return False
    return is_left_open(part.result) or bool(part.result.error and part.result.error.code == "canceled")


def differs(origin: Origin, events: list[Event], transcript: list[Message], done: set[str]) -> str:
    """What a fork has other than it should, empty where nothing."""
    started = events[0]
    assert started.type == "run_started"
    assert started.forked_from is not None
    before = origin.transcripts[started.forked_from.event_id.rpartition("-")[0]]
    known = {result.tool_call_id for message in before for result in message.tool_results}
    kept = [
        message.model_copy(update={"parts": [part for part in message.parts if not is_new(part, known)]})
        for message in transcript[: len(before)]
    ]
    if kept != before:
        ours, its = [
            [message.model_dump_json(exclude_defaults=True) for message in each] for each in (kept, before)
        ]
        at = next((n for n, pair in enumerate(zip(ours, its, strict=False)) if pair[0] != pair[1]), len(ours))
        return f"message {at} is not the origin's:\n{ours[at:]}\n{its[at:]}"
    results = [result for message in transcript[: len(before)] for result in message.tool_results]
    finished = {result.tool_call_id for result in results}
    if done & finished:
        return f"{done & finished} were answered, and are executed again"
    left = [result.name for result in results if is_left_open(result)]
    begun = [event.call.name for event in events if event.type == "tool_start"]
    return "" if not Counter(begun) - Counter(left) else f"{begun} began, of {left}"


async def test_a_fork_at_any_event_executes_nothing_again(
    client: Client, origins: list[Origin], executor: Counting
) -> None:
    """Each fork answers, with the origin's transcript up to its point, and executes only calls that had no result there."""
    room = asyncio.Semaphore(AT_ONCE)
    seen = Counter[str]()

    async def check(origin: Origin, at: str) -> str:
        async with room:
            run = await forked(client, origin, at)
            try:
                async with asyncio.timeout(PATIENCE):
                    if origin.path.stem == "policy_asks":
                        with contextlib.suppress(AwaitClosed):
                            await run.until_waiting()
                            await run.answer("s-1")
                    if origin.is_conversation:
                        await run.close()
                    await run.result()
            except (TimeoutError, RunFailed) as error:
                return (
                    f"{origin.path.stem} at {at}: {error!r}, {(await run.status()).model_dump_json()[:300]}"
                )
            events = [event async for event in run.events(follow=False)]
            done = {call_id for run_id, call_id in executor.done if run_id == run.id}
            seen["executed"] += len(done)
            seen["left open"] += any(
                map(is_left_open, (r for m in await run.transcript() for r in m.tool_results))
            )
            wrong = differs(origin, events, await run.transcript(), done)
            return f"{origin.path.stem} at {at}: {wrong}" if wrong else ""

    cases = [origins[n % len(origins)] for n in range(CASES)]
    points = [  # of dice of their own, so that a new history leaves those of the others as they are
        (origin, random.Random(f"{n // len(origins)} {origin.path.stem}").choice(origin.events).event_id)
        for n, origin in enumerate(cases)
        if origin.events
    ]
    wrong = await asyncio.gather(*(check(*point) for point in points))
    faults = "\n".join(filter(None, wrong))
    assert not faults, faults
    assert set(executor.done.values()) <= {1}
    assert set(executor.keys.values()) <= {1}
    print(f"{len(points)} forks, {dict(seen)}")
    assert seen["left open"] > CASES / 100


def test_a_difference_is_seen() -> None:
    """A transcript with another message, and a call that is executed again, are told."""
    message = Message.results([ToolResult(name="a.b", tool_call_id="c1", result=1)])
    origin = Origin(HERE, "r", "a.b", [], {"0-000001": [message]}, set())
    line = {"run_id": "f", "type": "run_started", "time": "2026-01-01T00:00:00Z"}
    started = RunStartedEvent.model_validate_json(
        json.dumps({**line, "forked_from": {"run_id": "r", "event_id": "0-000001-00000"}})
    )
    assert differs(origin, [started], [message], set()) == ""
    assert "executed again" in differs(origin, [started], [message], {"c1"})
    assert "is not" in differs(origin, [started], [Message.user("x")], set())
