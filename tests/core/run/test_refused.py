"""Messages that a provider refused: their content is left out, and everything that it accepted stays."""

import pytest

from sojourn import Message, ToolError, ToolRequest, ToolResult
from sojourn.core.run.refused import failure_notice, without_refused

CALL = ToolRequest(name="a.b.c", tool_call_id="c1")
RESULT = Message.results([ToolResult(name="a.b.c", tool_call_id="c1", result="a picture")])
REFUSED = failure_notice(ToolError.new("no", code="ModelRejected"))
OTHER = failure_notice(ToolError.new("no", code="ModelUnavailable"))


def texts(messages: list[Message]) -> list[str]:
    """What each message says, shortened."""
    return [
        "left out" if "left out here" in message.model_dump_json() else message.text or message.role
        for message in messages
    ]


@pytest.mark.parametrize("code", ["ContentFiltered", "ModelRejected"])
def test_a_refusal_is_known_below_other_errors(code):
    """The notice of a failed turn is marked if any error of the chain is a refusal; its text is the same."""
    cause = ToolError.new("no", code=code)
    notice = failure_notice(
        ToolError(message="the turn", cause=ToolError(message="the planner", cause=cause))
    )
    assert notice.text == "The last turn failed: the turn"
    read = without_refused([Message.user("bad"), notice])
    assert texts(read) == ["left out", notice.text]


def test_another_failure_leaves_the_messages_as_they_are():
    """A provider that was away has refused nothing."""
    messages = [Message.user("one"), OTHER, Message.user("two")]
    assert without_refused(messages) == messages


def test_what_the_provider_accepted_stays():
    """Only what came between the last message of the model and the notice was refused; later messages stay too."""
    before = [Message.user("one"), Message.assistant("yes"), Message.user("two")]
    messages = [*before, REFUSED, Message.user("three"), Message.assistant("ok"), Message.user("four")]
    read = without_refused(messages)
    assert texts(read) == ["one", "yes", "left out", REFUSED.text, "three", "ok", "four"]
    assert messages[2].text == "two"


def test_a_refused_result_still_answers_its_call():
    """A transcript answers each call, with a short text in place of what was refused."""
    read = without_refused([Message.user("one"), Message.calls([CALL]), RESULT, REFUSED])
    assert texts(read) == ["one", "assistant", "left out", REFUSED.text]
    assert [result.tool_call_id for result in read[2].tool_results] == ["c1"]


def test_several_refused_turns_are_left_out_each():
    """Each notice concerns what came before it."""
    messages = [Message.user("one"), REFUSED, Message.user("two"), REFUSED, Message.user("three")]
    assert texts(without_refused(messages)) == ["left out", REFUSED.text, "left out", REFUSED.text, "three"]


def test_a_text_that_looks_like_a_notice_marks_nothing():
    """Only a notice of the run is marked, and no message of somebody else."""
    words = Message(role="user", parts=REFUSED.parts)
    assert without_refused([Message.user("one"), words]) == [Message.user("one"), words]
