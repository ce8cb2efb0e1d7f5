"""Bounds of a bounded tool's result (SR-22 to SR-40)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts import Bounds
from sojourn.core.payload.boundary import bounds_of, inconsistency, note_inconsistency


def devices(count: int, **fields: object) -> dict[str, object]:
    return {"devices": [{"id": n} for n in range(count)], "returned": count, **fields}


def test_the_top_level_fields_of_a_result_are_its_bounds() -> None:
    """Four fields of the result, and a cursor, become the `Bounds` (SR-24 to SR-27, SR-35)."""
    result = devices(
        2, total=9, truncated=True, refinement_hint="add a date filter", next_cursor="p2", other=1
    )
    assert bounds_of(result) == Bounds(
        returned=2, total=9, truncated=True, refinement_hint="add a date filter", next_cursor="p2"
    )


def test_an_unknown_total_is_none() -> None:
    """A total that is absent or null is None; 0 stays 0 (SR-25)."""
    assert bounds_of(devices(0)) == Bounds(returned=0, total=None)
    assert bounds_of(devices(0, total=None)) == Bounds(returned=0, total=None)
    assert bounds_of(devices(0, total=0)) == Bounds(returned=0, total=0)


def test_only_the_tool_sets_truncated() -> None:
    """A total larger than `returned` does not set `truncated` (SR-26)."""
    bounds = bounds_of(devices(2, total=9))
    assert isinstance(bounds, Bounds)
    assert bounds.truncated is False


def test_an_empty_hint_is_none() -> None:
    """An empty `refinement_hint` or `next_cursor`, as a default of a result type, is None (SR-36)."""
    assert bounds_of(devices(1, refinement_hint="", next_cursor="")) == Bounds(returned=1)


@pytest.mark.parametrize("way", [{"refinement_hint": "by site"}, {"next_cursor": "p2"}], ids=str)
def test_a_truncated_result_without_hint_and_cursor_has_a_note(way: dict[str, object]) -> None:
    """A truncated result has a hint or a cursor (SR-27, SR-29); without one, its bounds have a note."""
    assert noted(devices(1, truncated=True, **way)) is None
    assert "refinement_hint" in str(noted(devices(1, truncated=True)))


def noted(result: object) -> str | None:
    bounds = bounds_of(result)
    assert bounds
    return bounds.note


def test_a_result_without_a_valid_returned_has_no_bounds(subtests: pytest.Subtests) -> None:
    """`bounds_of` is None, and `inconsistency` says what is missing (SR-37)."""
    rows = [
        ([1, 2], "is an object"),
        (None, "is an object"),
        ({}, "`returned`, a number"),
        ({"returned": None}, "not null"),
        ({"returned": -1}, "not -1"),
        ({"returned": True}, "not true"),
        ({"returned": 2.0}, "not 2.0"),
    ]  # fmt: skip
    for result, said in rows:
        with subtests.test(result=result, said=said):
            assert bounds_of(result) is None
            assert said in str(inconsistency(None, result))


def test_inconsistent_fields_are_noted(subtests: pytest.Subtests) -> None:
    """Inconsistent or mistyped fields get a note, and no number is repaired (SR-28)."""
    rows = [
        ({"returned": 1, "total": "9"}, "`total` is a number of items"),
        ({"returned": 1, "total": -1}, "`total` is a number of items"),
        ({"returned": 3, "total": 2}, "less than `returned`"),
        ({"returned": 3, "refinement_hint": 5}, "`refinement_hint` is a text"),
        ({"returned": 3, "next_cursor": {"p": 2}}, "`next_cursor` is a text"),
        ({"returned": 3, "devices": [1, 2]}, "the list holds 2"),
    ]  # fmt: skip
    for result, said in rows:
        with subtests.test(result=result, said=said):
            bounds = bounds_of(result)
            assert bounds
            assert said in str(bounds.note)
            assert bounds.returned == result["returned"]
            assert bounds.total in (None, result.get("total"))


def test_bounds_that_a_tool_states_itself_get_the_same_note() -> None:
    """`with_note` adds the note to stated bounds, and changes nothing else."""
    stated = Bounds(returned=5, total=3)
    made = note_inconsistency(stated, [1])
    assert "less than" in str(made.note)
    assert made.model_copy(update={"note": None}) == stated
    assert note_inconsistency(Bounds(returned=1), [1]) == Bounds(returned=1)


def test_items_are_counted_only_in_a_single_list() -> None:
    """In a result with two lists, such as nodes and edges, `returned` is compared with neither."""
    assert noted({"returned": 2, "nodes": [1, 2, 3], "edges": [1]}) is None


@given(st.dictionaries(st.sampled_from(["returned", "total", "truncated", "refinement_hint", "next_cursor", "items"]),
                       st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.none(), max_size=2)))  # fmt: skip
def test_any_object_has_bounds_or_a_reason(result: dict[str, object]) -> None:
    """Any object gives bounds with its own counts, or a reason; reading raises nothing and adds no field (SR-28)."""
    before = dict(result)
    bounds = bounds_of(result)
    assert list(result) == list(before)
    if bounds is None:
        assert inconsistency(None, result)
    else:
        assert bounds.returned == result["returned"]
        assert bounds.total in (None, result.get("total"))
