"""Two runs beside each other: what both did is paired, and nothing of either is lost."""

from hypothesis import given
from hypothesis import strategies as st

from sojourn.timeline import compare_entries
from tests.timeline.test_folds import STEPS, Story


def told(steps) -> Story:
    story = Story()
    for kind, name in steps:
        story.step(kind, name)
    return story


@given(st.lists(STEPS, max_size=15), st.lists(STEPS, max_size=15), st.lists(STEPS, max_size=15))
def test_every_entry_is_in_its_column_once_and_in_order(same, one, other):
    """The columns are the two runs; a pair is equal only where both are there, and a common beginning is all equal."""
    first, second = told([*same, *one]), told([*same, *other])
    pairs = compare_entries(first.timeline.entries, second.timeline.entries)
    assert [pair.first for pair in pairs if pair.first] == first.timeline.entries
    assert [pair.second for pair in pairs if pair.second] == second.timeline.entries
    for pair in pairs:
        if pair.is_equal:
            assert pair.first is not None
            assert pair.second is not None
            assert (pair.first.kind, getattr(pair.first, "state", "")) == (
                pair.second.kind,
                getattr(pair.second, "state", ""),
            )
    if one == other:
        assert all(pair.is_equal for pair in pairs)
