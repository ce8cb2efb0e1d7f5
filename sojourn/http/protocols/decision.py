"""Decision: what a client may send to decide on a call. The other fields of its answer are refused, not left alone.

A client that sends other arguments, under whatever name, would else have the call run with those that were shown.
"""

from collections.abc import Iterable

from sojourn.core.awaits.confirmation import NO_EDIT
from sojourn.errors import InvalidInput

__all__ = ["check_fields"]


def check_fields(given: Iterable[str], known: Iterable[str]) -> None:
    """Check that a decision has only these fields.

    Raises:
        InvalidInput: It has another one.
    """
    known = tuple(known)
    for name in given:
        if name not in known:
            raise InvalidInput(
                f"a decision on a call has no field {name[:80]!r}, but {', '.join(known)}; {NO_EDIT}"
            )
