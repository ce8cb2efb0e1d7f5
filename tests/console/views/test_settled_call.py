"""A call of a conversation, once its result is there."""

from datetime import UTC, datetime

from sojourn import ToolResult
from sojourn.console.views.conversation import _settle
from sojourn.console.views.turns import Call

NOW = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_what_a_server_says_beside_its_result_is_shown_after_it():
    """The remarks of a result follow it, each on lines of its own; a long one is cut."""
    call = Call("c", "t.t.t", NOW)
    _settle(call, ToolResult(result={"lines": 2}, remarks=["line 1\nline 2", "note: odd"]))
    assert (call.result, call.is_cut) == ('{\n  "lines": 2\n}\nline 1\nline 2\nnote: odd', False)
    _settle(call, ToolResult(result=1, remarks=["x" * 1_000_000]))
    assert call.is_cut
    assert len(call.result) < 100_000
