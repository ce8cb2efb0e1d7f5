"""The events of one run, through restarts, resets and continued executions.

The restarts are those of the server. A file has all executions of a run as Temporal's JSON: the last execution in
Temporal's own format, with a further field, `earlier`. It has the executions before, oldest first, unless retention has
deleted them. So other programs read the file as the history of the last execution.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from google.protobuf.json_format import ParseError
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import WorkflowExecutionStartedEventAttributes
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.converter import StorageDriver
from temporalio.service import RPCError, RPCStatusCode

from sojourn.archive import Part, load_part, load_segments, read_events
from sojourn.connection.rpc_errors import OutageRetry, is_page_outdated, translate_error
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import Accepted, Message
from sojourn.contracts.run import RunStatus
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.tasks import Archived
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolTelemetry
from sojourn.contracts.wire_names import PROVIDE_TOOL_RESULTS
from sojourn.core.history.fold import END, Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Claim, Packed
from sojourn.errors import RunUnreadable
from sojourn.events.history import HistoryReader
from sojourn.events.reading import MAX_CHAIN, Kept, Reading

__all__ = [
    "Beginning",
    "beginning_of",
    "branches_in_history",
    "events_of",
    "executions_before",
    "export_histories",
    "fetch_histories",
    "find_results",
    "find_update",
    "first_execution",
    "histories_in",
    "memory_in_history",
    "policy_in_history",
    "present_events",
    "present_execution",
    "readable_transcript",
    "records_of",
    "status_in_history",
    "stored_messages",
    "totals_in_history",
    "transcript_of",
    "unreadable_archive",
]


async def events_of(
    client: Client,
    run_id: str,
    storage: StorageDriver | None = None,
    *,
    after: str = "",
    follow: bool,
    anew: bool = True,
    since: str = "",
    kept: Kept | None = None,
) -> AsyncIterator[Event]:
    """Yield the events of a run after an event id, with `follow` until the run ends.

    If retention has deleted executions, and the run has an archive in the storage, their events
    come from there.

    A run that is reset continues in another execution, whose history begins as the old one's. A
    child run that its reset parent starts anew has no history yet, so its events come from the
    beginning, with the ids of the beginning. With `anew=False` they do not come. The parent's own
    events report the new start, and the events end here.

    With `since`, a place in the history, the events begin with the execution of that place, so that
    the executions before it are not read. If `kept` has a cached reading that goes no further than
    `since`, the events begin with that. The reading is cached again when the reader stops.
    """
    last, outage, execution, gone = after, OutageRetry(), "", ""
    known = kept.take(since) if kept else None
    while True:
        try:
            gone, execution = execution, ""
            reading, known = known or await _begin(client, run_id, since, follow=follow), None
            execution = reading.execution
            outage.end_outage()
            async for event in _fold(client, storage, reading, kept):
                if follow and event.type == "run_terminated":
                    newer = await first_execution(client, run_id)
                    is_reset = await _origin(client, run_id, newer) == await _origin(
                        client, run_id, execution
                    )
                    if not (is_reset or anew):
                        return
                    if newer != execution:
                        last = last if is_reset else ""
                        break
                if place_of(event.event_id) > place_of(last):
                    last = event.event_id
                    yield event
                if event.type == END:
                    return
            else:
                return
        except RPCError as error:
            is_gone = error.status == RPCStatusCode.NOT_FOUND and execution not in ("", gone)
            may_retry = follow or is_page_outdated(error)
            if not is_gone and not (may_retry and await outage.may_retry(error)):
                raise translate_error(error, run_id) from error
            # Else retention has just deleted that execution: the events begin with the next one.


async def transcript_of(client: Client, run_id: str, storage: StorageDriver | None) -> list[Message]:
    """Return the recorded transcript of a run."""
    fold = Fold(run_id)
    projection = TranscriptProjection(fold)
    try:
        async for record, events in records_of(
            client, fold, await present_execution(client, run_id), follow=False
        ):
            if isinstance(record.value, Continuation):
                projection.stored = await stored_messages(client, storage, run_id, record.value)
            with readable_transcript(run_id):
                projection.feed(record, events)
    except RPCError as error:
        raise translate_error(error, run_id) from error
    return projection.messages_so_far()


@contextmanager
def readable_transcript(run_id: str) -> Generator[None]:
    """Translate the error of a transcript: any client may have started the run."""
    try:
        yield
    except ValueError as error:
        why = ToolError.from_error(error).message
        raise RunUnreadable(f"the transcript of run {run_id} cannot be read: {why}", run_id=run_id) from error


async def stored_messages(
    client: Client, storage: StorageDriver | None, run_id: str, begins: Continuation
) -> list[Message]:
    """Return the messages that one execution of a run has in external storage."""
    claims = Packed.unpacked(begins.transcript).claims
    try:
        return await load_segments(client, storage, run_id, claims)
    except LookupError as error:
        raise RunUnreadable(f"run {run_id}: {error}", run_id=run_id) from error
    except Exception as error:
        why = ToolError.from_error(error).message
        raise RunUnreadable(
            f"the beginning of the transcript of run {run_id} cannot be read from external storage: {why}",
            run_id=run_id,
        ) from error


async def status_in_history(client: Client, run_id: str) -> RunStatus:
    """Return the recorded status of a run.

    It needs no worker, and works long after the run's end.
    """
    return (await _fold_of_present(client, run_id)).status()


async def totals_in_history(client: Client, run_id: str) -> ToolTelemetry:
    """Return the recorded tokens and cost of a run and its child runs."""
    return (await _fold_of_present(client, run_id)).totals()


async def memory_in_history(client: Client, run_id: str) -> Mapping[str, Any]:
    """Return the recorded memory of a run."""
    return (await _fold_of_present(client, run_id)).state.memory


async def policy_in_history(client: Client, run_id: str) -> RunPolicy:
    """Return the recorded policy, with the agent's from the first plan on."""
    return (await _fold_of_present(client, run_id)).state.policy


async def branches_in_history(client: Client, run_id: str) -> int:
    """Return how often a conversation went on from an earlier point."""
    return (await _fold_of_present(client, run_id)).state.branches


async def find_accepted(client: Client, run_id: str, message_id: str) -> Accepted | None:
    """Return how a conversation accepted a message, or None."""
    inbox = (await _fold_of_present(client, run_id)).state.inbox
    after = inbox.where(message_id)
    if after is None:
        return None
    return Accepted(message_id=message_id, after=after, repeated=True, is_answer=inbox.is_answer(message_id))


async def find_update(client: Client, run_id: str, message_id: str) -> dict[str, Any] | None:
    """Return the update that delivered a message to a run, or None."""
    async with aclosing(_updates(client, run_id)) as updates:
        async for record, fields in updates:
            if record.message_id == message_id:
                return fields
    return None


async def find_results(
    client: Client, run_id: str, await_id: str, call_ids: Collection[str]
) -> tuple[str | None, datetime] | None:
    """Return who sent results of external calls last, and when, or None."""
    async with aclosing(_updates(client, run_id)) as updates:
        async for record, fields in updates:
            results: Any = fields.get("results")
            if record.name != PROVIDE_TOOL_RESULTS or fields.get("id", await_id) != await_id:
                continue
            if isinstance(results, list) and any(
                isinstance(each, dict) and cast("dict[str, Any]", each).get("tool_call_id") in call_ids
                for each in cast("list[Any]", results)
            ):
                return fields.get("by"), record.time
    return None


async def _updates(client: Client, run_id: str) -> AsyncGenerator[tuple[HistoryRecord, dict[str, Any]]]:
    """Yield the accepted updates of a run's present execution, newest first.

    Each comes with its fields. A reader mostly looks for one that was sent just now.
    """
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id=run_id), maximum_page_size=_PAGE
    )
    kind, reader = (
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        HistoryReader(client.data_converter, run_id),
    )
    try:
        while True:
            page = await client.workflow_service.get_workflow_execution_history_reverse(request)
            for event in page.history.events:
                record = await reader.record(event) if event.event_type == kind else None
                if record and record.value and isinstance(record.value[0], dict):
                    yield record, cast("dict[str, Any]", record.value[0])
            if not page.next_page_token:
                return
            request.next_page_token = page.next_page_token
    except RPCError as error:
        raise translate_error(error, run_id) from error


async def _fold_of_present(client: Client, run_id: str) -> Fold:
    fold = Fold(run_id)
    try:
        async for _ in records_of(client, fold, await present_execution(client, run_id), follow=False):
            pass
    except RPCError as error:
        raise translate_error(error, run_id) from error
    return fold


async def records_of(
    client: Client, fold: Fold, execution: str, *, follow: bool
) -> AsyncIterator[tuple[HistoryRecord, list[Event]]]:
    """Yield the records of an execution and of those that continue it.

    Each comes with its events.
    """
    async for each in Reading(client, fold, execution, follow=follow).records():
        yield each


async def present_events(client: Client, run_id: str) -> AsyncGenerator[Event]:
    """Yield the recorded events of a run's present execution.

    Raises:
        RunError: The history cannot be read.
    """
    try:
        execution = await present_execution(client, run_id)
        async for _, events in records_of(client, Fold(run_id), execution, follow=False):
            for event in events:
                yield event
    except RPCError as error:
        raise translate_error(error, run_id) from error


async def _begin(client: Client, run_id: str, since: str, *, follow: bool) -> Reading:
    execution = (
        await execution_after(client, run_id, place_of(since)[0])
        if since
        else await first_execution(client, run_id)
    )
    return Reading(client, Fold(run_id), execution, follow=follow)


async def _fold(
    client: Client, storage: StorageDriver | None, reading: Reading, kept: Kept | None
) -> AsyncIterator[Event]:
    run_id = reading.fold.run_id
    begins = None if reading.place else await beginning_of(client, storage, run_id, reading.execution)
    if begins and storage:
        try:
            async for event in read_events(client, storage, run_id, begins.last):
                yield event
        except Exception as error:
            raise unreadable_archive(run_id, error) from error
        reading = Reading(
            client, Fold(run_id, chain=begins.last.chain), begins.execution, follow=reading.follow
        )
    try:
        async for _, events in reading.records():
            for event in events:
                yield event
    finally:
        if kept:
            kept.put(reading)


async def first_execution(client: Client, run_id: str) -> str:
    """Return the oldest remaining execution of a run's current chain."""
    described = await client.get_workflow_handle(run_id).describe()
    execution = described.run_id
    if described.raw_description.workflow_execution_info.first_run_id in ("", execution):
        return execution
    # The first execution of the run may be one that was reset.
    return (await executions_before(client, run_id, execution, MAX_CHAIN) or [execution])[-1]


async def executions_before(client: Client, run_id: str, execution: str, most: int) -> list[str]:
    """Return the remaining executions that one continues, newest first."""
    found: list[str] = []
    started = await _find_start(client, run_id, execution)
    while started and (before := started.continued_execution_run_id) and len(found) < most:
        try:
            started = await _find_start(client, run_id, before)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            break  # retention has deleted it
        found.append(before)
    return found


async def execution_after(client: Client, run_id: str, executions: int) -> str:
    """Return the last execution with at most this many before it."""
    reader, execution = HistoryReader(client.data_converter), await present_execution(client, run_id)
    while True:
        handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(run_id, run_id=execution)
        async for event in handle.fetch_history_events(page_size=1):
            begins = (await reader.record(event) or HistoryRecord(0, event.event_time.ToDatetime(), "")).value
            before = event.workflow_execution_started_event_attributes.continued_execution_run_id
            if not isinstance(begins, Continuation) or begins.state.executions <= executions:
                return execution
            break
        else:
            return execution
        if not await executions_before(client, run_id, execution, 1):
            return execution
        execution = before


async def present_execution(client: Client, run_id: str) -> str:
    """Return the present or last execution of a run."""
    return (await client.get_workflow_handle(run_id).describe()).run_id


async def _origin(client: Client, run_id: str, execution: str) -> str:
    started = await _find_start(client, run_id, execution)
    return started.first_execution_run_id if started else ""


async def _find_start(
    client: Client, run_id: str, execution: str
) -> WorkflowExecutionStartedEventAttributes | None:
    handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(run_id, run_id=execution)
    async for event in handle.fetch_history_events(page_size=1):
        return event.workflow_execution_started_event_attributes
    return None


_PAGE = 100
"""Events of a page of a history that is read from its end."""


@dataclass(frozen=True)
class Beginning:
    last: Part
    """The last part of the archive that is used."""
    execution: str
    """The first execution after the archived ones."""


async def beginning_of(
    client: Client, storage: StorageDriver | None, run_id: str, oldest: str
) -> Beginning | None:
    """Return the archived beginning of a run whose first executions are deleted.

    The remaining executions are read until one has the claim of the archive.
    """
    left: list[str] = []
    deleted, execution = 0, oldest
    while storage is not None and execution:
        left.append(execution)
        reader, continued = HistoryReader(client.data_converter), ""
        async for event in client.get_workflow_handle(run_id, run_id=execution).fetch_history_events():
            record = await reader.record(event)
            if record is None:
                continue
            begins = record.value
            if record.kind == "started":
                number = begins.state.executions if isinstance(begins, Continuation) else 0
                deleted = deleted if len(left) > 1 else number
                if not deleted or not isinstance(begins, Continuation) or not begins.state.archives:
                    return None
            claim, until = _claim_of(record)
            if claim and until >= deleted and until - deleted < len(left):
                return Beginning(await _read(client, storage, run_id, claim), left[until - deleted])
            continued = record.name if record.kind == "continued" else ""
        execution = continued
    return None


def _claim_of(record: HistoryRecord) -> tuple[Claim | None, int]:
    match record.value:
        case Archived(claim=claim, until=until):
            return claim, until
        case Continuation(state=state) if record.kind == "started":
            return state.archive, state.archived
        case _:
            return None, 0


async def _read(client: Client, storage: StorageDriver, run_id: str, claim: Claim) -> Part:
    try:
        return await load_part(client, storage, run_id, claim)
    except Exception as error:
        raise unreadable_archive(run_id, error) from error


def unreadable_archive(run_id: str, error: Exception) -> RunUnreadable:
    why = ToolError.from_error(error).message
    return RunUnreadable(f"the archived events of run {run_id} cannot be read: {why}", run_id=run_id)


EARLIER = "earlier"


async def fetch_histories(client: Client, run_id: str) -> list[WorkflowHistory]:
    present = await present_execution(client, run_id)
    executions = [*reversed(await executions_before(client, run_id, present, MAX_CHAIN)), present]
    return [
        await client.get_workflow_handle(run_id, run_id=execution).fetch_history() for execution in executions
    ]


def export_histories(histories: Sequence[WorkflowHistory]) -> dict[str, Any]:
    *earlier, last = (json.loads(history.to_json()) for history in histories)
    return {**last, EARLIER: earlier} if earlier else last


def histories_in(text: str) -> list[WorkflowHistory]:
    """Return the histories of one run in the content of a file, oldest first."""
    try:
        last: dict[str, Any] = json.loads(text)
        earlier: list[dict[str, Any]] = last.pop(EARLIER, [])
        run_id = _run_id_of(last)
        if any(_run_id_of(each) != run_id for each in earlier):
            raise ValueError("it has executions of more than one run")
        return [WorkflowHistory.from_json(run_id, each) for each in (*earlier, last)]
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, ParseError) as error:
        why = f"; {error}" if isinstance(error, ParseError) else ""
        raise ValueError(f"not a history{why}") from error


def _run_id_of(history: dict[str, Any]) -> str:
    return cast("str", history["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"])
