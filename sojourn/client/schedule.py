"""A Temporal Schedule that starts runs of an agent, or sends messages, repeatedly.

The messages are sent to a conversation.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import temporalio.client
from temporalio.client import (
    ScheduleActionResult,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleIntervalSpec,
    ScheduleListDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import Priority
from temporalio.service import RPCError, RPCStatusCode

from sojourn import search_attributes
from sojourn.client.skipped_times import skipped_times
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.ids import run_id_fault
from sojourn.contracts.message import TextPart
from sojourn.contracts.run import RunInput, ScheduledMessage, ScheduledRun, ScheduleStatus
from sojourn.contracts.wire_names import AGENT_RUN, SCHEDULED_MESSAGE
from sojourn.converter.codec import UnreadableError, converter_of_schedule
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.run.inbox import Inbox, read_send
from sojourn.core.run.run_input import messages_fault, summarize
from sojourn.core.run.scheduled_time import fill_longest, format_fault, has_scheduled_time
from sojourn.errors import InvalidInput, RunError, ScheduleAlreadyExists, ScheduleNotFound
from sojourn.values.text import clip, count_noun

__all__ = ["Schedule", "client_of_schedule", "create_schedule", "list_schedules", "spec_of", "template_of"]

CATCH_UP = timedelta(hours=1)
"""How late a schedule may still act if the server was down at its time."""

SHORTEST = timedelta(seconds=1)
"""Shortest interval."""

_MEMO = "sojourn"
"""The memo that marks a schedule as Sojourn's: agent, session, message and timing."""

_MAX_MESSAGE = 200


class Schedule:
    """A handle of a schedule.

    Methods raise `ScheduleNotFound`, and `ServerUnavailable` if the server does not answer.
    """

    def __init__(self, temporal: temporalio.client.Client, schedule_id: str) -> None:
        if fault := run_id_fault(schedule_id):
            raise InvalidInput(fault.replace("run id", "schedule id", 1))
        self.id = schedule_id
        self._handle = temporal.get_schedule_handle(schedule_id)

    def __repr__(self) -> str:
        return f"<Schedule {self.id}>"

    async def status(self) -> ScheduleStatus:
        """Return its next times, its last actions, and whether it is paused."""
        try:
            found = await self._handle.describe()
            known = await found.memo()
        except RPCError as error:
            raise self._translate(error) from error
        status = _status_of(found, known, found.schedule)
        return status.model_copy(update={"count": found.info.num_actions})

    async def pause(self, note: str = "") -> None:
        """Pause the schedule, so that it does not act until `resume`."""
        await self._do(self._handle.pause(note=note or None))

    async def resume(self, note: str = "") -> None:
        """Resume a paused schedule, from its next time on."""
        await self._do(self._handle.unpause(note=note or None))

    async def trigger(self) -> None:
        """Act once now, even if the schedule is paused."""
        await self._do(self._handle.trigger())

    async def delete(self) -> None:
        """Delete the schedule. The runs that it started continue."""
        await self._do(self._handle.delete())

    async def _do(self, request: Any) -> None:
        try:
            await request
        except RPCError as error:
            raise self._translate(error) from error

    def _translate(self, error: RPCError) -> RunError:
        if error.status == RPCStatusCode.NOT_FOUND:
            return ScheduleNotFound(
                f"there is no schedule {self.id!r} in this namespace; `sojourn schedule list` shows them"
            )
        return translate_error(error, None)


def spec_of(every: timedelta | None, cron: str | Sequence[str] | None, time_zone: str | None) -> ScheduleSpec:
    """Return the Temporal spec of when a schedule acts."""
    if (every is None) == (cron is None):
        raise InvalidInput("a schedule has either every, an interval, or cron, such as '0 8 * * 1-5'")
    if every is not None and every < SHORTEST:
        raise InvalidInput(f"every is at least {SHORTEST}, not {every}")
    if every is not None and time_zone is not None:
        raise InvalidInput("time_zone is for cron; an interval is counted from 1970-01-01T00:00Z")
    return ScheduleSpec(
        intervals=[ScheduleIntervalSpec(every=every)] if every else [],
        cron_expressions=[cron] if isinstance(cron, str) else list(cron or ()),
        time_zone_name=time_zone,
    )


def template_of(run: RunInput, time_zone: str, by: str | None) -> RunInput | ScheduledMessage:
    """Return what a schedule starts, or with a session sends, each time.

    With the time filled in, its messages are within their limits too.
    """
    if fault := format_fault(run.messages):
        raise InvalidInput(fault)
    if not has_scheduled_time(run.messages):
        return _message_of(run, by) if run.session_id else run
    run = run.model_copy(update={"time_zone": time_zone})
    filled = run.model_copy(update={"messages": fill_longest(run.messages, time_zone)})
    if run.session_id:
        _message_of(filled, by)
        return _message_of(run, by)
    if fault := messages_fault(filled.messages):
        raise InvalidInput(f"with the time filled in, {fault}")
    return run


def _message_of(run: RunInput, by: str | None) -> ScheduledMessage:
    """Return the message that a schedule sends to a conversation."""
    if len(run.messages) != 1 or run.messages[0].role != "user":
        raise InvalidInput("a schedule sends one user message to a conversation")
    (message,) = run.messages
    if all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts):
        raise InvalidInput("the message is empty")
    parts = message.model_dump(mode="json", exclude_defaults=True)["parts"]
    judged = read_send([{"parts": parts, "by": by} if by else {"parts": parts}], Inbox())
    if isinstance(judged, Rejection):
        raise InvalidInput(judged.reason)
    return ScheduledMessage(
        agent_id=run.agent_id,
        session_id=run.session_id,
        message=message,
        by=by,
        labels=run.labels,
        policy=run.policy,
        principal=run.principal,
        time_zone=run.time_zone,
    )


def client_of_schedule(
    temporal: temporalio.client.Client, schedule_id: str, tenant: str
) -> temporalio.client.Client:
    """Return the client that creates a schedule, and encrypts for its runs.

    Raises:
        InvalidInput: The keys of the tenant were erased, or the id says another tenant.
    """
    converter = converter_of_schedule(temporal.data_converter, schedule_id, tenant)
    if converter is temporal.data_converter:
        return temporal
    config = temporal.config(active_config=True)
    config["data_converter"] = converter
    config["plugins"] = []  # the configuration has their changes already
    return temporalio.client.Client(**config)


async def create_schedule(
    temporal: temporalio.client.Client,
    schedule_id: str,
    sends: RunInput | ScheduledMessage,
    spec: ScheduleSpec,
    task_queue: str,
    *,
    priority: Priority,
    note: str = "",
) -> Schedule:
    """Create a schedule, which starts the run or sends the message each time."""
    is_run = isinstance(sends, RunInput)
    message = sends.messages[-1].text if isinstance(sends, RunInput) else sends.message.text
    known = {
        "agent_id": sends.agent_id,
        "session_id": "" if is_run else sends.session_id,
        "message": clip(" ".join(message.split()), _MAX_MESSAGE),
        "timing": _timing(spec),
    }
    schedule = temporalio.client.Schedule(
        action=_action(schedule_id, sends, task_queue, priority),
        spec=spec,
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP if is_run else ScheduleOverlapPolicy.BUFFER_ONE,
            catchup_window=CATCH_UP,
        ),
        state=ScheduleState(note=note or None),
    )
    try:
        await temporal.create_schedule(schedule_id, schedule, memo={_MEMO: known})
    except ScheduleAlreadyRunningError as error:
        raise ScheduleAlreadyExists(
            f"there is a schedule {schedule_id!r}; choose another schedule_id, or delete that one first"
        ) from error
    except RPCError as error:
        raise translate_error(error, None) from error
    return Schedule(temporal, schedule_id)


def _action(
    schedule_id: str,
    sends: RunInput | ScheduledMessage,
    task_queue: str,
    priority: Priority,
) -> ScheduleActionStartWorkflow:
    if isinstance(sends, ScheduledMessage):
        return ScheduleActionStartWorkflow(
            SCHEDULED_MESSAGE,
            sends,
            id=schedule_id,
            task_queue=task_queue,
            static_summary=f"message for {sends.agent_id}",
            priority=priority,
        )
    introduction = summarize(sends)
    return ScheduleActionStartWorkflow(
        AGENT_RUN,
        sends.model_copy(update={"listed": True}),
        id=schedule_id,
        task_queue=task_queue,
        memo=introduction.memo,
        static_summary=introduction.summary,
        static_details=introduction.details,
        typed_search_attributes=search_attributes.attributes_of(
            sends.agent_id, sends.session_id, tenant=sends.tenant
        ),
        priority=priority,
    )


async def list_schedules(
    temporal: temporalio.client.Client, agent_id: str | None
) -> AsyncGenerator[ScheduleStatus]:
    """Yield the schedules of Sojourn in the namespace, in no order."""
    try:
        async for found in await temporal.list_schedules():
            try:
                known = await found.memo()
            except UnreadableError:
                continue  # of another codec
            if _MEMO not in known or found.schedule is None:
                continue
            status = _status_of(found, known, found.schedule)
            if agent_id in (None, status.agent_id):
                yield status
    except RPCError as error:
        raise translate_error(error, None) from error


def _status_of(
    found: ScheduleDescription | ScheduleListDescription,
    known: Any,
    schedule: temporalio.client.Schedule | temporalio.client.ScheduleListSchedule,
) -> ScheduleStatus:
    info: Any = found.info
    state, spec = schedule.state, schedule.spec
    fields = known.get(_MEMO)  # untrusted, as any client may have written it
    about = cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
    texts = ("agent_id", "session_id", "message", "timing")
    return ScheduleStatus.model_validate(
        {
            **{name: about[name] for name in texts if isinstance(about.get(name), str)},
            "schedule_id": found.id,
            "paused": state.paused,
            "note": state.note or "",
            "time_zone": spec.time_zone_name or "",
            "skipped_times": skipped_times(spec, datetime.now(UTC)),
            "next_times": list(info.next_action_times) if info else [],
            "last": [_run_of(each) for each in (info.recent_actions if info else ())],
        }
    )


def _run_of(result: ScheduleActionResult) -> ScheduledRun:
    action: Any = result.action
    return ScheduledRun(at=result.scheduled_at, id=action.workflow_id)


def _timing(spec: ScheduleSpec) -> str:
    if spec.intervals:
        return f"every {_period(spec.intervals[0].every)}"
    return " ".join(filter(None, ["; ".join(spec.cron_expressions), spec.time_zone_name]))


def _period(every: timedelta) -> str:
    left, parts = int(every.total_seconds()), list[str]()
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, size)
        parts += [count_noun(count, unit)] if count else []
    return " ".join(parts)
