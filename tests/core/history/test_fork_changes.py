"""What a fork was given is recorded with the call that it is about, bounded, and with a digest of all of it."""

import hashlib

import pytest

from sojourn import ToolError, ToolRequest, ToolResult
from sojourn.core.history.fork import MAX_GIVEN, Change, changes_of

CALLS = {"c": ToolRequest(name="shop.find", tool_call_id="c")}
RESULT = ToolResult(name="shop.find", tool_call_id="c", result={"limit": 5})
FAILED = ToolResult(name="shop.find", tool_call_id="c", error=ToolError.new("no such order"))


def test_each_change_is_recorded(subtests: pytest.Subtests) -> None:
    """The record has the kind, the call and its tool, and what was given; a fork without a change has none."""
    rows = [
        (Change(), None, []),
        (Change("Go on."), None, ["message: Go on."]),
        (
            Change("Go on.", {"c": RESULT}),
            None,
            ['result of shop.find: {"limit": 5}', "message: Go on."],
        ),
        (Change(results={"c": FAILED}), None, ['result of shop.find: {"error": "no such order"}']),
        (
            Change(results={"c": RESULT.model_copy(update={"result": "x"})}),
            None,
            ['result of shop.find: "x"'],
        ),
        (Change(arguments={"c": {"b": 1, "a": 2}}), None, ['arguments of shop.find: {"a": 2, "b": 1}']),
        (Change(answer={"site": "a"}), None, ['answer: {"site": "a"}']),
        (Change(answer="a"), None, ["answer: a"]),
        (Change(asks="c"), True, ["decision of shop.find: approve"]),
        (Change(asks="c"), False, ["decision of shop.find: deny"]),
    ]
    for change, approve, lines in rows:
        with subtests.test(str((change, approve, lines))):
            found = changes_of(change, CALLS, approve=approve)
            assert [each.text for each in found] == lines
            assert {each.tool_call_id for each in found if each.tool} <= {"c"}


def test_what_is_recorded_is_bounded() -> None:
    """Of a long text the beginning is recorded, without control characters, and the digest of all of it."""
    text = "\x1b[2J" + "x" * 10_000
    (found,) = changes_of(Change(text), {}, approve=None)
    assert len(found.given) == MAX_GIVEN
    assert "\x1b" not in found.given
    assert found.digest == hashlib.sha256(text.encode()).hexdigest()
