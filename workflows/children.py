"""Children: the child runs at work, which pause and go on with their parent."""

import asyncio
import contextlib
from collections.abc import Generator

from temporalio import workflow
from temporalio.exceptions import FailureError

from sojourn.contracts.spent import Spent
from sojourn.core.steering import PAUSE, RESUME, Paused, Resumed


class Children:
    """Child runs by id, while they live."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._spent: dict[str, Spent] = {}

    @contextlib.contextmanager
    def living(self, run_id: str) -> Generator[None]:
        """A child run lives meanwhile."""
        self._ids[run_id] = None
        try:
            yield
        finally:
            self._ids.pop(run_id, None)

    def told(self, run_id: str, spent: Spent) -> None:
        """A child run that is being cancelled says what it has spent."""
        if run_id in self._ids:
            self._spent[run_id] = spent

    def spent(self, run_id: str) -> Spent | None:
        """What a child run that was cancelled has spent, as far as it said so."""
        return self._spent.pop(run_id, None)

    def tell(self, given: Paused | Resumed) -> None:
        """Tell each to pause or to go on, too; nobody waits for that."""
        for run_id in self._ids:
            task = asyncio.create_task(_told(run_id, given))
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)


async def _told(run_id: str, given: Paused | Resumed) -> None:
    """One that has ended needs it no more."""
    name, said = (PAUSE, "reason") if isinstance(given, Paused) else (RESUME, "note")
    text = given.reason if isinstance(given, Paused) else given.note
    with contextlib.suppress(FailureError):
        await workflow.get_external_workflow_handle(run_id).signal(name, {said: text, "by": given.by})
