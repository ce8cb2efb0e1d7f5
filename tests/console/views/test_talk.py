"""Calls of a conversation in words."""

from datetime import UTC, datetime

from sojourn import ToolResult
from sojourn.console.views.talk import call_text
from sojourn.contracts.tool_call import ToolRequest
from sojourn.timeline import Call

NOW = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


def text_of(result: ToolResult):
    """A call with a result in words."""
    request = ToolRequest(name="t.t.t", tool_call_id="c")
    return call_text(Call(key="call-c", event_id="0-000001-00000", at=NOW, call=request, result=result))


def test_what_a_server_says_beside_its_result_is_shown_after_it():
    """The remarks of a result follow it, each on lines of its own; a long one is cut."""
    call = text_of(ToolResult(result={"lines": 2}, remarks=["line 1\nline 2", "note: odd"]))
    assert (call.result, call.is_cut) == ('{\n  "lines": 2\n}\nline 1\nline 2\nnote: odd', False)
    call = text_of(ToolResult(result=1, remarks=["x" * 1_000_000]))
    assert call.is_cut
    assert len(call.result) < 100_000
