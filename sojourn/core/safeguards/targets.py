"""Targets: what the message of an error shows of what was tried, paths or hosts, so that another file or another host is progress.

Messages are hostile and may be long: only their beginning is read, and no pattern repeats without a bound.
"""

import re
from collections.abc import Iterator

from sojourn.core.safeguards.error_classes import MAX_READ
from sojourn.core.values.text import plain

__all__ = ["MAX_TARGET", "target_of"]

MAX_TARGET = 300
"""Longest target, in characters."""

_MAX_NAMED = 20

_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{0,20}://([^\s/'\"`<>?#()\[\],;]{1,200})([^\s'\"`<>()\[\],;]{0,200})"
)
_QUOTED = re.compile(r"(?<!\w)'([^'\n]{1,200})'(?!\w)|\"([^\"\n]{1,200})\"|`([^`\n]{1,200})`")
_PATH = re.compile(r"(?<![^\s'\"`=:(\[])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+~-]{1,200}){1,40}[/\\]?")
_NAME = re.compile(
    r"(?<![\w.@/\\-])(?:(?:[\w-]{1,63}\.){1,10}(?![\w-]*(?:error|exception|timeout)\b)[A-Za-z][A-Za-z0-9]{1,5}"
    r"|\d{1,3}(?:\.\d{1,3}){3}|localhost)(?::\d{1,5})?(?![\w/\\-])"
)
_RELATIVE = re.compile(r"(?<![^\s'\"`=:(\[])(?:[\w.-]{1,100}[/\\]){1,40}[\w-]{1,100}\.\w{1,10}(?!\w)")


def target_of(category: str, message: str) -> str:
    """The hosts that a message of a network error names, or else the paths, names and addresses; empty where it names none."""
    found = _hosts(message[:MAX_READ]) if category == "network_error" else _places(message[:MAX_READ])
    names = sorted({name.rstrip(".,:;") for name in found} - {""})[:_MAX_NAMED]
    return plain(" ".join(names), MAX_TARGET)


def _hosts(text: str) -> Iterator[str]:
    yield from (found[1].rpartition("@")[2].lower() for found in _URL.finditer(text))
    yield from (found[0].lower() for found in _NAME.finditer(_URL.sub(" ", text)))


def _places(text: str) -> Iterator[str]:
    yield from (f"{found[1].rpartition('@')[2]}{found[2]}" for found in _URL.finditer(text))
    rest = _URL.sub(" ", text)
    yield from (found[1] or found[2] or found[3] for found in _QUOTED.finditer(rest))
    rest = _QUOTED.sub(" ", rest)
    for pattern in (_PATH, _RELATIVE, _NAME):
        yield from (found[0] for found in pattern.finditer(rest))
