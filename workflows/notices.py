"""The workflows that deliver notices and scheduled messages.

A workflow of its own delivers each, so that neither the run nor its next execution waits for a
receiver that does not answer.
"""

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from sojourn.contracts.awaits import Await
from sojourn.contracts.dispatch import HEARTBEAT
from sojourn.contracts.run import Notice, NoticeKind, RunOutput, ScheduledMessage
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import DELIVER_NOTICE, NOTICE_DELIVERY
from sojourn.core.run.status import end_notice, read_kinds, turn_notice, wait_notice
from sojourn.values.frozen import copy_with

from .current_state import CurrentState
from .undecodable import read_one

__all__ = ["DELIVERY", "NoticeDelivery", "Notices", "ScheduledMessageRun"]

DELIVERY = NOTICE_DELIVERY
"""The workflow that delivers one notice. Its workflow id is the notice's id."""


class Notices:
    """Sends the kinds of notices that the run's app has functions for."""

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._starting: set[asyncio.Task[None]] = set()

    def waits(self, wait: Await, since: datetime | None = None) -> None:
        """Send the notice of a wait that opened at `since`, by default now."""
        if self._tells("wait"):
            run_id, now = workflow.info().workflow_id, workflow.now()
            self._send(wait_notice(run_id, self._current.state, wait, now, since))

    def turn_ended(self, output: RunOutput | None, error: ToolError | None) -> None:
        if self._tells("turn"):
            run_id, now = workflow.info().workflow_id, workflow.now()
            self._send(turn_notice(run_id, self._current.state, now, output, error))

    async def send_end(self, output: RunOutput | None = None, error: ToolError | None = None) -> None:
        """Send a notice that the run ends, and wait until all deliveries have started.

        A child run sends none.
        """
        if self._tells("end") and self._current.state.opening.parent is None:
            run_id, now = workflow.info().workflow_id, workflow.now()
            self._send(end_notice(run_id, self._current.state, now, output, error))
        await self.under_way()

    async def under_way(self) -> None:
        """Wait until every notice has its workflow."""
        if self._starting:
            await workflow.wait(list(self._starting))

    def take_kinds(self, error: ActivityError) -> None:
        """Take the kinds of notices from the details of a plan's failure."""
        cause = error.cause
        kinds = read_kinds(cause.details if isinstance(cause, ApplicationError) else ())
        if kinds:
            self._current.state = copy_with(self._current.state, notices=kinds)

    def _tells(self, kind: NoticeKind) -> bool:
        return kind in self._current.state.notices

    def _send(self, notice: Notice) -> None:
        task = asyncio.create_task(_start(notice))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)


async def _start(notice: Notice) -> None:
    """Start the delivery. One that was under way before a reset continues."""
    with contextlib.suppress(FailureError):
        await workflow.start_child_workflow(
            DELIVERY,
            notice,
            id=notice.id,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            static_summary=f"tell: {notice.kind}",
        )


DELIVERY_LIMIT = timedelta(minutes=1)
"""Start-to-close time-out of one attempt."""

NOTICE_LIFETIME = timedelta(days=3)
"""Time after which the delivery of a notice is given up."""

LONGEST_INTERVAL = timedelta(minutes=10)
"""Longest time between two attempts."""


@workflow.defn(name=NOTICE_DELIVERY)
class NoticeDelivery:
    """The delivery of one notice. Its argument is a `Notice`."""

    @workflow.run
    async def run(self, *values: Any) -> None:
        """Deliver the notice.

        The argument is read here, since anyone with a Temporal client may have written it.
        """
        await workflow.execute_activity(
            DELIVER_NOTICE,
            read_one(Notice, "unread-notice", values),
            start_to_close_timeout=DELIVERY_LIMIT,
            heartbeat_timeout=HEARTBEAT,
            schedule_to_close_timeout=NOTICE_LIFETIME,
            retry_policy=RetryPolicy(maximum_interval=LONGEST_INTERVAL),
        )


SENDING_LIMIT = timedelta(minutes=2)
"""Start-to-close time-out of one attempt."""

MESSAGE_LIFETIME = timedelta(days=1)
"""Time after which a message that the conversation has no room for is given up."""


@workflow.defn(name="ScheduledMessage")
class ScheduledMessageRun:
    """The sending of one message.

    Its workflow id is the message's id, so that the message is delivered once.
    """

    @workflow.run
    async def run(self, *values: Any) -> str:
        """Send the message, and return the run of the conversation.

        The argument is read here, since anyone with a Temporal client may have written it.
        """
        run_id: str = await workflow.execute_activity(
            "SendMessageActivity",
            read_one(ScheduledMessage, "unread-message", values),
            result_type=str,
            start_to_close_timeout=SENDING_LIMIT,
            heartbeat_timeout=HEARTBEAT,
            schedule_to_close_timeout=MESSAGE_LIFETIME,
            retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1)),
        )
        return run_id
