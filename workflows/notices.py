"""Notices: a run tells what happens to it, each time by a workflow of its own, which delivers on after the run has ended.

So neither the run nor its next execution waits for a receiver that does not answer.
"""

import asyncio
import contextlib

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from sojourn.contracts.awaits import Await
from sojourn.contracts.run import Notice, NoticeKind, RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import NOTICE_DELIVERY
from sojourn.core.run.status import end_notice, read_kinds, turn_notice, wait_notice
from sojourn.core.values.frozen import changed

from .current_state import CurrentState

__all__ = ["DELIVERY", "Notices"]

DELIVERY = NOTICE_DELIVERY
"""The workflow that delivers one notice; its workflow id is the notice's id."""


class Notices:
    """Tells the kinds of notices that the run's app has functions for, as the last plan says.

    Args:
        current: The run's state.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._starting: set[asyncio.Task[None]] = set()

    def waits(self, wait: Await) -> None:
        """Tell that the run waits for somebody."""
        if self._tells("wait"):
            self._send(wait_notice(workflow.info().workflow_id, self._current.state, wait, workflow.now()))

    def turn_ended(self, output: RunOutput | None, error: ToolError | None) -> None:
        """Tell that a turn ends."""
        if self._tells("turn"):
            run_id, now = workflow.info().workflow_id, workflow.now()
            self._send(turn_notice(run_id, self._current.state, now, output, error))

    async def ended(self, output: RunOutput | None = None, error: ToolError | None = None) -> None:
        """Tell that the run ends, unless it is a child run, and wait until all is under way."""
        if self._tells("end") and self._current.state.opening.parent is None:
            run_id, now = workflow.info().workflow_id, workflow.now()
            self._send(end_notice(run_id, self._current.state, now, output, error))
        await self.under_way()

    async def under_way(self) -> None:
        """Wait until every notice has its workflow."""
        if self._starting:
            await workflow.wait(list(self._starting))

    def take_kinds(self, error: ActivityError) -> None:
        """Take the kinds of notices that the app has functions for from the details of a plan's failure."""
        cause = error.cause
        kinds = read_kinds(cause.details if isinstance(cause, ApplicationError) else ())
        if kinds:
            self._current.state = changed(self._current.state, notices=kinds)

    def _tells(self, kind: NoticeKind) -> bool:
        return kind in self._current.state.notices

    def _send(self, notice: Notice) -> None:
        task = asyncio.create_task(_start(notice))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)


async def _start(notice: Notice) -> None:
    """Start the delivery; one that is under way since before a reset goes on."""
    with contextlib.suppress(FailureError):
        await workflow.start_child_workflow(
            DELIVERY,
            notice,
            id=notice.id,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            static_summary=f"tell: {notice.kind}",
        )
