"""Text for a terminal: what others wrote made harmless, or quoted for a shell; times and durations as people read them."""

import json
import shlex
from datetime import datetime, timedelta
from typing import Any

from sojourn.core.values.visible import visible

__all__ = ["WIDTH", "local", "plain", "shell_word", "took"]

WIDTH = 160
"""Characters of a payload or result that are shown."""


def plain(value: Any, width: int = WIDTH) -> str:
    """Text from outside in one line of bounded width; what cannot be seen is written out."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = visible(text[: width + 1])
    return line if len(line) <= width else f"{line[: width - 1]}…"  # `clip` would import pydantic for it


def shell_word(text: str) -> str:
    """One word of a command line; what cannot be seen stands as an escape that the shell reads back."""
    if visible(text) == text:
        return shlex.quote(text)
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{visible(literal)}'"


def local(moment: datetime | None) -> str:
    """A moment in this machine's zone, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def took(duration: timedelta | None) -> str:
    """A duration by its two largest units, such as `3 min 20 s`; below ten seconds `1.2 s`, below one `40 ms`."""
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
