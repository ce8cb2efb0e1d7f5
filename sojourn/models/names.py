"""Names: tool ids as model providers take names, and back.

A provider's names are `[A-Za-z_][A-Za-z0-9_-]{0,63}`; a tool id has two dots, and may be longer. What a tool
is called must not change with the tools beside it: prompt caches and old transcripts hold the name.

| tool id | name |
|---|---|
| `ops.devices.list` | `ops__devices__list` |
| one whose dots could not be told from its own `_`, or that is too long, or has `.` or `/` in the tool's part | its readable beginning, `_` and 10 hex digits of its SHA-256 |

A name that is no tool id (`ask_user`, or a tool that a model made up) is kept where a provider takes it.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

from sojourn.contracts.ids import ToolId

__all__ = ["Names", "wire_name"]

MAX_NAME = 64
"""Characters that every provider takes."""

MAX_UNKNOWN = 200
"""Characters that are kept of a name which no tool has."""

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

_DIGITS = 10

_DIGEST = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z")

_UNREADABLE = re.compile(r"[^A-Za-z0-9-]+")


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """What providers call a tool; two tools have two names.

    Args:
        name: A tool id; or a name that is none, as a transcript may hold.
    """
    tool = _id(name)
    if tool is not None:
        plain = name.replace(".", "__")
        return plain if _inverse(plain) == name else _hashed(name)
    return (
        name if _LEGAL.match(name) and not _DIGEST.search(name) and _inverse(name) is None else _hashed(name)
    )


class Names:
    """The names of the tools that a request knows: those it offers, and those in its transcript."""

    def __init__(self, names: Iterable[str]) -> None:
        """Take the tool ids; where two had one name, the first would have it."""
        self._ids: dict[str, str] = {}
        for name in names:
            self._ids.setdefault(wire_name(name), name)

    @staticmethod
    def name_of(id: str) -> str:
        """What providers call a tool; the same whatever else is known."""
        return wire_name(id)

    def id_of(self, name: str) -> str:
        """The tool id that a model means; of a tool that is not known, what the run can answer for.

        Args:
            name: As the model wrote it, which may be anything.
        """
        known = self._ids.get(name)
        if known is not None:
            return known
        return _inverse(name) or name[:MAX_UNKNOWN]

    def spoken(self, text: str) -> str:
        """A text for the model, in which the tools that are known have their names."""
        return self._known.sub(lambda found: wire_name(found[0]), text) if self._ids else text

    @cached_property
    def _known(self) -> re.Pattern[str]:
        ids = sorted(self._ids.values(), key=len, reverse=True)
        return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, ids))})(?![\w/-]|\.\w)")


def _inverse(name: str) -> str | None:
    """The id whose dots were replaced, where there can be but one."""
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
    """Never a plain name, for it holds no `__`; never one of ours, for those do not end in a digest."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    readable = _UNREADABLE.sub("_", name[:MAX_UNKNOWN]).lstrip("_-0123456789")
    return f"{readable[: MAX_NAME - _DIGITS - 1].rstrip('_') or 'tool'}_{digest}"
