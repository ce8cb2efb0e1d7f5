"""Failed attempts and heartbeats of the activities of a run that are in flight.

The history does not have them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from sojourn.contracts.event import (
    BaseEvent,
    Event,
    PlanStartedEvent,
    ToolEndEvent,
    ToolRetryEvent,
    ToolStartEvent,
    ToolUpdateEvent,
)
from sojourn.contracts.wire_names import ARCHIVE_EVENTS, PLAN, READ_BRANCH, STORE_TRANSCRIPT
from sojourn.events.history import HistoryReader
from sojourn.events.live_text import COMMON
from sojourn.timeline import is_plan_end
from sojourn.values.text import plain

__all__ = ["BLOCKS_LOOP", "INTERVAL", "PendingActivities", "heartbeat_note", "is_plan", "retrying", "when"]

BLOCKS_LOOP = "blocks_loop"
"""A key of heartbeats, true if the call blocks its worker's event loop.

The note has the duration and the place in the code.
"""

INTERVAL = 1.0
"""Seconds between two look-ups of a call's activity, and before the first one."""

LONGEST_PAUSE = 32
"""Most intervals between two look-ups while no activity of the calls in flight is pending: the run waits."""

SLOW = timedelta(seconds=10)
"""Duration after which an attempt at a plan gets a line."""

MAX_TEXT = 500
"""Longest note of a heartbeat or text of a failure, in characters."""

CUT_OFF = "it was cut off, as by a worker that stopped at once"
"""The reason of an attempt whose failure has no text: a cancellation that only its worker knew."""

MAX_RETRYING = 20
"""Most activities in the list of retries."""


async def heartbeat_note(pending: PendingActivityInfo, converter: DataConverter) -> dict[str, Any]:
    """Return the note of the last heartbeat. Any worker may have written it."""
    if not pending.heartbeat_details.payloads:
        return {}
    try:
        (note,) = await converter.decode(pending.heartbeat_details.payloads[:1])
    except (ValueError, KeyError, RuntimeError):
        return {}
    return cast("dict[str, Any]", note) if isinstance(note, dict) and "note" in note else {}


async def retrying(
    pending: Sequence[PendingActivityInfo], converter: DataConverter, tools: Mapping[str, str]
) -> list[str]:
    """Return a line for each activity that is retried, and for a slow plan.

    For example `plan: attempt 3 is due at 09:14:07 UTC; the last failed: RateLimited: ...`.
    """
    reader, lines = HistoryReader(converter), list[str]()
    for each in pending:
        if each.attempt > 1 and each.HasField("last_failure"):
            reason = plain(str(await reader.error_of(each.last_failure)), MAX_TEXT) or CUT_OFF
            lines.append(
                f"{_what(each, tools)}: attempt {each.attempt} {when(each)}; the last failed: {reason}"
            )
        elif is_plan(each) and (since := _moment(each.last_started_time)):
            elapsed = datetime.now(UTC) - since
            if elapsed >= SLOW:
                lines.append(f"plan: attempt {each.attempt} is under way for {elapsed.total_seconds():.0f} s")
    return lines[:MAX_RETRYING]


def is_plan(pending: PendingActivityInfo) -> bool:
    return pending.activity_type.name == PLAN


class PendingActivities:
    """Polls the pending activities of a run while something is in flight.

    It begins after a second, so quick calls are never looked up. While no call in flight has an activity, the pause
    doubles until the next event of the run.
    """

    def __init__(self, client: Client, run_id: str, deliver: Callable[[Event], Awaitable[None]]) -> None:
        self._client = client
        self._reader = HistoryReader(client.data_converter)
        self._run_id = run_id
        self._deliver = deliver
        self._open: dict[str, float] = {}
        self._names: dict[str, str] = {}
        self._seen: dict[tuple[str, str], Any] = {}
        self._last: BaseEvent | None = None
        self._pause = 1
        """Intervals between two look-ups."""
        self._skipped = 0
        """Intervals since the last look-up."""
        self._task: asyncio.Task[None] | None = None

    def feed(self, event: Event) -> None:
        self._last, self._pause = event, 1
        match event:
            case PlanStartedEvent():
                self._open = {"": time.monotonic()}
                self._seen.pop(("", "attempt"), None)  # the attempts of the plan before are another's
                self._seen.pop(("", "note"), None)
            case ToolStartEvent(call=call):
                self._open.pop("", None)
                self._open[call.tool_call_id] = time.monotonic()
                self._names[call.tool_call_id] = call.name
            case ToolEndEvent(result=result):
                self._open.pop(result.tool_call_id, None)
            case _ if is_plan_end(event):
                self._open.pop("", None)
            case _:
                pass
        if self._open and self._task is None:
            self._task = asyncio.create_task(self._look(), name=f"pending calls of {self._run_id}")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.result()

    async def _look(self) -> None:
        while self._open:
            await asyncio.sleep(INTERVAL)
            self._skipped += 1
            is_due = self._skipped >= self._pause
            if not is_due or not any(time.monotonic() - since >= INTERVAL for since in self._open.values()):
                continue
            self._skipped = 0
            try:
                described = await self._client.get_workflow_handle(self._run_id).describe()
            except RPCError:
                continue  # the stream of the history reports the error
            pending_activities = described.raw_description.pending_activities
            is_at_work = any(_call_id(pending) in self._open for pending in pending_activities)
            self._pause = 1 if is_at_work else min(self._pause * 2, LONGEST_PAUSE)
            for pending in pending_activities:
                for event in await self._news(pending):
                    await self._deliver(event)
        self._task = None

    async def _news(self, pending: PendingActivityInfo) -> list[Event]:
        call_id = _call_id(pending)
        if call_id not in self._open:
            return []
        news: list[Event] = []
        if pending.attempt > 1 and self._is_new(call_id, "attempt", pending.attempt):
            scheduled = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
            failure = (
                await self._reader.error_of(pending.last_failure)
                if pending.HasField("last_failure")
                else None
            )
            news.append(
                ToolRetryEvent(
                    **self._common(pending.last_attempt_complete_time),
                    tool_call_id=call_id,
                    tool_name=self._names.get(call_id, ""),
                    attempt=pending.attempt,
                    due=_moment(pending.scheduled_time) if scheduled else None,
                    error=plain(str(failure), MAX_TEXT) if failure else "",
                )
            )
        note = await heartbeat_note(pending, self._client.data_converter)
        if note and self._is_new(call_id, "note", note):
            news.append(
                ToolUpdateEvent(
                    **self._common(pending.last_heartbeat_time),
                    tool_call_id=call_id,
                    tool_name=self._names.get(call_id, ""),
                    note=plain(str(note.get("note", "")), MAX_TEXT),
                    done=_number(note.get("done")),
                    total=_number(note.get("total")),
                )
            )
        return news

    def _is_new(self, call_id: str, kind: str, value: Any) -> bool:
        is_new = self._seen.get((call_id, kind)) != value
        self._seen[call_id, kind] = value
        return is_new

    def _common(self, at: Timestamp) -> dict[str, Any]:
        last = self._last
        assert last
        return {**{name: getattr(last, name) for name in COMMON}, "time": _moment(at) or datetime.now(UTC)}


def _call_id(pending: PendingActivityInfo) -> str:
    return "" if is_plan(pending) else pending.activity_id


def _moment(at: Timestamp) -> datetime | None:
    return at.ToDatetime(UTC) if at.seconds else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _what(pending: PendingActivityInfo, tools: Mapping[str, str]) -> str:
    if is_plan(pending):
        return "plan"
    if pending.activity_type.name == STORE_TRANSCRIPT:
        return "storing the transcript"
    if pending.activity_type.name == ARCHIVE_EVENTS:
        return "archiving events"
    if pending.activity_type.name == READ_BRANCH:
        return "reading an earlier point of the conversation"
    tool = tools.get(pending.activity_id)
    return f"call {pending.activity_id}{f' of {tool}' if tool else ''}"


def when(pending: PendingActivityInfo) -> str:
    """Return when an attempt begins, such as `is due at 09:14:07 UTC`."""
    if pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        return "is under way"
    return f"is due at {pending.scheduled_time.ToDatetime(UTC):%H:%M:%S} UTC"
