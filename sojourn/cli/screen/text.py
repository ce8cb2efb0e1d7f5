"""Text for a terminal: text from outside, safe to print or quoted for a shell; times and durations for people."""

import json
import shlex
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sojourn.core.values.visible import visible

__all__ = ["WIDTH", "Line", "local", "plain", "shell_word", "text_lines", "took"]

WIDTH = 160
"""Most characters of a payload or result on a line."""

MAX_TEXT = 4_000
"""Most characters of a question, an answer or a message."""

MAX_LINES = 60
"""Most lines of such a text."""

MAX_WIDTH = 1_000
"""Most characters of a line of such a text."""


class Line(NamedTuple):
    """One line to print."""

    text: str
    style: str = ""
    """A style of rich."""


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


def local(moment: datetime | None) -> str:
    """Return a time in this machine's time zone, to the second; empty for None."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


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


def text_lines(text: str, style: str = "", mark: str = "", *, whole: bool = False) -> list[Line]:
    """Return the lines of a text, the first after `mark` and the others indented; a text that is cut ends with `…`.

    Args:
        text: The text.
        style: The style of each line.
        mark: Printed before the text.
        whole: Whether to cut nothing, however long.
    """
    lines = text.split("\n") if whole else text[:MAX_TEXT].split("\n")[:MAX_LINES]
    if not whole and (len(text) > MAX_TEXT or text.count("\n") >= MAX_LINES):
        lines = [*lines, "…"]  # `values.text` would import pydantic for it
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    pad, width = " " * len(mark), None if whole else MAX_WIDTH
    return [
        Line(f"{(pad if line else '') if number else mark}{plain(line, width)}", style)
        for number, line in enumerate(lines)
    ]
