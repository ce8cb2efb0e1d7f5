"""Message: one entry of a transcript."""

import pytest
from pydantic import ValidationError

from sojourn import Message, ToolError, ToolRequest, ToolResult
from sojourn.contracts.message import TextPart, ThinkingPart, ToolCallPart, ToolResultPart


def test_a_text_has_a_role() -> None:
    """`system`, `user` and `assistant` make a message with that role and one text part."""
    for role in ("system", "user", "assistant"):
        message = getattr(Message, role)("hello")
        assert (message.role, message.parts) == (role, [TextPart(type="text", text="hello")])
        assert message.text == "hello"


def test_a_messages_text_is_its_text_parts_alone() -> None:
    """`text` joins the text parts and leaves out thinking parts."""
    parts = [
        TextPart(type="text", text="a"),
        ThinkingPart(type="thinking", text="hm"),
        TextPart(type="text", text="b"),
    ]
    assert Message(role="assistant", parts=parts).text == "ab"


def test_calls_and_results_are_parts_of_their_messages() -> None:
    """Each call is a part of an assistant message, each result a part of one tool message, in order."""
    calls = [ToolRequest(name=f"a.b.{n}", payload={"n": n}, raw="{}", tool_call_id=f"c{n}") for n in range(3)]
    asked = Message.calls(calls)
    assert asked.role == "assistant"
    assert asked.tool_calls == [
        ToolCallPart(type="tool_call", tool_call_id=f"c{n}", name=f"a.b.{n}", payload={"n": n}, raw="{}")
        for n in range(3)
    ]
    results = [ToolResult(name=c.name, tool_call_id=c.tool_call_id, error=ToolError.new("no")) for c in calls]
    answered = Message.results(results)
    assert (answered.role, answered.tool_results) == ("tool", results)
    assert all(isinstance(part, ToolResultPart) for part in answered.parts)
    assert (asked.text, asked.tool_results, answered.tool_calls) == ("", [], [])


@pytest.mark.parametrize("kind", [[], {}, 7, None])
def test_a_part_whose_type_is_no_text_is_invalid(kind):
    """A type of another JSON type is told as any other fault of a message."""
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "user", "parts": [{"type": kind}]})
