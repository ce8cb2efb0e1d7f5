"""Messages that a provider may have refused: which of a transcript are suspects, and what stands in their place."""

import pytest

from sojourn import Message, ToolError, ToolRequest, ToolResult
from sojourn.core.run.set_aside import Suspects, failure_notice, leave_out, suspects_in

CALL = ToolRequest(name="a.b.c", tool_call_id="c1")
RESULT = Message.results([ToolResult(name="a.b.c", tool_call_id="c1", result="a picture")])
REFUSED = failure_notice(ToolError.new("no", code="ModelRejected"))
FILTERED = failure_notice(ToolError.new("no", code="ContentFiltered"))
OTHER = failure_notice(ToolError.new("no", code="ModelUnavailable"))
ONE, TWO, YES = Message.user("one"), Message.user("two"), Message.assistant("yes")


@pytest.mark.parametrize("code", ["ContentFiltered", "ModelRejected"])
def test_a_refusal_is_known_below_other_errors(code):
    """The notice of a failed turn is marked if any error of the chain is a refusal; its text is the same."""
    cause = ToolError.new("no", code=code)
    notice = failure_notice(
        ToolError(message="the turn", cause=ToolError(message="the planner", cause=cause))
    )
    assert notice.text == "The last turn failed: the turn"
    assert suspects_in([ONE, notice]) != Suspects()


@pytest.mark.parametrize(
    ("messages", "suspects"),
    [
        ([ONE, OTHER, TWO], Suspects()),
        ([ONE, YES, TWO, REFUSED, ONE, YES, TWO], Suspects(earlier=(2,))),
        ([ONE, Message.calls([CALL]), RESULT, REFUSED, TWO], Suspects(recent=(2,))),
        ([ONE, REFUSED, TWO, REFUSED, ONE], Suspects(recent=(0, 2))),
        ([ONE, REFUSED, TWO, FILTERED, ONE], Suspects(filtered=(2,), recent=(0,))),
        ([ONE, FILTERED, TWO, YES], Suspects(filtered=(0,))),
        ([ONE, Message(role="user", parts=REFUSED.parts)], Suspects()),
    ],
    ids=[
        "outage",
        "earlier",
        "a result",
        "two turns",
        "a filter's own",
        "answered since",
        "words like a notice",
    ],
)
def test_the_messages_of_a_refused_turn_are_suspects(messages, suspects):
    """A notice concerns its own turn alone, what the model has answered is none of it, and only a notice of the run counts."""
    assert suspects_in(messages) == suspects


def test_a_refused_result_still_answers_its_call():
    """A transcript answers each call, with a short text in place of what was refused; other messages stay."""
    [answer] = leave_out(RESULT).tool_results
    assert (answer.tool_call_id, "left out here" in str(answer.result)) == ("c1", True)
    assert "left out here" in leave_out(ONE).text
    assert leave_out(REFUSED) is REFUSED
