"""What an approver reads on a page, and read back into the arguments that it shows."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

__all__ = ["json_shown", "leaves", "table_shown"]


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value that has none in it, with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if value and isinstance(value, dict | list):
        for name, each in inner:
            yield from leaves(each, (*path, name))
    elif path:
        yield path, value


class _Page(HTMLParser):
    """The cells of tables of arguments, and what is preformatted, as text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows = list[dict[str, Any]]()
        self.blocks = list[str]()
        self._within = list[tuple[str, str]]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class") or ""
        if tag not in ("br", "input", "img", "meta", "link", "hr", "path", "use"):
            self._within.append((tag, kind))
        if tag == "tr":
            self.rows.append({"name": "", "value": "", "is_code": False, "folded": {}})
        elif tag == "pre":
            self.blocks.append("")
            if self._is_in("tr"):
                self.rows[-1]["folded"]["name" if self._is_in("th") else "value"] = ""
        elif tag == "bdi" and "code" in kind.split():
            self.rows[-1]["is_code"] = True

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._is_in("pre") and self._is_in("bdi"):
            self.blocks[-1] += data
            if self._is_in("tr"):
                self.rows[-1]["folded"]["name" if self._is_in("th") else "value"] += data
        elif self._is_in("bdi") and self._is_in("tbody") and not self._is_in("summary"):
            if self._is_in("th") and not self._has("hint"):
                self.rows[-1]["name"] += data
            elif self._is_in("td") and self._has("value"):
                self.rows[-1]["value"] += data

    def _is_in(self, tag: str) -> bool:
        return any(each == tag for each, _ in self._within)

    def _has(self, kind: str) -> bool:
        return any(kind in each.split() for _, each in self._within)


def _plain(text: str) -> str:
    """A text whose escapes are the characters again."""
    short = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|([nrt]))",
        lambda found: chr(int(found[1] or found[2], 16)) if found[1] or found[2] else short[found[3]],
        text,
    )


def _json(text: str) -> Any:
    """JSON in which a character may be written with eight digits."""
    wide = re.sub(
        r"(?<!\\)((?:\\\\)*)\\U([0-9a-f]{8})",
        lambda found: found[1] + json.dumps(chr(int(found[2], 16)))[1:-1],
        text,
    )
    return json.loads(wide, strict=False)


def _path(name: str) -> tuple[str | int, ...]:
    """The steps of a name such as `lines[0]["a b"].sku`."""
    found = list[str | int]()
    for step in re.finditer(r'\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.\[]+)', name, re.DOTALL):
        number, text, word = step.groups()
        found.append(int(number) if number else _json(text) if text else _plain(word))
    return tuple(found)


def table_shown(html: str) -> dict[tuple[str | int, ...], Any]:
    """The values of the table of arguments on a page, by their paths."""
    shown = dict[tuple[str | int, ...], Any]()
    for row in _Page(html).rows:
        if not row["name"] and "name" not in row["folded"]:
            continue  # the head
        text = row["folded"].get("value", row["value"])
        is_quoted = text.startswith('"') and text.endswith('"') and len(text) > 1
        value = _json(text) if is_quoted or row["is_code"] else _plain(text)
        shown[_path(row["folded"].get("name", row["name"]))] = value
    return shown


def json_shown(html: str) -> Any:
    """The JSON of the first preformatted block on a page."""
    return _json(_Page(html).blocks[0])
