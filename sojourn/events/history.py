"""Decode Temporal's history events into the fold's records."""

from dataclasses import replace
from datetime import UTC as _UTC
from typing import Any, cast

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import (
    HistoryEvent,
    WorkflowExecutionCancelRequestedEventAttributes,
    WorkflowExecutionSignaledEventAttributes,
)
from temporalio.api.update.v1 import Request
from temporalio.converter import DataConverter

from sojourn.contracts.record import Record
from sojourn.contracts.run import RunInput, RunOutput, Spent
from sojourn.contracts.tasks import (
    ApprovalTask,
    ApproverTask,
    ApproverVerdict,
    Archived,
    EditTask,
    EditVerdict,
    PlanOutcome,
    PlanTask,
    ToolTask,
)
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import (
    AGENT_RUN,
    ARCHIVE_EVENTS,
    CHECK_APPROVAL,
    CHECK_EDIT,
    DECIDED,
    DENIED,
    EXECUTE_TOOL,
    IN_DOUBT,
    JUDGE_APPROVER,
    PLAN,
    READ_BRANCH,
    TURN_ENDED,
)
from sojourn.converter.codec import CodecFailedError, UnreadableError, converter_of_run
from sojourn.converter.failures import TERMINATED, TIMED_OUT, is_in_doubt
from sojourn.core.awaits.envelope import message_id_of
from sojourn.core.history.record import HistoryRecord
from sojourn.core.payload.unknown_outcome import mark_doubts
from sojourn.core.run.continuation import Continuation, read_continuation
from sojourn.core.run.scheduled_time import fill_opening
from sojourn.core.run.totals import read_spent
from sojourn.values.timers import ESCALATES, EXPIRES, expiry_timer
from sojourn.values.undecodable import OrUndecodable
from sojourn.values.visible import format_duration

__all__ = ["HistoryReader", "sender_of"]

_INPUTS: dict[str, Any] = {
    PLAN: PlanTask,
    EXECUTE_TOOL: ToolTask,
    CHECK_APPROVAL: ApprovalTask,
    JUDGE_APPROVER: ApproverTask,
    CHECK_EDIT: EditTask,
}
_RESULTS: dict[str, Any] = {
    PLAN: OrUndecodable(PlanOutcome),
    EXECUTE_TOOL: OrUndecodable(ToolResult),
    ARCHIVE_EVENTS: OrUndecodable(Archived),
    CHECK_APPROVAL: ToolResult,
    JUDGE_APPROVER: ApproverVerdict,
    CHECK_EDIT: EditVerdict,
}
_LOCAL = "core_local_activity"
_ANSWERS = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
}
"""The events at the end of a workflow task that has taken the answers of updates."""


class _TurnEnded(Record):
    turn_id: str = ""
    output: RunOutput | None = None
    error: ToolError | None = None
    message_ids: tuple[str, ...] = ()


class _Denied(Record):
    message_id: str = ""
    await_ids: tuple[str, ...] = ()


_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: "run_completed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "run_failed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "run_canceled",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "run_terminated",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "run_timed_out",
}
_ACTIVITY_FAILURES = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
}
_CHILD_ENDS = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: None,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: None,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: TIMED_OUT,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: TERMINATED,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED: ToolError(
        message="a run with this id exists already", code="run_already_exists"
    ),
}
"""The error of a child run that ended without an answer, if the event has no failure; None for a cancellation."""


class HistoryReader:
    """Turns history events into records.

    Args:
        converter: The data converter of a client.
        run_id: The run, if its first event may not be read. What is sent to it must be written for it.
    """

    def __init__(self, converter: DataConverter, run_id: str = "") -> None:
        self.unreadable = ""
        """Why a payload that workers wrote cannot be decoded here; empty while all could be."""
        self._converter = converter
        self._own_converter = converter_of_run(converter, run_id)
        """Decodes the input of the run, and what others send to it."""
        self.opening_unreadable = ""
        """Why the run's input cannot be decoded here, or empty. Any program in the namespace may have written it."""
        self._scheduled: dict[int, str] = {}
        self._timers: dict[str, str] = {}
        self._due: list[HistoryRecord] = []
        """The fired timers of waits that the run has not read yet."""
        self._held: list[HistoryRecord] = []
        """Those of waits for which a reset has sent an answer anew: the run reads the answer first, and the history has it second."""
        self._unkeyed: dict[int, str] = {}
        """The waits of decisions that workers judge for earlier versions of the run, by the event that scheduled it."""
        self._checks: dict[int, str] = {}
        """The confirmations whose approvals are checked, by the event that scheduled the check."""
        self._admitted: dict[str, Request] = {}
        """The updates that a reset has sent anew and that are not accepted yet, by id."""
        self._canceled_by = ""
        self._in_doubt = False
        self._parent = ""

    async def record(self, event: HistoryEvent) -> HistoryRecord | None:
        """Return what an event tells the fold, or None."""
        held, self._held = tuple(self._held), []
        record = await self._read(event)
        if event.event_type in _ANSWERS:
            self._held = [*held, *self._held]
        elif held:
            record = record or self._make(event, "due")
            return replace(record, due=(*held, *record.due))
        return record

    async def _read(self, event: HistoryEvent) -> HistoryRecord | None:
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            started = event.workflow_execution_started_event_attributes
            self._parent = started.parent_workflow_execution.workflow_id
            self._own_converter = converter_of_run(self._converter, started.workflow_id)
            value = await self._value(started.input, RunInput, is_own=True) or await self._continuation(
                started.input
            )
            if isinstance(value, RunInput):
                value = fill_opening(value, started.workflow_id)
            self.opening_unreadable, self.unreadable = self.unreadable, ""
            return self._make(event, "started", value=value)
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            asked = event.workflow_execution_cancel_requested_event_attributes
            self._canceled_by = asked.cause or f"requested by {sender_of(asked, self._parent)}"
            return self._make(event, "cancel_requested", value=asked.cause or None)
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            continued = event.workflow_execution_continued_as_new_event_attributes
            return self._make(event, "continued", name=continued.new_execution_run_id)
        if kind == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failed = event.workflow_task_failed_event_attributes
            if failed.cause != WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
                return None
            return self._make(event, "reset", value=failed.failure.message, identity=failed.identity)
        if kind in _ENDS:
            return await self._end(event)
        if kind == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return await self._read_task_completed(event)
        return (
            await self._activity(event)
            or await self._local(event)
            or await self._child(event)
            or await self._read_message(event)
            or await self._timer(event)
            or await self._turn(event)
        )

    async def _continuation(self, payloads: Payloads) -> Continuation | None:
        found = read_continuation(await self._value(payloads, Any, is_own=True))
        return found if isinstance(found, Continuation) else None

    @staticmethod
    def _make(event: HistoryEvent, kind: str, **fields: Any) -> HistoryRecord:
        return HistoryRecord(id=event.event_id, time=event.event_time.ToDatetime(_UTC), kind=kind, **fields)

    async def _activity(self, event: HistoryEvent) -> HistoryRecord | None:
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            name = scheduled.activity_type.name
            self._scheduled[event.event_id] = name
            value = await self._value(scheduled.input, _INPUTS.get(name, Any))
            if isinstance(value, ApprovalTask):
                self._checks[event.event_id] = value.await_id
            elif isinstance(value, ApproverTask | EditTask) and not value.key:
                self._unkeyed[event.event_id] = value.wait.id
            return self._make(
                event,
                "scheduled",
                name=name,
                key=scheduled.activity_id,
                value=value,
                queue=scheduled.task_queue.name,
                waits=format_duration(scheduled.schedule_to_start_timeout.ToTimedelta()),
            )
        if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            name = self._scheduled.get(completed.scheduled_event_id, "")
            value = await self._value(completed.result, _RESULTS.get(name, Any))
            if name == CHECK_APPROVAL:
                key = self._checks.pop(completed.scheduled_event_id, "")
                return self._make(event, "checked", key=key, value=value)
            of = completed.scheduled_event_id
            due = self._take_expired(self._unkeyed.pop(of, ""))
            return self._make(event, "completed", name=name, of=of, value=value, due=due)
        if kind in _ACTIVITY_FAILURES:
            ended: Any = getattr(event, str(event.WhichOneof("attributes")))
            failure = getattr(ended, "failure", None)
            error = await self.error_of(failure) if failure else None
            name, value = self._scheduled.get(ended.scheduled_event_id), None
            if name == EXECUTE_TOOL and failure:
                value = await self._detail(failure)
            elif name == PLAN and kind == EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
                value = await self._values(ended.details)
            return self._make(
                event,
                "failed",
                name=name if name == READ_BRANCH else "",
                of=ended.scheduled_event_id,
                value=value,
                error=error,
                timeout=_timeout_of(failure),
            )
        return None

    async def _local(self, event: HistoryEvent) -> HistoryRecord | None:
        """Read the marker of a local activity. Its `data` has the activity's id."""
        if event.event_type != EventType.EVENT_TYPE_MARKER_RECORDED:
            return None
        marker = event.marker_recorded_event_attributes
        if marker.marker_name != _LOCAL:
            return None
        data: dict[str, Any] = await self._value(marker.details["data"], dict[str, Any]) or {}
        key, name = str(data.get("activity_id", "")), str(data.get("activity_type", ""))
        if name == PLAN:
            # A local plan that failed is made again by an ordinary activity, which the history shows.
            value = await self._value(marker.details["result"], _RESULTS[name])
            return self._make(event, "local_planned", name=name, of=event.event_id, value=value)
        if not marker.HasField("failure"):
            value = await self._value(marker.details["result"], ToolResult)
            return self._make(
                event, "checked" if name == CHECK_APPROVAL else "local_ended", key=key, value=value
            )
        canceled = marker.failure.HasField("canceled_failure_info")
        if canceled:
            return self._make(event, "local_ended", key=key)
        error, detail = await self.error_of(marker.failure), await self._detail(marker.failure)
        return self._make(event, "local_ended", key=key, value=detail, error=error)

    async def _child(self, event: HistoryEvent) -> HistoryRecord | None:
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            asked = event.start_child_workflow_execution_initiated_event_attributes
            if asked.workflow_type.name != AGENT_RUN:
                return None  # the delivery of a notice
            value = await self._value(asked.input, RunInput)
            return self._make(event, "child_initiated", name=asked.workflow_id, value=value)
        if kind == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
            started = event.child_workflow_execution_started_event_attributes
            return self._make(event, "child_started", of=started.initiated_event_id)
        if kind == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
            done = event.child_workflow_execution_completed_event_attributes
            value = await self._value(done.result, RunOutput)
            return self._make(event, "child_completed", of=done.initiated_event_id, value=value)
        if kind in _CHILD_ENDS:
            ended: Any = getattr(event, str(event.WhichOneof("attributes")))
            failure = getattr(ended, "failure", None)
            error = await self.error_of(failure) if failure else _CHILD_ENDS[kind]
            spent = await self._read_spending(failure) if failure else None
            return self._make(event, "child_failed", of=ended.initiated_event_id, error=error, value=spent)
        return None

    async def _read_spending(self, failure: Failure) -> Spent | None:
        return read_spent(await self._detail(failure))

    async def _detail(self, failure: Failure) -> Any:
        wrapper = failure.HasField("activity_failure_info") and failure.HasField("cause")
        details = (failure.cause if wrapper else failure).application_failure_info.details
        return await self._value(details, dict[str, Any]) if details.payloads else None

    async def _read_message(self, event: HistoryEvent) -> HistoryRecord | None:
        """Read a signal, or an accepted update.

        A refused update leaves no trace in the history. An update that a reset sends again is recorded with its admission.
        """
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            signal = event.workflow_execution_signaled_event_attributes
            name, sent, judged, message_id = signal.signal_name, signal.input, False, ""
            identity = sender_of(signal, self._parent)
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED:
            admitted = event.workflow_execution_update_admitted_event_attributes.request
            self._admitted[admitted.meta.update_id] = admitted
            return None
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
            accepted = event.workflow_execution_update_accepted_event_attributes
            request = self._admitted.pop(accepted.protocol_instance_id, accepted.accepted_request)
            name, sent, identity, judged = request.input.name, request.input.args, request.meta.identity, True
            message_id = message_id_of(request.meta.update_id)
        else:
            return None
        value = await self._values(sent)
        who = {"identity": identity, "judged": judged, "message_id": message_id}
        return self._make(event, "sent", name=name, value=value, **who)

    async def _timer(self, event: HistoryEvent) -> HistoryRecord | None:
        if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED:
            started = event.timer_started_event_attributes
            summary = Payloads(payloads=[event.user_metadata.summary])
            self._timers[started.timer_id] = str(await self._value(summary, str) or "")
        elif event.event_type == EventType.EVENT_TYPE_TIMER_FIRED:
            fired = event.timer_fired_event_attributes
            record = self._make(event, "timer_fired", name=self._timers.pop(fired.timer_id, ""))
            if not record.name.startswith((EXPIRES, ESCALATES)):
                return record
            self._due.append(record)
        return None

    async def _read_task_completed(self, event: HistoryEvent) -> HistoryRecord | None:
        """Read the timers of waits that a workflow task has brought to the run.

        The run reads the task's messages first, also those that came after the timer had fired. A task that fails is attempted
        anew, with what came since.
        """
        answered = await self._await_ids_answered_anew() if self._due else set[str]()
        self._held = [each for each in self._due if each.name.removeprefix(EXPIRES) in answered]
        due, self._due = tuple(each for each in self._due if each not in self._held), []
        return self._make(event, "due", due=due) if due else None

    async def _await_ids_answered_anew(self) -> set[str]:
        sent = [await self._values(request.input.args) for request in self._admitted.values()]
        answers = [
            cast("dict[str, Any]", each) for values in sent for each in values[:1] if isinstance(each, dict)
        ]
        return {str(answer.get("id")) for answer in answers}

    def _take_expired(self, await_id: str) -> tuple[HistoryRecord, ...]:
        """Return the fired timer of a wait's time.

        A run of an earlier version reads it before a verdict that comes after it.
        """
        expired = tuple(each for each in self._due if each.name == expiry_timer(await_id))
        self._due = [each for each in self._due if each not in expired]
        return expired

    async def _turn(self, event: HistoryEvent) -> HistoryRecord | None:
        if event.event_type != EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
            return None
        memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields
        self._in_doubt = self._in_doubt or IN_DOUBT in memo
        if DENIED in memo:
            denied = await self._value(Payloads(payloads=[memo[DENIED]]), _Denied)
            return denied and self._make(event, "denied", key=denied.message_id, await_ids=denied.await_ids)
        if DECIDED in memo:
            key = await self._value(Payloads(payloads=[memo[DECIDED]]), str)
            return self._make(event, "decided", key=str(key))
        if TURN_ENDED not in memo:
            return None
        told = await self._value(Payloads(payloads=[memo[TURN_ENDED]]), _TurnEnded)
        if told is None:
            return None
        return self._make(
            event,
            "turn_ended",
            key=told.turn_id,
            value=told.output,
            error=told.error,
            message_ids=told.message_ids,
        )

    async def _end(self, event: HistoryEvent) -> HistoryRecord:
        kind = _ENDS[event.event_type]
        if kind == "run_completed":
            completed = event.workflow_execution_completed_event_attributes
            return self._make(event, kind, value=await self._value(completed.result, RunOutput))
        if kind == "run_failed":
            failure = event.workflow_execution_failed_event_attributes.failure
            error = await self.error_of(failure)
            if is_in_doubt(await self._detail(failure)):
                error = error.model_copy(update={"outcome_unknown": True})
        elif kind == "run_canceled":
            error = ToolError(message=self._canceled_by or "canceled", code="Canceled")
            error = mark_doubts(error, ["unknown"] if self._in_doubt else [])
        elif kind == "run_terminated":
            ended = event.workflow_execution_terminated_event_attributes
            error = ToolError(message=ended.reason or f"terminated by {ended.identity}", code="Terminated")
        else:
            error = ToolError(message="the execution time-out passed", code="TimedOut")
        return self._make(event, kind, error=error)

    async def error_of(self, failure: Failure) -> ToolError:
        """Return the chain of a failure, without repeated texts.

        The texts may be encrypted.
        """
        return _chain(await self._decode_texts(failure)).without_repeats()

    async def _decode_texts(self, failure: Failure) -> Failure:
        if failure.HasField("encoded_attributes"):
            encoded = Payloads(payloads=[failure.encoded_attributes])
            texts: dict[str, Any] = await self._value(encoded, dict[str, Any]) or {}
            failure.message = str(texts.get("message", failure.message))
        if failure.HasField("cause"):
            await self._decode_texts(failure.cause)
        return failure

    async def _values(self, payloads: Payloads) -> list[Any]:
        try:
            return await self._own_converter.decode(payloads.payloads)
        except CodecFailedError as error:
            self.unreadable = str(error)
            return []
        except (ValueError, KeyError, RuntimeError):
            return []

    async def _value(self, payloads: Payloads, type_hint: Any, *, is_own: bool = False) -> Any:
        if not payloads.payloads:
            return None
        converter = self._own_converter if is_own else self._converter
        try:
            (value,) = await converter.decode(payloads.payloads[:1], [type_hint])
        except UnreadableError as error:
            self.unreadable = str(error)
            return None
        except (ValueError, KeyError, RuntimeError):
            return None
        return value


def sender_of(
    sent: WorkflowExecutionSignaledEventAttributes | WorkflowExecutionCancelRequestedEventAttributes,
    parent: str,
) -> str:
    """Return the parent run, workflow or client that sent a signal or a cancellation.

    An event that a workflow sends has the identity of Temporal's own service, so the workflow's id is used instead.
    """
    sender = sent.external_workflow_execution.workflow_id
    if not sender:
        return sent.identity
    return f"{'parent run' if sender == parent else 'workflow'} {sender}"


def _timeout_of(failure: Failure | None) -> str:
    if failure is None or not failure.HasField("timeout_failure_info"):
        return ""
    name = TimeoutType.Name(failure.timeout_failure_info.timeout_type)
    return name.removeprefix("TIMEOUT_TYPE_").lower().replace("_", "-")


def _chain(failure: Failure) -> ToolError:
    wrapper = failure.HasField("activity_failure_info") or failure.HasField(
        "child_workflow_execution_failure_info"
    )
    if wrapper and failure.HasField("cause"):
        return _chain(failure.cause)
    cause = _chain(failure.cause) if failure.HasField("cause") else None
    code = failure.application_failure_info.type if failure.HasField("application_failure_info") else None
    return ToolError(message=failure.message, code=code or None, cause=cause)
