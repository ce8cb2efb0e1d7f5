"""Show JSON on a page, such as values of tools and compared arguments."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast

from sojourn.console.views.text import escape_hidden, lines_of
from sojourn.contracts.tool_result import Artifact
from sojourn.values.visible import CUT, describe_mixed_scripts, one_line

__all__ = [
    "MOST_ROWS",
    "MOST_SHOWN",
    "Arguments",
    "arguments_of",
    "artifact_place",
    "json_beginning",
    "json_text",
    "line_of",
    "view_value",
]

MOST = 4_000
"""Most characters of a text, or of JSON."""

MAX_FIELDS = 40
MAX_ROWS = 20
MAX_COLUMNS = 10
MAX_CELL = 400
MAX_PICTURE = 2_000_000
"""Largest picture that is embedded in a page, in characters of base64."""

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object, or a cell of a table."""

    name: str
    text: str
    is_whole: bool
    is_code: bool
    """Whether the text is JSON, and not prose."""


@dataclass(frozen=True, slots=True)
class Shown:
    kind: Literal["nothing", "fields", "table", "text", "json", "picture"]
    fields: Sequence[Field] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Field]] = ()
    text: str = ""
    """The beginning of a text or JSON, or the URL of a picture."""
    is_whole: bool = True
    size: int = 0
    """Characters of the whole, as text or JSON."""


def view_value(value: Any, most: int = MOST) -> Shown:
    if value is None or value in ({}, [], ""):
        return Shown("nothing")
    if picture := _picture(value):
        return picture
    if isinstance(value, str):
        text, is_whole = lines_of(value, most)
        return Shown("text", text=text, is_whole=is_whole, size=len(value))
    if isinstance(value, dict):
        return _fields(cast("dict[str, Any]", value), most)
    if isinstance(value, list) and (table := _table(cast("list[Any]", value))):
        return table
    return _json(value, most)


def json_beginning(value: Any, most: int = MOST) -> tuple[str, bool]:
    """Return the beginning of a value as JSON, or of a text, and whether that is all."""
    return lines_of(value if isinstance(value, str) else json_text(value), most)


def json_text(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def line_of(value: Any, most: int = 120) -> str:
    """Return a value on one line. An object becomes `name: value, ...`."""
    if isinstance(value, Mapping):
        known = cast("Mapping[str, Any]", value)
        return ", ".join(f"{name}: {_compact(each, most)}" for name, each in list(known.items())[:8])[
            : 2 * most
        ]
    if isinstance(value, list) and len(known := cast("list[Any]", value)) > 1:
        names = list(cast("dict[str, Any]", known[0])) if isinstance(known[0], dict) else []
        return f"{len(known):,} items{': ' if names else ''}{', '.join(names)}"[:most]
    return _compact(value, most)


def _compact(value: Any, most: int) -> str:
    if isinstance(value, str):
        return value[:most]
    return json.dumps(value, ensure_ascii=False, default=str)[:most] if value is not None else ""


def _json(value: Any, most: int) -> Shown:
    whole = json_text(value)
    text, is_whole = lines_of(whole, most)
    return Shown("json", text=text, is_whole=is_whole, size=len(whole))


def _fields(value: dict[str, Any], most: int) -> Shown:
    if len(value) > MAX_FIELDS:
        return _json(value, most)
    fields = [_field(name, each, most) for name, each in value.items()]
    size = len(json.dumps(value, ensure_ascii=False, default=str))
    return Shown("fields", fields=fields, is_whole=all(each.is_whole for each in fields), size=size)


def _field(name: str, value: Any, most: int) -> Field:
    is_code = not isinstance(value, str)
    whole = json_text(value) if is_code else value
    if is_code and len(short := json.dumps(value, ensure_ascii=False, default=str)) <= 80:
        whole = short
    text, is_whole = lines_of(whole, most)
    return Field(name, text, is_whole, is_code)


def _table(value: list[Any]) -> Shown | None:
    rows = [cast("dict[str, Any]", each) for each in value if isinstance(each, dict) and each]
    if len(rows) < 2 or len(rows) < len(value):
        return None
    columns = list(dict.fromkeys(name for row in rows[: 4 * MAX_ROWS] for name in row))
    cells = [each for row in rows[:MAX_ROWS] for each in row.values()]
    if len(columns) > MAX_COLUMNS or any(_is_deep(each) for each in cells):
        return None
    shown = [[_field(name, row.get(name, ""), MAX_CELL) for name in columns] for row in rows[:MAX_ROWS]]
    is_whole = len(rows) <= MAX_ROWS and all(cell.is_whole for row in shown for cell in row)
    return Shown("table", columns=columns, rows=shown, is_whole=is_whole, size=len(rows))


def _is_deep(value: Any) -> bool:
    return isinstance(value, dict | list) and len(json.dumps(value, default=str)) > MAX_CELL


def _picture(value: Any) -> Shown | None:
    if isinstance(value, str):
        found = _DATA_URL.match(value) if len(value) <= MAX_PICTURE and value.startswith("data:") else None
        return Shown("picture", text=value, size=len(value)) if found else None
    if not isinstance(value, dict):
        return None
    known = cast("dict[str, Any]", value)
    media, data = known.get("media_type"), known.get("data")
    is_picture = media in _PICTURES and isinstance(data, str) and len(data) <= MAX_PICTURE
    if not is_picture or not _BASE64.match(cast("str", data)):
        return None
    return Shown("picture", text=f"data:{media};base64,{data}", size=len(cast("str", data)))


MOST_ROWS = 200
"""Most rows of a table."""

LONG = 400
"""Characters from which a value is folded."""

MAX_VALUE = 100_000
"""Longest value, in characters."""

MAX_NAME = 200
"""Longest name that is displayed unfolded, in characters."""

_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")
"""Escape that `escape_hidden` writes for a character that is not plainly visible."""

_ABSENT = object()
_PLAIN = {"", "true", "false", "null", "none"}


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    """Its path, such as `lines[0].sku`, or the beginning of a long path."""
    whole_name: str
    """The whole path if it is long. Empty if `name` is the whole path."""
    name_length: int
    """Characters of the path."""
    value: str
    """The value as text. A text that could be mistaken for another value is in quotes."""
    beginning: str
    """The beginning of a long value. Empty if `value` is whole."""
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
        return sum(bool(row.change) for row in self.rows)


def arguments_of(
    payload: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    *,
    about: Mapping[str, str] | None = None,
) -> Arguments:
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
    whole = escape_hidden(json.dumps(payload, ensure_ascii=False, indent=2, default=str))
    left_out = count - len(leaves)
    is_whole = (
        len(whole) <= MAX_VALUE
        if left_out
        else all(max(row.length, row.name_length) <= MAX_VALUE for row in rows)
    )
    return Arguments(tuple(rows), left_out, whole[:MAX_VALUE], before is not None, is_whole)


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
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
            dict.fromkeys(warning for each in texts if (warning := describe_mixed_scripts(each[:MAX_VALUE])))
        ),
        about=one_line(about.get(path[0], ""), 300) if len(path) == 1 and isinstance(path[0], str) else "",
    )


def _text(value: Any) -> str:
    if isinstance(value, str) and not _could_be_another(value):
        return escape_hidden(value)
    try:
        return escape_hidden(json.dumps(value, ensure_ascii=False, default=str))
    except ValueError:  # an integer has more digits than Python formats
        return hex(value) if isinstance(value, int) else CUT


def _could_be_another(text: str) -> bool:
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
    return escape_hidden(text)


MOST_SHOWN = 2_100_000
"""Largest artifact that a page reads and shows, in bytes of JSON.

This leaves room for the largest picture that a page may have, and the JSON around it.
"""


@dataclass(frozen=True, slots=True)
class ArtifactPlace:
    run_id: str
    """The run that made it: the run of the page, or one of its child runs."""
    path: str
    """Path of its page."""
    is_shown: bool
    """Whether it is small enough for a page."""


def artifact_place(artifact: Artifact) -> ArtifactPlace | None:
    """Return an artifact's place, or None if its reference does not name one."""
    run_id, _, rest = artifact.ref.partition("#")
    call_id, _, kind = rest.partition("/")
    if not (run_id and call_id and kind):
        return None
    path = f"/runs/{run_id}/calls/{call_id}/artifacts/{kind}"
    return ArtifactPlace(run_id, path, artifact.size <= MOST_SHOWN)
