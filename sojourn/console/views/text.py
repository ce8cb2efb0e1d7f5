"""Words for texts from outside, times, amounts and statuses."""

import re
from datetime import UTC, datetime

from sojourn.contracts.run import OPEN_STATUSES
from sojourn.values.visible import visible

__all__ = [
    "OPEN",
    "WORDS",
    "ago",
    "ago_now",
    "escape_hidden",
    "exact",
    "lines_of",
    "short_number",
    "size",
    "split_advice",
    "word_of",
]


def escape_hidden(text: object) -> str:
    """Return a text with everything that is not plainly visible written out.

    A person decides on the basis of this text.
    """
    return visible(str(text), keep="\n\t")


def lines_of(text: str, most: int) -> tuple[str, bool]:
    """Return the beginning of a text, and whether that is all.

    It has at most `most` characters, and ends at the end of a line if one is near.
    """
    if len(text) <= most:
        return text, True
    begin = text[:most]
    at = begin.rfind("\n")
    return (begin[:at] if at > most * 3 // 4 else begin), False


_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

_MOMENT = re.compile(r'(<time [^<>]*datetime="([^"<>]+)"[^<>]* data-ago>)[^<]*<')
"""A moment as the macro `moment` writes it.

Text from outside cannot look like one, because it is escaped.
"""


def ago(moment: datetime, now: datetime) -> str:
    """Return the time since or until a moment, in its largest unit.

    What is to come is rounded, so that a wait of two days begins with `in 2 d`.
    """
    seconds = (now - moment).total_seconds()
    for unit, length in _UNITS:
        if abs(seconds) >= length and (unit != "s" or abs(seconds) >= 5):
            return (
                f"{int(seconds // length)} {unit} ago"
                if seconds > 0
                else f"in {round(-seconds / length)} {unit}"
            )
    return "now"


def ago_now(html: str, now: datetime) -> str:
    """Return rendered HTML with the ages of its moments updated."""

    def explain(found: re.Match[str]) -> str:
        return f"{found[1]}{ago(datetime.fromisoformat(found[2]), now)}<"

    return _MOMENT.sub(explain, html)


def exact(moment: datetime) -> str:
    """Format a moment to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_number(number: float) -> str:
    """Format a number with at most three digits, such as `12.3k`."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if abs(number) >= factor:
            return f"{number / factor:.1f}".removesuffix(".0") + unit
    return f"{number:g}"


def size(count: int) -> str:
    """Format a number of bytes, such as `1.2 MB`."""
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


WORDS = {
    "running": "Running",
    "waiting": "Waiting",
    "paused": "Paused",
    "idle": "Idle",
    "stuck": "Stuck",
    "completed": "Completed",
    "answered": "Answered",
    "gave_up": "Gave up",
    "failed": "Failed",
    "canceled": "Canceled",
    "terminated": "Terminated",
    "timed_out": "Timed out",
}
"""The word for each status.

`stuck` is a running run that makes no progress. Of the completed runs, `answered` ones have an answer, and a limit or a
safeguard ended those that `gave_up`.
"""

OPEN = (*OPEN_STATUSES, "stuck")
"""Statuses of a run that is open."""


def word_of(status: str) -> str:
    """Return the word for a status. An unknown status keeps its name."""
    return WORDS.get(status, status.replace("_", " ").capitalize())


_COMMANDS = ("sojourn ", "temporal ", "pip ")


def split_advice(mend: str) -> tuple[str, str]:
    """Split an advice into its words and the command at its end."""
    for word in _COMMANDS:
        if mend.startswith(word):
            return "", mend
        before, colon, command = mend.partition(f": {word}")
        if colon:
            return f"{before}:", word + command
    return mend, ""
