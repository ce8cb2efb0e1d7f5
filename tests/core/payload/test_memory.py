"""JSON Merge Patch, by the examples and the laws of RFC 7396."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts.memory import MAX_MEMORY_BYTES
from sojourn.core.payload.memory import memory_after, memory_fault, patch_fault

RFC = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]
"""The examples of its Appendix A whose target and patch are objects."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=1), VALUES, max_size=4)


def test_the_examples_of_the_rfc() -> None:
    """Each example of Appendix A gives the result that stands there."""
    assert [
        (memory, patch, after, found)
        for memory, patch, after in RFC
        if (found := memory_after(json.loads(memory), json.loads(patch))) != json.loads(after)
    ] == []


@given(memory=OBJECTS, patch=OBJECTS)
def test_a_patch_applied_twice_is_applied_once_and_changes_no_argument(memory: dict, patch: dict) -> None:
    """Applying a patch again changes nothing, and what it is applied to stays as it was."""
    before = json.dumps([memory, patch])
    once = memory_after(memory, patch)
    assert memory_after(once, patch) == once
    assert json.dumps([memory, patch]) == before


@given(memory=OBJECTS, patch=OBJECTS)
def test_a_null_removes_and_nothing_else_does(memory: dict, patch: dict) -> None:
    """At the top, exactly the fields that are null in the patch are gone, and those it does not name are as before."""
    after = memory_after(memory, patch)
    assert set(after) == {name for name in {*memory, *patch} if name not in patch or patch[name] is not None}
    assert {name: after[name] for name in memory if name not in patch} == {
        name: value for name, value in memory.items() if name not in patch
    }


def test_what_is_no_patch_is_refused(subtests: pytest.Subtests) -> None:
    """A patch is JSON and bounded; the refusal says what is wrong."""
    rows = [
        ([], "is a JSON object"),
        ({"a": float("nan")}, "nan is not a JSON number"),
        ({"a": object()}, "is not a JSON value"),
        ({"a": "\ud800"}, "surrogate"),
        ({1: 2}, "is not a string"),
        ({"a": "x" * MAX_MEMORY_BYTES}, "more than the 64,000"),
    ]
    for patch, why in rows:
        with subtests.test(patch=patch, why=why):
            assert why in (patch_fault(patch) or "")


def test_the_memory_is_bounded_and_a_field_can_be_removed_from_a_full_one() -> None:
    """One byte more than 64,000 is refused, exactly 64,000 are not, and removing always fits."""
    room = MAX_MEMORY_BYTES - len('{"a":"","b":""}')
    memory = {"a": "x" * (room - 10)}
    assert memory_fault(memory, {"b": "y" * 10}) is None
    assert "64,001 bytes" in (memory_fault(memory, {"b": "y" * 11}) or "")
    assert memory_fault(memory, {"a": None}) is None
    assert memory_fault(memory, {}) is None
