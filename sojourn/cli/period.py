"""Parse durations and starting times as the user types them."""

import re
from datetime import UTC, datetime, timedelta

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import plain

__all__ = ["duration", "since"]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """Return the duration that a text such as `30m`, `2h` or `7d` names.

    It is a number and a unit (s, m, h, d, w).

    Raises:
        CommandError: The text is no duration.
    """
    try:
        found = _duration_in(text)
    except OverflowError as error:
        raise CommandError(f"{plain(text)!r} is too long", exit_code=USAGE) from error
    if found is None:
        raise CommandError(f"{plain(text)!r} is no duration; use such as 30m, 2h or 7d", exit_code=USAGE)
    return found


def since(text: str, *, now: datetime | None = None) -> datetime:
    """Return the aware datetime that `2h`, `30m`, `7d`, or an ISO date or time names.

    A time without a zone is in this machine's zone.

    Args:
        text: A number and a unit (s, m, h, d, w) before now; or such as `2026-03-02` or `2026-03-02T09:30`.
        now: The current time, aware; by default the clock's.

    Raises:
        CommandError: The text is neither, or names a moment before the year 1970.
    """
    try:
        if (ago := _duration_in(text)) is not None:
            return _checked(text, (now or datetime.now(UTC)) - ago)
    except OverflowError as error:
        raise _fault(text) from error
    try:
        return _checked(text, datetime.fromisoformat(text.strip()).astimezone(UTC))
    except (ValueError, OverflowError, OSError) as error:
        raise _fault(text) from error


def _duration_in(text: str) -> timedelta | None:
    """Return the duration that a number and a unit name, or None for other text."""
    match = re.fullmatch(r"(\d{1,9})\s*([smhdw])", text.strip().lower(), re.ASCII)
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None


def _checked(text: str, moment: datetime) -> datetime:
    if moment.year < 1970:
        raise _fault(text)
    return moment


def _fault(text: str) -> CommandError:
    return CommandError(
        f"{plain(text)!r} is no period; use such as 30m, 2h or 7d, or a date such as 2026-03-02",
        exit_code=USAGE,
    )
