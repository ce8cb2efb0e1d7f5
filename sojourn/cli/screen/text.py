"""Make text from outside safe to print or to paste into a shell, and format times."""

from datetime import datetime
from typing import NamedTuple

from sojourn.values.visible import WIDTH, format_duration, plain, shell_word

__all__ = [
    "MAX_DRAFT_LINES",
    "WIDTH",
    "Line",
    "draft_lines",
    "format_duration",
    "local",
    "plain",
    "shell_word",
    "text_lines",
]


MAX_TEXT = 4_000
"""Most characters of a question, an answer or a message."""

MAX_LINES = 60
"""Most lines of such a text."""

MAX_WIDTH = 1_000
"""Most characters of a line of such a text."""


class Line(NamedTuple):
    text: str
    style: str = ""
    """A style of rich."""


def local(moment: datetime | None) -> str:
    """Return a time in this machine's time zone, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def text_lines(text: str, style: str = "", mark: str = "", *, whole: bool = False) -> list[Line]:
    """Return the lines of a text, the first after `mark`, and `…` after a cut one."""
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


MAX_DRAFT_LINES = 12
"""Most lines of a draft to show, counted from its end."""

MAX_DRAFT_CHARS = 2_000
"""Most characters of a draft to show, counted from its end."""


def draft_lines(text: str) -> list[str]:
    """Return the last lines of a draft, after `…` if earlier text is left out."""
    lines = text[-MAX_DRAFT_CHARS:].splitlines()
    is_cut = len(text) > MAX_DRAFT_CHARS or len(lines) > MAX_DRAFT_LINES
    return [*(["…"] if is_cut else []), *(plain(line, MAX_DRAFT_CHARS) for line in lines[-MAX_DRAFT_LINES:])]
