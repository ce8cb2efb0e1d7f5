"""Children: the child runs at work, which pause and go on with their parent.

Signals between workflows may overtake each other, and one to a child that has not started yet is lost. So each
tells the whole state with a number, a child heeds only a higher one than the last, and a child that has started is told again.
"""

import asyncio
import contextlib
from collections.abc import Generator

from temporalio import workflow
from temporalio.exceptions import FailureError

from sojourn.contracts.run_link import RunLink
from sojourn.contracts.spent import Spent
from sojourn.core.awaits.steering import NUMBER, PAUSE, RESUME, Paused, Resumed
from sojourn.core.run.spent import SPENT


class Children:
    """Child runs by id, while they live."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._last: Paused | Resumed | None = None
        self._number = 0
        self._spent: dict[str, Spent] = {}

    @contextlib.contextmanager
    def living(self, run_id: str) -> Generator[None]:
        """A child run lives meanwhile."""
        self._ids[run_id] = None
        try:
            yield
        finally:
            self._ids.pop(run_id, None)

    def started(self, run_id: str) -> None:
        """Tell a child that the run was paused while the child was started."""
        if isinstance(self._last, Paused) and workflow.patched("told-again"):
            self._send(run_id, self._last)

    def told(self, run_id: str, spent: Spent) -> None:
        """A child run that is being cancelled says what it has spent."""
        if run_id in self._ids:
            self._spent[run_id] = spent

    def spent(self, run_id: str) -> Spent | None:
        """What a child run that was cancelled has spent, as far as it said so."""
        return self._spent.pop(run_id, None)

    def tell(self, given: Paused | Resumed) -> None:
        """Tell each to pause or to go on, too; nobody waits for that."""
        self._last = given
        self._number += 1
        for run_id in self._ids:
            self._send(run_id, given)

    def _send(self, run_id: str, given: Paused | Resumed) -> None:
        task = asyncio.create_task(_told(run_id, given, self._number))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


async def _told(run_id: str, given: Paused | Resumed, number: int) -> None:
    """One that has ended needs it no more."""
    name, said = (PAUSE, "reason") if isinstance(given, Paused) else (RESUME, "note")
    text = given.reason if isinstance(given, Paused) else given.note
    with contextlib.suppress(FailureError):
        await workflow.get_external_workflow_handle(run_id).signal(
            name, {said: text, "by": given.by, NUMBER: number}
        )


PATCH = "tell-what-was-spent"
"""Histories of cancelled child runs from before have no such signal."""


async def tell_parent(link: RunLink | None, spent: Spent | None) -> None:
    """Tell the parent run, if it is one of ours, what this one has spent that is being cancelled."""
    parent = workflow.info().parent
    if not (link and parent and parent.workflow_id == link.parent_run_id):
        return
    if spent is None or not workflow.patched(PATCH):
        return
    handle = workflow.get_external_workflow_handle(parent.workflow_id)
    with contextlib.suppress(FailureError):  # it has ended, and nobody counts any more
        await handle.signal(SPENT, {"run_id": workflow.info().workflow_id, "spent": spent})
