import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sojourn import ToolFailed
from toolsets.runbooks import get_runbook, search_runbooks

CASES = [
    ("gateway battery flat after mains power failure", "rb-01"),
    ("uplink lost, battery healthy", "rb-02"),
    ("sensor value does not change", "rb-05"),
]


@pytest.mark.parametrize(("query", "runbook_id"), CASES)
def test_best_match_first(query: str, runbook_id: str):
    """The runbook that fits a case best is first."""
    assert search_runbooks(query=query).runbooks[0].runbook_id == runbook_id


@pytest.mark.parametrize(("query", "runbook_id"), CASES)
def test_without_full_text_index(ops_database: Path, query: str, runbook_id: str):
    """On an SQLite without full-text search the same runbooks are found."""
    with closing(sqlite3.connect(ops_database)) as connection, connection:
        connection.execute("DROP TABLE runbooks_index")
    assert search_runbooks(query=query).runbooks[0].runbook_id == runbook_id


@pytest.mark.parametrize("query", ["bread", "?", '" OR NEAR( *', "a b c"])
def test_nothing_fits(query: str):
    """A query without a fitting word, or in the index's own syntax, finds nothing and raises nothing."""
    found = search_runbooks(query=query)
    assert (found.returned, found.total, found.truncated) == (0, 0, False)


def test_limit():
    """A search with more hits than the limit is truncated, with a hint."""
    found = search_runbooks(query="device battery site", limit=2)
    assert (found.returned, found.truncated) == (2, True)
    assert found.total
    assert found.total > 2
    assert found.refinement_hint


def test_steps():
    """A runbook's steps are a list, in order."""
    assert len(get_runbook(runbook_id="rb-01").steps) == 4
    with pytest.raises(ToolFailed, match="no runbook rb-77"):
        get_runbook(runbook_id="rb-77")
