"""Latest rows: what has come since a version, or after an event, as far as it is kept."""

from datetime import UTC, datetime

from sojourn.console.views.entries import EventRow
from sojourn.console.watched import LatestRows

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def rows_of(count, most):
    """So many rows after the fifth event, each of a version of its own."""
    rows = LatestRows("0-000005-00000", most)
    for n in range(6, 6 + count):
        rows.add(EventRow(f"0-{n:06d}-00000", NOW, "usage", "", ""), n)
    return rows


def ids(rows):
    """The numbers of the events."""
    return None if rows is None else [int(row.event_id.split("-")[1]) for row in rows]


def test_what_came_after_a_version_or_an_event_is_told():
    """All of it, or nothing where nothing came."""
    rows = rows_of(4, 10)
    assert ids(rows.since(0)) == ids(rows.after("0-000005-00000")) == [6, 7, 8, 9]
    assert ids(rows.since(7)) == ids(rows.after("0-000007-00000")) == [8, 9]
    assert ids(rows.since(9)) == ids(rows.after("1-000001-00000")) == []


def test_where_some_of_it_is_not_kept_nothing_is_told():
    """A page then has to be opened anew, since a list with a gap would say what is not so."""
    rows = rows_of(4, 2)
    assert rows.since(6) is None
    assert rows.after("0-000006-00000") is None
    assert ids(rows.since(7)) == ids(rows.after("0-000007-00000")) == [8, 9]
    assert rows_of(0, 2).after("0-000004-00000") is None
    assert rows_of(0, 2).after("") is None
