"""Render a tool's JSON as a page shows it.

It becomes fields, a table, a text, a picture, or JSON, and is cut to what a page holds.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sojourn.console.views.text import lines_of

__all__ = ["Field", "Shown", "json_text", "line_of", "shown_value"]

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
    """A value as a page shows it."""

    kind: Literal["nothing", "fields", "table", "text", "json", "picture"]
    fields: Sequence[Field] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Field]] = ()
    text: str = ""
    """The beginning of a text or JSON, or the URL of a picture."""
    is_whole: bool = True
    size: int = 0
    """Characters of the whole, as text or JSON."""


def shown_value(value: Any, most: int = MOST) -> Shown:
    """Return a value as a page shows it.

    Args:
        value: JSON.
        most: Most characters of a text, or of JSON.
    """
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
    """Return objects with the same few fields as a table, or None."""
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
    """Check whether the JSON of an object or array is too long for a cell."""
    return isinstance(value, dict | list) and len(json.dumps(value, default=str)) > MAX_CELL


def _picture(value: Any) -> Shown | None:
    """Return a picture embedded in JSON, or None.

    It is a data URL, or `media_type` with `data` in base64.
    """
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
