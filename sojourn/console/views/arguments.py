"""Render arguments as a table, with one row for each value.

It marks what differs from another call.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from sojourn.console.views.text import shown
from sojourn.values.visible import CUT, mixed_scripts, one_line

__all__ = ["MOST_ROWS", "Argument", "Arguments", "arguments_of"]

MOST_ROWS = 200
"""Most rows of a table."""

LONG = 400
"""Characters from which a value is folded."""

MAX_VALUE = 100_000
"""Longest value, in characters."""

MAX_NAME = 200
"""Longest name that is displayed unfolded, in characters."""

_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")
"""Escape that `shown` writes for a character that is not plainly visible."""

_ABSENT = object()
_PLAIN = {"", "true", "false", "null", "none"}


@dataclass(frozen=True, slots=True)
class Argument:
    """A value of a call."""

    name: str
    """Its path, such as `lines[0].sku`, or the beginning of a long path."""
    whole_name: str
    """The whole path if it is long. Empty if `name` is the whole path."""
    name_length: int
    """Characters of the path."""
    value: str
    """The value as text. A text that could be mistaken for another value is in quotes."""
    beginning: str
    """The beginning of a long value. Empty if `value` is shown whole."""
    length: int
    """Characters of the value."""
    is_text: bool
    change: str
    """`new`, `changed`, `gone` or empty."""
    before: str
    """The previous value, if it has changed."""
    warnings: tuple[str, ...]
    """Words that mix scripts, and may be mistaken for other words."""
    about: str
    """Description of the field by the tool."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call."""

    rows: tuple[Argument, ...]
    left_out: int
    """Number of values that are not in the rows. `whole` has them."""
    whole: str
    """All of them, as JSON."""
    is_compared: bool
    """Whether changes are those from another call."""
    is_whole: bool
    """Whether the visitor can read all of them here: in the rows, or else as JSON."""

    @property
    def changed(self) -> int:
        """Number of values that differ."""
        return sum(bool(row.change) for row in self.rows)


def arguments_of(
    payload: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    *,
    about: Mapping[str, str] | None = None,
) -> Arguments:
    """Return the arguments of a call.

    Args:
        payload: The arguments.
        before: The arguments of another call, to compare with.
        about: Descriptions of the tool's top-level fields.
    """
    leaves = dict(islice(_leaves(payload), MOST_ROWS))
    count = sum(1 for _ in islice(_leaves(payload), 100_000))
    old: dict[tuple[str | int, ...], Any] = (
        dict(islice(_leaves(before), 4 * MOST_ROWS)) if before is not None else {}
    )
    rows = [
        _row(path, value, old.get(path, _ABSENT), about or {}, is_compared=before is not None)
        for path, value in leaves.items()
    ]
    if count <= MOST_ROWS:
        rows += [
            _row(path, _ABSENT, value, about or {}, is_compared=True)
            for path, value in old.items()
            if path not in leaves
        ]
    whole = shown(json.dumps(payload, ensure_ascii=False, indent=2, default=str))
    left_out = count - len(leaves)
    is_whole = (
        len(whole) <= MAX_VALUE
        if left_out
        else all(max(row.length, row.name_length) <= MAX_VALUE for row in rows)
    )
    return Arguments(tuple(rows), left_out, whole[:MAX_VALUE], before is not None, is_whole)


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every value without inner values, with its path."""
    if value and isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            yield from _leaves(inner, (*path, name))
    elif value and isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(inner, (*path, index))
    elif path:
        yield path, value


def _row(
    path: tuple[str | int, ...], value: Any, old: Any, about: Mapping[str, str], *, is_compared: bool
) -> Argument:
    change = ""
    if is_compared and value is _ABSENT:
        change = "gone"
    elif is_compared and old is _ABSENT:
        change = "new"
    elif is_compared and (value != old or type(value) is not type(old)):
        change = "changed"
    text = "" if value is _ABSENT else _text(value)
    name = _name(path)
    texts = [each for each in (*path, value) if isinstance(each, str)]
    return Argument(
        name=name if len(name) <= MAX_NAME else name[: MAX_NAME // 2],
        whole_name=name[:MAX_VALUE] if len(name) > MAX_NAME else "",
        name_length=len(name),
        value=text[:MAX_VALUE],
        beginning=text[: LONG // 2] if len(text) > LONG else "",
        length=len(text),
        is_text=isinstance(value, str),
        change=change,
        before=one_line(_text(old), LONG) if change in ("changed", "gone") else "",
        warnings=tuple(
            dict.fromkeys(warning for each in texts if (warning := mixed_scripts(each[:MAX_VALUE])))
        ),
        about=one_line(about.get(path[0], ""), 300) if len(path) == 1 and isinstance(path[0], str) else "",
    )


def _text(value: Any) -> str:
    if isinstance(value, str) and not _could_be_another(value):
        return shown(value)
    try:
        return shown(json.dumps(value, ensure_ascii=False, default=str))
    except ValueError:  # an integer has more digits than Python formats
        return hex(value) if isinstance(value, int) else CUT


def _could_be_another(text: str) -> bool:
    """Check whether a text could be mistaken for another value.

    It could if it looks like a number, looks like it has an escaped character, or has invisible spaces
    at its ends.
    """
    if text.strip() != text or text.lower() in _PLAIN or _ESCAPE.search(text):
        return True
    try:
        float(text)
    except ValueError:
        return text[:1] in '"[{'
    return True


def _name(path: Sequence[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return shown(text)
