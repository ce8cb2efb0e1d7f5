"""Read JSON texts of people and programs, and refuse duplicate names.

RFC 8259 leaves open which of two values counts, and readers differ. So a person who looks at such a
text, or signs it, may have seen another value than the one that is used.
"""

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["DuplicateNameError", "duplicate_name", "first_duplicate", "loads", "name_given_twice"]

_WHITE = " \t\r\n"


class DuplicateNameError(ValueError):
    """A name stands twice in one object."""

    def __init__(self, name: str) -> None:
        super().__init__(name_given_twice(name))
        self.name = name


def name_given_twice(name: str) -> str:
    return f"the name {ascii(name)[:80]} is given twice in one object"


def first_duplicate(pairs: Sequence[tuple[str, Any]]) -> str | None:
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    return None


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text, as `json.loads` reads it."""
    return json.loads(text, object_pairs_hook=_unique)


def duplicate_name(body: str | bytes) -> str | None:
    """Return the first name that stands twice in an object of a text, or None.

    None also for a text that is no object or array of JSON. It reads more than strict readers do, such
    as control characters and numbers of any length: what one of them accepts is never let through
    unread.
    """
    try:
        text = body if isinstance(body, str) else body.decode("utf-8-sig")
        if text.lstrip(_WHITE)[:1] in ("{", "["):
            _ANY.decode(text)
    except DuplicateNameError as error:
        return error.name
    except (ValueError, RecursionError):
        pass
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs) and (name := first_duplicate(pairs)) is not None:
        raise DuplicateNameError(name)
    return made


def _check_names(pairs: list[tuple[str, Any]]) -> None:
    """Check the names as `_unique` does, for a value that no code reads."""
    if len(dict(pairs)) < len(pairs) and (name := first_duplicate(pairs)) is not None:
        raise DuplicateNameError(name)


_ANY = json.JSONDecoder(object_pairs_hook=_check_names, parse_int=str, parse_float=str, strict=False)
