"""Refuse messages from outside that cannot be decoded, or are not encrypted.

Which payloads those are depends on a worker's keys and settings, which change while workflows are open. So a
refused message leaves a marker: a replay refuses the same messages, even if they can be decoded by then.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from sojourn.contracts.record import Record
from sojourn.core.awaits.envelope import Rejection
from sojourn.values.undecodable import Undecodable, first_undecodable

M = TypeVar("M", bound=Record)

_READ_BEFORE = "a message that was read before cannot be read now; give this worker the keys it was read with"
_TAKEN_BEFORE = (
    "a result that was taken before cannot be decoded now; give this worker the code it was taken by"
)
_UNREAD = "it could not be read"
WRONG_FIGURES = "figures-by-hand"
"""The marker of a run that counts invalid figures as zero.

Older runs counted them unchanged.
"""


def accept_values(marker: str, values: Sequence[Any]) -> Sequence[Any] | Rejection:
    """Return the values of a message, or a refusal if they cannot be accepted."""
    unread = first_undecodable(values)
    if workflow.unsafe.is_replaying():
        if workflow.patched(marker):
            return _is_refused(unread)
        return require_decoded(values)
    if unread is None:
        return values
    workflow.patched(marker)
    return _is_refused(unread)


def read_one(kind: type[M], marker: str, values: Sequence[Any]) -> M:
    """Return the only argument of a small workflow."""
    given = accept_values(marker, values)
    if isinstance(given, Rejection):
        fault = given.reason
    elif len(given) != 1:
        fault = f"not {len(given)} values"
    else:
        try:
            return kind.model_validate(given[0])
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    raise ApplicationError(
        f"this workflow takes one {kind.__name__}: {fault}", type="InvalidInput", non_retryable=True
    )


def require_decoded(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a message that was accepted before, in a replay."""
    if any(isinstance(value, Undecodable) and not value.is_clear for value in values):
        raise RuntimeError(_READ_BEFORE)
    return [value.value if isinstance(value, Undecodable) else value for value in values]


def manual_result_fault(marker: str, value: Any, fault: str | None) -> str | None:
    """Return why the result of an activity is refused, or None.

    The code decides which results it can decode and use, and it may change. A refusal therefore
    leaves a marker here, too.
    """
    if workflow.unsafe.is_replaying():
        if workflow.patched(marker):
            return fault or _UNREAD
        if isinstance(value, Undecodable):
            raise RuntimeError(_TAKEN_BEFORE)
        return None
    if fault is not None:
        workflow.patched(marker)
    return fault


def _is_refused(unread: Undecodable | None) -> Rejection:
    return Rejection(unread.reason if unread else _UNREAD)
