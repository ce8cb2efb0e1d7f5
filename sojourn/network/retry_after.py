"""`Retry-After`: what a server asks us to wait (RFC 9110, section 10.2.3)."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

__all__ = ["retry_after_of"]


def retry_after_of(value: str | None) -> timedelta | None:
    """The header's value, seconds or a date, as a time from now; None when there is none, or it is neither."""
    if value is None:
        return None
    if value.isdecimal():
        return timedelta(seconds=int(value[:9]))
    try:
        when = parsedate_to_datetime(value)
        aware = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(aware - datetime.now(UTC), timedelta(0))
    except (ValueError, OverflowError):
        return None
