"""Make text from outside safe to print or to paste into a shell.

Times and durations are formatted here, too.
"""

from datetime import datetime
from typing import NamedTuple

from sojourn.values.visible import WIDTH, plain, shell_word, took

__all__ = ["WIDTH", "Line", "local", "plain", "shell_word", "text_lines", "took"]

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


def local(moment: datetime | None) -> str:
    """Return a time in this machine's time zone, to the second. Empty for None."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def text_lines(text: str, style: str = "", mark: str = "", *, whole: bool = False) -> list[Line]:
    """Return the lines of a text, the first after `mark` and the others indented.

    A text that is cut ends with `…`.

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
