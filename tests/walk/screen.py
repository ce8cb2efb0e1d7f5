"""Screen: compare what a page shows with what a terminal shows."""

import re

__all__ = ["IN_PROGRESS", "pattern_of", "steady"]

IN_PROGRESS = "⠋"
"""Stands before a line that is not at its end, whatever the spinner shows."""

_UNSTEADY = (
    (r"TEMPORAL_ADDRESS=\S+ ", ""),  # named where it is not the usual one
    (r"\b(?:localhost|127\.0\.0\.1):\d+", "127.0.0.1:7233"),
    (r"\bcall_[0-9a-f]{12}", "call_0123456789ab"),
    (r"\b([a-z][\w.]*)-[0-9a-f]{12}\b", r"\1-0123456789ab"),
    (r"\b[0-9a-f]{16,64}\b", "0123456789abcdef"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?", "2026-01-31 12:00:00"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?", "12:00:00"),
    (r"\b\d+ min \d+ s\b|\b\d+(\.\d+)? m?s\b|\b\d+\.\d+s\b", "9 ms"),
    (r"\b(PID|pid) \d+|\b\d+@[\w.-]+", "1234"),
    (r"\b\d+ tokens", "9 tokens"),
    ("[⠁-⣿]", IN_PROGRESS),
    ("─+", "─"),
    ("[ \t]+", " "),
)
"""Patterns of what differs between two walks, each with its replacement."""


def steady(text: str) -> str:
    """Return a screen with fixed text for what differs between two walks, and single spaces."""
    for pattern, word in _UNSTEADY:
        text = re.sub(pattern, word, text)
    return "\n".join(line.strip() for line in text.strip("\n").split("\n")) + "\n"


UNSERVED = r"(?:! no worker polls(?:.*\n){1,2})?"


def pattern_of(shown: str) -> str:
    """Return the pattern of a screen as a page shows it: `...` is any lines, or any text in a line.

    Where a worker starts slowly, the screen says between two lines that there is none.
    """
    return "".join(
        r"(?:.*\n)*?" if line == "..." else UNSERVED + re.escape(line).replace(r"\.\.\.", ".*?") + r"\n"
        for line in steady(shown).splitlines()
    )
