"""Taking: what came from outside in payloads that could not be read, or not in the way that is asked for.

Which those are depends on the keys and settings that a worker has, and these change under running workflows. So a
message that is refused for it leaves a marker: a replay refuses the same ones, whatever could be read by then.
"""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow

from sojourn.core.awaits.sent import Refused
from sojourn.core.values.unread import Unread, unread_in

_READ_BEFORE = "a message that was read before cannot be read now; give this worker the keys it was read with"
_TAKEN_BEFORE = (
    "a result that was taken before cannot be decoded now; give this worker the code it was taken by"
)
_UNREAD = "it could not be read"
WRONG_FIGURES = "figures-by-hand"
"""The marker of a run in which figures that are none count as nothing; before, they were counted as they were."""


def taken(marker: str, values: Sequence[Any]) -> Sequence[Any] | Refused:
    """What was sent, or why it is refused unread.

    Args:
        marker: Names the message in the run; written only when it is refused.
        values: What the converter made of it.
    """
    unread = unread_in(values)
    if workflow.unsafe.is_replaying():
        if workflow.patched(marker):
            return _refused(unread)
        return as_before(values)
    if unread is None:
        return values
    workflow.patched(marker)
    return _refused(unread)


def as_before(values: Sequence[Any]) -> Sequence[Any]:
    """What was accepted, when it comes again in a replay.

    Raises:
        RuntimeError: it cannot be read any more, so that the workflow task is tried until it can be.
    """
    if any(isinstance(value, Unread) and not value.is_clear for value in values):
        raise RuntimeError(_READ_BEFORE)
    return [value.value if isinstance(value, Unread) else value for value in values]


def refused_by_hand(marker: str, value: Any, fault: str | None) -> str | None:
    """Why what an activity was completed with is refused, or None.

    What can be decoded, and carried out, may change with the code. So what is refused leaves a marker here too.

    Args:
        marker: Names the activity in the run; written only when its result is refused.
        value: What the converter made of the result.
        fault: What is wrong with it.

    Raises:
        RuntimeError: it was taken before, and cannot be decoded now.
    """
    if workflow.unsafe.is_replaying():
        if workflow.patched(marker):
            return fault or _UNREAD
        if isinstance(value, Unread):
            raise RuntimeError(_TAKEN_BEFORE)
        return None
    if fault is not None:
        workflow.patched(marker)
    return fault


def _refused(unread: Unread | None) -> Refused:
    return Refused(unread.reason if unread else _UNREAD)
