"""Text for a terminal: what comes from outside on one line, or quoted for a shell, and durations for people.

It imports little, since every command prints with it.
"""

import json
import shlex
from datetime import timedelta
from typing import Any

from sojourn.core.values.visible import visible

__all__ = ["WIDTH", "plain", "shell_word", "took"]

WIDTH = 160
"""Most characters of a payload or result on a line."""


def plain(value: Any, width: int | None = WIDTH) -> str:
    """Return a text, or a value as JSON, on one line with invisible characters as escapes, cut to `width` characters unless None."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if width is None:
        return visible(text)
    line = visible(text[: width + 1])
    return line if len(line) <= width else f"{line[: width - 1]}…"  # `clip` would import pydantic for it


def shell_word(text: str) -> str:
    """Quote a text as one word for a shell; invisible characters become escapes that the shell reads back."""
    if visible(text) == text:
        return shlex.quote(text)
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{visible(literal)}'"


def took(duration: timedelta | None) -> str:
    """Return a duration in its two largest units, such as `3 min 20 s`, `1.2 s` or `40 ms`; empty for None."""
    if duration is None:
        return ""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    parts: list[str] = []
    left = int(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
