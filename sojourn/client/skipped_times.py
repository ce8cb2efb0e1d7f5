"""Find the times that a cron schedule misses because of a daylight-saving change.

In the night in which the clocks go forward, an hour of local time does not exist, and a Temporal Schedule does not
act at a time in it.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from temporalio.client import ScheduleCalendarSpec, ScheduleRange, ScheduleSpec

__all__ = ["skipped_times"]

YEARS = 5
"""Years in which to look, from now on."""

MAX_TIMES = 3
"""Most times to return."""

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


def skipped_times(spec: "ScheduleSpec", now: datetime) -> list[datetime]:
    """Return the next local times, without a zone, that a schedule skips.

    A time is not skipped if the schedule acts at the same instant by another of its times, as one for each hour does.
    """
    zone = spec.time_zone_name
    if not zone or not spec.calendars:
        return []
    found: list[datetime] = []
    for begin, length in _gaps(zone, now.astimezone(UTC).date().toordinal()):
        for minute in range(int(length / _MINUTE)):
            moment = begin + minute * _MINUTE
            if _acts(spec.calendars, moment) and not _acts(spec.calendars, moment + length):
                found.append(moment)
                if len(found) == MAX_TIMES:
                    return found
    return found


@lru_cache(maxsize=100)
def _gaps(zone: str, first_day: int) -> list[tuple[datetime, timedelta]]:
    """Return the local times, from a day on, at which clocks go forward, and how far."""
    try:
        there = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # this machine does not know the zone
        return []
    day = datetime.fromordinal(first_day).replace(tzinfo=UTC)
    return list(_changes(there, day, day + YEARS * 365 * _DAY))


def _changes(zone: ZoneInfo, day: datetime, end: datetime) -> Iterator[tuple[datetime, timedelta]]:
    while day < end:
        offset, later = _offset(zone, day), _offset(zone, day + _DAY)
        if later > offset:
            low, high = 0, 24 * 60
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (
                    (middle, high) if _offset(zone, day + middle * _MINUTE) == offset else (low, middle)
                )
            yield (day + high * _MINUTE + offset).replace(tzinfo=None), later - offset
        day += _DAY


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _acts(calendars: "Sequence[ScheduleCalendarSpec]", moment: datetime) -> bool:
    return any(
        _has(each.minute, moment.minute)
        and _has(each.hour, moment.hour)
        and _has(each.day_of_month, moment.day)
        and _has(each.month, moment.month)
        and (not each.year or _has(each.year, moment.year))
        and _has(each.day_of_week, moment.isoweekday() % 7)
        for each in calendars
    )


def _has(ranges: "Sequence[ScheduleRange]", value: int) -> bool:
    return any(value in range(each.start, each.end + 1, each.step) for each in ranges)
