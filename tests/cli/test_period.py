"""Periods as a person types them."""

from datetime import UTC, datetime, timedelta

import pytest

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.period import since

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_a_number_and_a_unit_are_before_now(subtests: pytest.Subtests) -> None:
    """Seconds to weeks count back from now."""
    rows = [
        ("45s", timedelta(seconds=45)),
        ("30m", timedelta(minutes=30)),
        (" 2 H ", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ]
    for text, ago in rows:
        with subtests.test(text=text, ago=ago):
            assert since(text, now=NOW) == NOW - ago


def test_a_date_or_time_is_itself():
    """A time has its own zone, or else this machine's."""
    assert since("2026-03-01T09:30:00+02:00") == datetime(2026, 3, 1, 7, 30, tzinfo=UTC)
    assert since("2026-03-01") == datetime(2026, 3, 1).astimezone()


def test_another_text_is_bad_usage(subtests: pytest.Subtests) -> None:
    """The error quotes the text without control characters, and shows valid ones."""
    rows = ["", "2", "h", "-2h", "2 months", "1.5h", "999999999w", "0001-01-01", "٣h", "\x1b[2J"]
    for text in rows:
        with subtests.test(str(text)):
            with pytest.raises(CommandError, match="use such as 30m") as caught:
                since(text, now=NOW)
            assert caught.value.exit_code == USAGE
            assert "\x1b" not in str(caught.value)
