"""Names: tool ids as names that model providers accept, and back.

Providers accept `[A-Za-z_][A-Za-z0-9_-]{0,63}`; a tool id has two dots, and may be longer. The name of a tool
must not depend on the other tools of a request, since prompt caches and old transcripts hold the name.

| tool id | name |
|---|---|
| `ops.devices.list` | `ops__devices__list` |
| an id whose `_` would be read as dots, or that is too long, or has `.` or `/` in the tool's part | its readable beginning, `_` and 10 hex digits of its SHA-256 |

A name that is not a tool id (`ask_user`, or a tool that a model invented) is kept where providers accept it.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

from sojourn.contracts.ids import ToolId

__all__ = ["Names", "wire_name"]

MAX_NAME = 64
"""Longest name that every provider accepts, in characters."""

MAX_UNKNOWN = 200
"""Most characters that are kept of the name of an unknown tool."""

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

_DIGITS = 10

_DIGEST = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z")

_UNREADABLE = re.compile(r"[^A-Za-z0-9-]+")


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """Return the name of a tool for providers; different tools have different names.

    Args:
        name: A tool id, or any other name that a transcript holds.
    """
    tool = _id(name)
    if tool is not None:
        plain = name.replace(".", "__")
        return plain if _inverse(plain) == name else _hashed(name)
    return (
        name if _LEGAL.match(name) and not _DIGEST.search(name) and _inverse(name) is None else _hashed(name)
    )


class Names:
    """The names of a request's tools: those that it offers, and those in its transcript."""

    def __init__(self, names: Iterable[str]) -> None:
        """Take the tool ids; if two had the same name, the first would get it."""
        self._ids: dict[str, str] = {}
        for name in names:
            self._ids.setdefault(wire_name(name), name)

    def __eq__(self, other: object) -> bool:
        """Whether these are the names of the same tools."""
        return isinstance(other, Names) and self._ids == other._ids

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def name_of(id: str) -> str:
        """Return the name of a tool for providers, independent of the request's other tools."""
        return wire_name(id)

    def id_of(self, name: str) -> str:
        """Return the tool id for a name; for an unknown tool the id that the name spells, else the name itself, cut.

        Args:
            name: As the model wrote it, which may be any text.
        """
        known = self._ids.get(name)
        if known is not None:
            return known
        return _inverse(name) or name[:MAX_UNKNOWN]

    def replace_ids(self, text: str) -> str:
        """Return a text for the model, in which the ids of known tools are replaced by their names."""
        return self._known.sub(lambda found: wire_name(found[0]), text) if self._ids else text

    @cached_property
    def _known(self) -> re.Pattern[str]:
        ids = sorted(self._ids.values(), key=len, reverse=True)
        return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, ids))})(?![\w/-]|\.\w)")


def _inverse(name: str) -> str | None:
    """Return the tool id whose dots were replaced by `__`; None where no id, or more than one, has this name."""
    parts = name.split("__")
    if len(parts) != 3 or len(name) > MAX_NAME:
        return None
    service, toolset, tool = parts
    if service.endswith("_") or toolset.startswith("_") or toolset.endswith("_") or tool.startswith("_"):
        return None
    return _id(f"{service}.{toolset}.{tool}") if _LEGAL.match(name) else None


def _id(name: str) -> str | None:
    try:
        return ToolId(name)
    except ValueError:
        return None


def _hashed(name: str) -> str:
    """Return a name with a digest: unlike a plain name it has no `__`, and any other name that ends so is hashed too."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    readable = _UNREADABLE.sub("_", name[:MAX_UNKNOWN]).lstrip("_-0123456789")
    return f"{readable[: MAX_NAME - _DIGITS - 1].rstrip('_') or 'tool'}_{digest}"
