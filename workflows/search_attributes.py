"""Search attributes and the start time of a run, for lists of runs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from sojourn.contracts import wire_names
from sojourn.contracts.wire_names import STARTED_AT
from sojourn.search_attributes import AGENT, TENANT, VISIBLE_TO


class Listed:
    """Sets the search attributes of a run, unless its start set none.

    Earlier versions let a run continue without an attribute that its namespace had lost, and recorded that by a marker, which a
    replay obeys.

    Args:
        is_listed: Whether the run's input says that the start set search attributes.
    """

    def __init__(self, *, is_listed: bool) -> None:
        self.is_listed = is_listed or workflow.info().typed_search_attributes.get(AGENT) is not None
        """Whether the start set search attributes."""
        self._asked = 0
        self._is_off = False

    @property
    def tenant(self) -> str:
        """The tenant that the start has set, or an empty text."""
        return workflow.info().typed_search_attributes.get(TENANT) or ""

    def may_set(self) -> bool:
        """Check whether a command may set search attributes.

        Call this once before each command that does.
        """
        if self._is_off or not self.is_listed:
            return False
        self._asked += 1
        if workflow.unsafe.is_replaying():
            self._is_off = workflow.patched(f"unlisted-{self._asked}")
        return not self._is_off

    def show_to(self, viewers: Sequence[str]) -> None:
        """Record who may see the run.

        Lists find it in the search attributes. The memo has it too, in every namespace.

        Args:
            viewers: Their marks.
        """
        if self.may_set():
            workflow.upsert_search_attributes([VISIBLE_TO.value_set(list(viewers))])  # pyright: ignore[reportUnknownMemberType]
        workflow.upsert_memo({wire_names.VISIBLE_TO: list(viewers)})


def memo_since(started: datetime) -> dict[str, Any]:
    """Return the memo for the next execution.

    It is that of this one, and when the run started, which the next one does not know.
    """
    kept = {name: RawValue(payload) for name, payload in workflow.info().raw_memo.items()}
    return {**kept, STARTED_AT: started.isoformat()}
