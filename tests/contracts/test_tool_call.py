"""ToolRequest and ToolCallMeta: a call, and the run, turn and session it belongs to (SR-62 to SR-70)."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sojourn import ToolCallMeta, ToolRequest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)


def key(payload: dict, *, run: str = "r", call: str = "c") -> str:
    return ToolCallMeta.key_of(run, ToolRequest(name="a.b.c", payload=payload, tool_call_id=call))


def test_the_key_of_a_call_never_changes() -> None:
    """A call that is open while a new version is deployed keeps its key: these are the keys of earlier versions."""
    assert key({}) == "304d61453ed5d3414a2b4a7eaab24e90"
    assert (
        key({"to": "ü", "amount": 1.5, "lines": [{"n": 1.0}, None, True]})
        == "e8bd4b32e999c191ccfd3d23f10705c5"
    )


@given(PAYLOADS)
def test_the_key_does_not_depend_on_the_order_of_fields(payload: dict) -> None:
    """The idempotency key has 32 hex digits and does not depend on the order of fields, at any depth."""

    def turned(value):
        if isinstance(value, dict):
            return {name: turned(inner) for name, inner in reversed(value.items())}
        return [turned(inner) for inner in value] if isinstance(value, list) else value

    assert key(payload) == key(turned(payload))
    assert len(key(payload)) == 32
    assert int(key(payload), 16) >= 0


@given(PAYLOADS, PAYLOADS)
def test_other_payloads_have_other_keys(one: dict, other: dict) -> None:
    """Two payloads share a key only when they are the same JSON."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (key(one) == key(other)) is same


def test_other_calls_and_runs_have_other_keys() -> None:
    """The key depends on the run, the call and the payload, so a service can refuse repetitions of one call only."""
    keys = {key({"a": 1}), key({"a": 1}, call="d"), key({"a": 1}, run="s"), key({"a": 2})}
    assert len(keys) == 4


def test_the_key_is_stable_over_versions() -> None:
    """The key of a payload is fixed, since a worker of a later version may retry the call of an earlier one."""
    assert key({"site": "s-1", "n": [1, {"ü": None}]}) == "58a65a9faa8c8451cf3ed9f8eb82242b"


def test_the_meta_is_made_directly_in_a_test() -> None:
    """A unit test of a tool constructs the metadata directly, without context or mocks (SR-70)."""
    meta = ToolCallMeta(run_id="r", session_id="s", turn_id="t1", tool_call_id="c")
    assert (meta.parent_tool_call_id, meta.attempt, meta.labels) == (None, 1, {})


def test_a_request_keeps_the_name_of_an_unknown_tool() -> None:
    """A name that is no tool id is kept, so that the result can repeat it (SR-61)."""
    assert ToolRequest(name="no such tool").name == "no such tool"
