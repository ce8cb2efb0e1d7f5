"""The open child runs, which pause and resume with their parent.

Signals between workflows may arrive out of order, and a signal to a child run that has not started
yet is lost. So each signal carries the whole state with a number, a child run applies only a higher
number than the last, and a child run gets the signal again once it has started.
"""

import asyncio
import contextlib
from collections.abc import Generator

from temporalio import workflow
from temporalio.exceptions import FailureError

from sojourn.contracts.run import Spent
from sojourn.contracts.tool_result import RunLink
from sojourn.contracts.wire_names import CHILD_SPENT, PAUSE, RESUME
from sojourn.core.awaits.steering import NUMBER, PauseRequest, ResumeRequest

from .current_state import patched


class Children:
    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._signals: set[asyncio.Task[None]] = set()
        self._last: PauseRequest | ResumeRequest | None = None
        self._number = 0
        self._spent: dict[str, Spent] = {}

    @contextlib.contextmanager
    def register(self, run_id: str) -> Generator[None]:
        self._ids[run_id] = None
        try:
            yield
        finally:
            self._ids.pop(run_id, None)

    def signal_started(self, run_id: str) -> None:
        """Signal a child run that this run was paused while the child was starting."""
        if isinstance(self._last, PauseRequest) and patched("told-again"):
            self._send(run_id, self._last)

    def record_spent(self, run_id: str, spent: Spent) -> None:
        """Record the spending that a cancelled child run reports."""
        if run_id in self._ids:
            self._spent[run_id] = spent

    def take_spent(self, run_id: str) -> Spent | None:
        return self._spent.pop(run_id, None)

    def signal(self, message: PauseRequest | ResumeRequest) -> None:
        """Signal every child run to pause or to resume, without waiting for the signals."""
        self._last = message
        self._number += 1
        for run_id in self._ids:
            self._send(run_id, message)

    def _send(self, run_id: str, message: PauseRequest | ResumeRequest) -> None:
        task = asyncio.create_task(_signal(run_id, message, self._number))
        self._signals.add(task)
        task.add_done_callback(self._signals.discard)


async def _signal(run_id: str, message: PauseRequest | ResumeRequest, number: int) -> None:
    """Signal a child run. One that has ended ignores the signal."""
    name, text_field = (PAUSE, "reason") if isinstance(message, PauseRequest) else (RESUME, "note")
    text = message.reason if isinstance(message, PauseRequest) else message.note
    with contextlib.suppress(FailureError):
        await workflow.get_external_workflow_handle(run_id).signal(
            name, {text_field: text, "by": message.by, NUMBER: number}
        )


PATCH = "tell-what-was-spent"
"""The patch of histories in which cancelled child runs report their usage.

Older histories have no such signal.
"""


async def report_to_parent(link: RunLink | None, spent: Spent | None) -> None:
    """Report this run's spending to the parent run, before it ends as canceled."""
    parent = workflow.info().parent
    if not (link and parent and parent.workflow_id == link.parent_run_id):
        return
    if spent is None or not patched(PATCH):
        return
    handle = workflow.get_external_workflow_handle(parent.workflow_id)
    with contextlib.suppress(FailureError):  # the parent run has ended
        await handle.signal(CHILD_SPENT, {"run_id": workflow.info().workflow_id, "spent": spent})
