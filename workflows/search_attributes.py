"""Search attributes and the start time of a run, for lists of runs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from sojourn.contracts import wire_names
from sojourn.contracts.run import RunOutput
from sojourn.contracts.wire_names import STARTED_AT
from sojourn.search_attributes import AGENT, GAVE_UP, TENANT, VISIBLE_TO

from .current_state import patched


class Listed:
    """Sets the search attributes of a run, unless its start set none.

    Earlier versions let a run continue without an attribute that its namespace had lost, and recorded that by a marker, which a
    replay obeys.
    """

    def __init__(self, *, is_listed: bool) -> None:
        self.is_listed = is_listed or workflow.info().typed_search_attributes.get(AGENT) is not None
        self._asked = 0
        self._is_off = False

    @property
    def tenant(self) -> str:
        return workflow.info().typed_search_attributes.get(TENANT) or ""

    def may_set(self) -> bool:
        """Check whether a command may set search attributes."""
        if self._is_off or not self.is_listed:
            return False
        self._asked += 1
        if workflow.unsafe.is_replaying():
            self._is_off = workflow.patched(f"unlisted-{self._asked}")
        return not self._is_off

    def show_to(self, viewers: Sequence[str]) -> None:
        """Record who may see the run."""
        if self.may_set():
            workflow.upsert_search_attributes([VISIBLE_TO.value_set(list(viewers))])  # pyright: ignore[reportUnknownMemberType]
        workflow.upsert_memo({wire_names.VISIBLE_TO: list(viewers)})

    def end(self, output: RunOutput) -> None:
        """Record that the run gave up, if a limit or a safeguard ended it."""
        if output.error and self.is_listed and patched("gave-up-listed") and self.may_set():
            workflow.upsert_search_attributes([GAVE_UP.value_set(output.reason)])  # pyright: ignore[reportUnknownMemberType]


def memo_since(started: datetime) -> dict[str, Any]:
    """Return the memo for the next execution."""
    kept = {name: RawValue(payload) for name, payload in workflow.info().raw_memo.items()}
    return {**kept, STARTED_AT: started.isoformat()}
