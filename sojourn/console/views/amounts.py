"""Format times, amounts and sizes in words."""

import re
from datetime import UTC, datetime

__all__ = ["ago", "ago_now", "exact", "money", "short_number", "size"]

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

_MOMENT = re.compile(r'(<time [^<>]*datetime="([^"<>]+)"[^<>]* data-ago>)[^<]*<')
"""A moment as the macro `moment` writes it.

Text from outside cannot look like one, because it is escaped.
"""


def ago(moment: datetime, now: datetime) -> str:
    """Return the time since or until a moment, in its largest unit."""
    seconds = (now - moment).total_seconds()
    for unit, length in _UNITS:
        if abs(seconds) >= length and (unit != "s" or abs(seconds) >= 5):
            count = int(abs(seconds) // length)
            return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"
    return "now"


def ago_now(html: str, now: datetime) -> str:
    """Return rendered HTML with the ages of its moments updated."""

    def told(found: re.Match[str]) -> str:
        return f"{found[1]}{ago(datetime.fromisoformat(found[2]), now)}<"

    return _MOMENT.sub(told, html)


def exact(moment: datetime) -> str:
    """Format a moment to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def money(cost: float | None) -> str:
    """Format US dollars, with as many places as a small amount needs.

    Empty if the cost is not known.
    """
    if cost is None:
        return ""
    if cost == 0:
        return "$0"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}" if cost >= 0.0001 else "< $0.0001"


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
