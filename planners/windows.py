"""Windows: the time that a question is about."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["WEEK", "Window", "rfc3339", "window_of"]

WEEK = timedelta(days=7)

_UNITS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": WEEK, "month": timedelta(days=30)}
_LAST = re.compile(r"\b(?:last|past)\s+(?:(\d{1,3})\s+)?(hour|day|week|month)s?\b", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\b(?:from|between)\s+(\d{4}-\d{2}-\d{2}\S*)\s+(?:to|until|and)\s+(\d{4}-\d{2}-\d{2}\S*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Window:
    """A duration that ends now, or two times as the question has them."""

    length: timedelta | None = None
    start: str = ""
    end: str = ""

    def bounds(self, now: datetime) -> dict[str, str]:
        """Return the arguments `start_time` and `end_time` of a tool."""
        if self.length is None:
            return {"start_time": self.start, "end_time": self.end}
        return {"start_time": rfc3339(now - self.length), "end_time": rfc3339(now)}


def window_of(text: str) -> Window | None:
    """Return the window in a text, such as `last 3 days`, or `from 2026-03-10 to 2026-03-12`; None without one."""
    if match := _LAST.search(text):
        return Window(length=int(match[1] or 1) * _UNITS[match[2].lower()])
    if match := _BETWEEN.search(text):
        return Window(start=_moment(match[1]), end=_moment(match[2]))
    return None


def rfc3339(moment: datetime) -> str:
    """Return a time such as `2026-03-31T06:00:00Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(written: str) -> str:
    """Return a date as its start in UTC; anything else as it is, for the tool to validate."""
    written = written.rstrip(".,;?!")
    return f"{written}T00:00:00Z" if len(written) == len("2026-03-10") else written
