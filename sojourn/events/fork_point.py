"""Find the point at which a run is forked.

The run is read from its history on the server, or from an exported one.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from temporalio.client import Client, WorkflowHistory
from temporalio.converter import StorageDriver

from sojourn.connection.rpc_errors import unreadable
from sojourn.contracts.event import Event
from sojourn.core.history.fold import Fold
from sojourn.core.history.fork_points import ForkPoints
from sojourn.core.history.record import HistoryRecord
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.errors import RunUnreadable
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import (
    first_execution,
    present_execution,
    readable_transcript,
    records_of,
    stored_messages,
)

__all__ = ["ForkOrigin", "origin_in_file", "origin_on_server"]

Records = AsyncIterator[tuple[HistoryRecord, list[Event]]]


@dataclass(slots=True)
class ForkOrigin:
    points: ForkPoints
    task_queue: str
    """The task queue of the run."""
    execution: str
    """The execution that has the last event read."""
    event: Event | None = None
    """The requested event; None if the caller requested none, or the run has no such event."""
    oldest: str = ""
    """The id of the oldest remaining event."""
    last_call: str = ""
    """The call that was answered last."""
    last_wait: str = ""
    """The last wait for an approval."""


async def origin_on_server(
    client: Client, run_id: str, at: str | None, storage: StorageDriver | None
) -> ForkOrigin:
    """Read a run up to an event, or its last execution if no event is given.

    The last execution begins with the state of all that happened before.
    """
    described = await client.get_workflow_handle(run_id).describe()
    execution = await (first_execution if at else present_execution)(client, run_id)
    fold = Fold(run_id)
    origin = ForkOrigin(ForkPoints(fold), described.task_queue, execution)
    await _read(origin, _with_stored(origin, client, storage, execution), at)
    return origin


async def _with_stored(
    origin: ForkOrigin, client: Client, storage: StorageDriver | None, execution: str
) -> Records:
    fold = origin.points.fold
    async for record, events in records_of(client, fold, execution, follow=False):
        if isinstance(record.value, Continuation) and not origin.event:
            stored = await stored_messages(client, storage, fold.run_id, record.value)
            origin.points.transcript.stored = stored
        yield record, events


async def origin_in_file(
    client: Client, histories: Sequence[WorkflowHistory], at: str | None, storage: StorageDriver | None
) -> ForkOrigin:
    """Read exported histories up to an event."""
    fold = Fold(histories[0].workflow_id)
    queue = histories[-1].events[0].workflow_execution_started_event_attributes.task_queue.name
    origin = ForkOrigin(ForkPoints(fold), queue, "")
    await _read(origin, _read_exported(origin, client, storage, histories), at)
    return origin


async def _read_exported(
    origin: ForkOrigin, client: Client, storage: StorageDriver | None, histories: Sequence[WorkflowHistory]
) -> Records:
    reader, fold, transcript = (
        HistoryReader(client.data_converter),
        origin.points.fold,
        origin.points.transcript,
    )
    for number, history in enumerate(histories):
        started = history.events[0].workflow_execution_started_event_attributes
        origin.execution = started.original_execution_run_id or history.run_id
        for event in history.events:
            record = await reader.record(event)
            if reader.unreadable or reader.opening_unreadable:
                raise unreadable(history.workflow_id, reader.unreadable or reader.opening_unreadable)
            if record and isinstance(record.value, Continuation) and not origin.event:
                transcript.stored = (
                    transcript.messages[: Packed.unpacked(record.value.transcript).stored_count]
                    if number
                    else await stored_messages(client, storage, fold.run_id, record.value)
                )
            if record:
                yield record, fold.feed(record)


async def _read(origin: ForkOrigin, records: Records, at: str | None) -> None:
    """The points include the whole history event that the wanted event belongs to."""
    try:
        await _read_all(origin, records, at)
    except RunUnreadable:
        # A fork before the unreadable part is the way around it. The effects after it stay unknown.
        if not origin.event:
            raise


async def _read_all(origin: ForkOrigin, records: Records, at: str | None) -> None:
    async for record, events in records:
        if origin.event:
            origin.points.effects.feed(events)
            continue
        with readable_transcript(origin.points.fold.run_id):
            origin.points.feed(record, events)
        for event in events:
            origin.oldest = origin.oldest or event.event_id
            if event.type == "tool_end":
                origin.last_call = event.tool_call_id
            elif event.type == "await_confirmation":
                origin.last_wait = event.confirmation.id
            if event.event_id == at:
                origin.event = event
        if not origin.event and record.kind == "continued":
            origin.execution = record.name
