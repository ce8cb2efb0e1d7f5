"""What lists know of a run that goes on: search attributes and its start."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from sojourn.contracts import wire_names
from sojourn.contracts.wire_names import STARTED_AT
from sojourn.search_attributes import AGENT, TENANT, UNREGISTERED, VISIBLE_TO

_COLUMN = re.compile("(Bool|Datetime|Double|Int|Keyword|KeywordList|Text)[0-9]{2}")
"""A column of the server's database, by whose name it shows an attribute once all of a namespace were removed."""

_CHANGE_VERSION = SearchAttributeKey.for_keyword_list("TemporalChangeVersion")
"""The patches of an execution, which the SDK sets; every namespace has it."""


class Listed:
    """Decides before each command that sets search attributes; a marker records for replays when the answer became no.

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
        """The tenant that the start has set; empty where the namespace did not have its attribute then."""
        return workflow.info().typed_search_attributes.get(TENANT) or ""

    def may_set(self, *keys: SearchAttributeKey[Any]) -> bool:
        """Whether the namespace has these attributes, as far as this worker knows."""
        if self._is_off or not self.is_listed:
            return False
        self._asked += 1
        is_missing = any(key.name in _unregistered() for key in keys)
        if workflow.unsafe.is_replaying() or is_missing:
            self._is_off = workflow.patched(f"unlisted-{self._asked}")
        return not self._is_off

    def show_to(self, viewers: Sequence[str]) -> None:
        """Record who may see the run, where lists find it, and in the memo, which every namespace has.

        Args:
            viewers: Their marks.
        """
        if self.may_set(VISIBLE_TO):
            workflow.upsert_search_attributes([VISIBLE_TO.value_set(list(viewers))])  # pyright: ignore[reportUnknownMemberType]
        workflow.upsert_memo({wire_names.VISIBLE_TO: list(viewers)})

    def kept(self) -> TypedSearchAttributes | None:
        """The search attributes for the next execution, without those that the namespace lacks; None for all.

        By default the SDK repeats all, and the server fails a workflow task that names one which is not registered. A
        replay does not compare them. The SDK repeats all for an empty set too, so that one of Temporal's own stands for it.
        """
        missing = _unregistered()
        current = cast("Collection[SearchAttributePair[Any]]", workflow.info().typed_search_attributes)
        kept = [
            pair
            for pair in current
            if pair.key.name not in missing and not (missing and _COLUMN.fullmatch(pair.key.name))
        ]
        if len(kept) == len(current):
            return None
        return TypedSearchAttributes(kept or [SearchAttributePair(_CHANGE_VERSION, ["continues"])])


def memo_since(started: datetime) -> dict[str, Any]:
    """The memo for the next execution: that of this one, and when the run started, which the next one does not know."""
    kept = {name: RawValue(payload) for name, payload in workflow.info().raw_memo.items()}
    return {**kept, STARTED_AT: started.isoformat()}


def _unregistered() -> Collection[str]:
    """The attributes that the worker found to be missing; empty where it does not check."""
    functions = cast("Mapping[str, Callable[[], Collection[str]]]", workflow.extern_functions())  # pyright: ignore[reportUnknownMemberType]
    look = functions.get(UNREGISTERED)
    return look() if look else ()
