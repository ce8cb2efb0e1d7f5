"""The times that a schedule misses because of a daylight-saving change."""

from datetime import UTC, datetime

import pytest
from temporalio.client import ScheduleCalendarSpec, ScheduleRange, ScheduleSpec

from sojourn.client.skipped_times import skipped_times

NOW = datetime(2026, 11, 27, tzinfo=UTC)


def spec(zone: str | None, **fields: int | tuple[int, int]) -> ScheduleSpec:
    ranges = {
        name: [ScheduleRange(*each)] if isinstance(each, tuple) else [ScheduleRange(each)]
        for name, each in fields.items()
    }
    return ScheduleSpec(time_zone_name=zone, calendars=[ScheduleCalendarSpec(**ranges)])


@pytest.mark.parametrize(
    ("zone", "fields", "found"),
    [
        ("Europe/Berlin", {"minute": 30, "hour": 2, "day_of_month": 28, "month": 3}, ["2027-03-28 02:30"]),
        (
            "Europe/Berlin",
            {"minute": 30, "hour": 2},
            ["2027-03-28 02:30", "2028-03-26 02:30", "2029-03-25 02:30"],
        ),
        (
            "America/New_York",
            {"minute": 0, "hour": 2, "day_of_week": 0},
            ["2027-03-14 02:00", "2028-03-12 02:00", "2029-03-11 02:00"],
        ),
        ("America/New_York", {"minute": 0, "hour": 2, "day_of_week": (1, 5)}, []),
        (
            "Australia/Lord_Howe",
            {"minute": 15, "hour": 2},
            ["2027-10-03 02:15", "2028-10-01 02:15", "2029-10-07 02:15"],
        ),
        ("Europe/Berlin", {"minute": 30, "hour": 3}, []),
        ("Europe/Berlin", {"minute": 0, "hour": (0, 23)}, []),
        ("Asia/Tokyo", {"minute": 30, "hour": 2}, []),
        (None, {"minute": 30, "hour": 2}, []),
        ("Mars/Olympus", {"minute": 30, "hour": 2}, []),
    ],
)
def test_local_times_that_do_not_exist(zone, fields, found):
    """A time in the hour that the clocks leave out is skipped, unless another time of the schedule is that instant."""
    assert [f"{each:%Y-%m-%d %H:%M}" for each in skipped_times(spec(zone, **fields), NOW)] == found
