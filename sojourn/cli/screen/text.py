"""Text for a terminal: what others wrote made harmless, or quoted for a shell; times and durations as people read them."""

import json
import shlex
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sojourn.core.values.visible import visible

__all__ = ["WIDTH", "Line", "local", "plain", "shell_word", "text_lines", "took"]

WIDTH = 160
"""Characters of a payload or result that are shown."""


MAX_TEXT = 4_000
"""Characters of a question, an answer or a payload that a person decides about."""

MAX_LINES = 60
"""Lines of one text."""

MAX_WIDTH = 1_000
"""Characters of a line."""


class Line(NamedTuple):
    """One line to print."""

    text: str
    style: str = ""


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


def text_lines(text: str, style: str = "", mark: str = "", *, whole: bool = False) -> list[Line]:
    """A text in its own lines, under a mark; where it is cut, it says so."""
    said = text.split("\n") if whole else text[:MAX_TEXT].split("\n")[:MAX_LINES]
    if not whole and (len(text) > MAX_TEXT or text.count("\n") >= MAX_LINES):
        said = [*said, "…"]  # `values.text` would import pydantic for it
    while len(said) > 1 and not said[-1]:
        said.pop()
    pad, width = " " * len(mark), len(text) if whole else MAX_WIDTH
    return [Line(f"{pad if number else mark}{plain(line, width)}", style) for number, line in enumerate(said)]
