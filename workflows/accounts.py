"""Accounts: what child runs that were cancelled have spent.

A workflow that closes as canceled carries nothing, so a child tells its parent by a signal, and
waits until it is recorded there before it ends.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from sojourn.contracts.run_link import RunLink
from sojourn.contracts.spent import Spent
from sojourn.core.awaits.answers import Refused
from sojourn.core.run.spent import SPENT, read_told

from .children import Children

PATCH = "tell-what-was-spent"
"""Histories of cancelled child runs from before have no such signal."""


class Accounts(ABC):
    """The signal by which child runs tell."""

    _children: Children

    @abstractmethod
    def _received(self, values: Sequence[Any]) -> Sequence[Any] | Refused:
        """What came by a signal, or why it is refused unread."""

    @workflow.signal(name=SPENT, description="What a child run has spent that is about to end as canceled.")
    async def child_spent(self, *values: Any) -> None:
        """Keep it until the child's end; of a run that is no child at work it is ignored."""
        given = self._received(values)
        run_id, spent = ("", None) if isinstance(given, Refused) else read_told(given)
        if spent:
            self._children.told(run_id, spent)


async def tell_parent(link: RunLink | None, spent: Spent | None) -> None:
    """Tell the parent run, if it is one of ours, what this one has spent that is being cancelled."""
    parent = workflow.info().parent
    if not (link and parent and parent.workflow_id == link.parent_run_id):
        return
    if spent is None or not workflow.patched(PATCH):
        return
    handle = workflow.get_external_workflow_handle(parent.workflow_id)
    with suppress(FailureError):  # it has ended, and nobody counts any more
        await handle.signal(SPENT, {"run_id": workflow.info().workflow_id, "spent": spent})
