"""Listed: whether a run sets search attributes; a run whose namespace lacks them continues without."""

from collections.abc import Callable, Collection, Mapping
from typing import cast

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from sojourn.search_attributes import AGENT, UNREGISTERED


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

    def may_set(self, *keys: SearchAttributeKey[str]) -> bool:
        """Whether the namespace has these attributes, as far as this worker knows."""
        if self._is_off or not self.is_listed:
            return False
        self._asked += 1
        is_missing = any(key.name in _unregistered() for key in keys)
        if workflow.unsafe.is_replaying() or is_missing:
            self._is_off = workflow.patched(f"unlisted-{self._asked}")
        return not self._is_off


def _unregistered() -> Collection[str]:
    """The attributes that the worker found to be missing; empty where it does not check."""
    functions = cast("Mapping[str, Callable[[], Collection[str]]]", workflow.extern_functions())  # pyright: ignore[reportUnknownMemberType]
    look = functions.get(UNREGISTERED)
    return look() if look else ()
