"""What an operator sets aside: how a request is read and recorded, and what planners read in its place."""

import pytest

from sojourn import Message, ToolRequest, ToolResult
from sojourn.contracts.message import CompactionPart, ImagePart, OtherPart, TextPart, ThinkingPart
from sojourn.contracts.run import RunInput
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.run.set_aside import (
    MAX_SET_ASIDE,
    SetAsideRequest,
    drop_set_aside,
    read_set_aside,
    requests_in,
)
from sojourn.core.run.state import RunState
from sojourn.values.wire import decode_messages, encode

CALLS = [ToolRequest(name="a.b.c", tool_call_id=id) for id in ("c1", "c2")]
TALK = [
    Message.system("Be kind."),
    Message(
        role="user",
        parts=[
            TextPart(type="text", text="poison"),
            ImagePart(type="image", media_type="image/png", data="cG9pc29u"),
        ],
    ),
    Message(
        role="assistant",
        parts=[
            ThinkingPart(type="thinking", text="poison"),
            TextPart(type="text", text="I look."),
            *Message.calls(
                [
                    CALLS[0].with_arguments({"q": "poison"}),
                    CALLS[1].model_copy(update={"raw": '{"q":"poison'}),
                ]
            ).parts,
        ],
    ),
    Message.results(
        [ToolResult(name="a.b.c", tool_call_id=each.tool_call_id, result="poison") for each in CALLS]
    ),
    Message.assistant("poison"),
]


def with_records(*requests: SetAsideRequest) -> list[Message]:
    """The talk with these requests behind it, as a history holds it."""
    [*stored] = decode_messages(b"[" + b",".join(encode(request.record) for request in requests) + b"]")
    return [*TALK, *stored]


def poisoned(messages: list[Message]) -> list[int]:
    """The messages that still have what was set aside."""
    return [
        index
        for index, message in enumerate(messages)
        if b"poison" in encode(message) or b"cG9pc29u" in encode(message)
    ]


def test_what_was_set_aside_is_read_no_more(subtests: pytest.Subtests) -> None:
    """A short text stands in its place, calls and their answers stay paired, and all else is as it was."""
    rows = [
        (SetAsideRequest(1), [2, 3, 4]),
        (SetAsideRequest(2), [1, 3, 4]),
        (SetAsideRequest(3), [1, 2, 4]),
        (SetAsideRequest(3, "c1"), [1, 2, 3, 4]),
        (SetAsideRequest(4), [1, 2, 3]),
        (SetAsideRequest(99), [1, 2, 3, 4]),
        (SetAsideRequest(3, "c9"), [1, 2, 3, 4]),
    ]
    for request_, left in rows:
        with subtests.test(request_=request_, left=left):
            messages = with_records(request_)
            read = drop_set_aside(messages)
            assert poisoned(read) == left
            assert [message.role for message in read] == [message.role for message in messages]
            assert [call.tool_call_id for call in read[2].tool_calls] == ["c1", "c2"]
            results = {result.tool_call_id: str(result.result) for result in read[3].tool_results}
            assert list(results) == ["c1", "c2"]
            whole = request_.message == 3 and request_.tool_call_id is None
            assert ["left out" in results[id] for id in ("c1", "c2")] == [
                whole or request_.tool_call_id == "c1",
                whole,
            ]
            unchanged = [index for index in range(5) if index != request_.message]
            assert [read[index] for index in unchanged] == [messages[index] for index in unchanged]
            assert poisoned(messages) == [1, 2, 3, 4]


def test_a_summary_of_what_was_set_aside_later_is_read_no_more() -> None:
    """A compaction before the record goes, if it has the message; one after it stays, and one that has it not."""

    def summary(until: int) -> Message:
        part = CompactionPart(type="compaction", summary="about it", until=until)
        return Message(role="assistant", parts=[part, TextPart(type="text", text="ok")])

    record = SetAsideRequest(1).record
    read = drop_set_aside([*TALK, summary(3), summary(1), record, summary(3)])
    kept = [any(isinstance(part, CompactionPart) for part in message.parts) for message in read[5:]]
    assert kept == [False, True, False, True]


def test_a_record_that_cannot_be_read_sets_nothing_aside(subtests: pytest.Subtests) -> None:
    """A record of another version, or in a message of a person, changes nothing."""
    rows = [
        {"type": "set_aside"},
        {"type": "set_aside", "message": "1"},
        {"type": "set_aside", "message": -1},
        {"type": "set_aside", "message": True},
        {"type": "set_aside", "message": 1, "tool_call_id": 3},
        {"type": "else", "message": 1},
    ]
    for part in rows:
        with subtests.test(part=part):
            odd = Message(role="system", parts=[OtherPart.model_validate(part)])
            said = Message(role="user", parts=SetAsideRequest(1).record.parts)
            assert drop_set_aside([*TALK, odd, said]) == [*TALK, odd, said]


def test_a_request_is_read(subtests: pytest.Subtests) -> None:
    """What a run takes names a message and perhaps a call, and is bounded; all else is refused with what is wrong."""
    rows = [
        ([{"message": 3}], SetAsideRequest(3)),
        (
            [{"message": 3, "tool_call_id": "c1", "reason": "loops", "by": "ana"}],
            SetAsideRequest(3, "c1", "loops", "ana"),
        ),
        ([{"message": 3, "reason": "x" * 2_000}], SetAsideRequest(3, None, "x" * 299 + "…")),
        ([], "takes one object"),
        ([3], "takes one object"),
        ([{"message": 3}, {}], "takes one object"),
        ([{"message": 3, "call": "c1"}], 'does not know "call"'),
        ([{}], "`message` is the number"),
        ([{"message": -1}], "`message` is the number"),
        ([{"message": True}], "`message` is the number"),
        ([{"message": 3, "tool_call_id": "x" * 300}], "`message` is the number"),
        ([{"message": 3, "reason": "x" * 3_000}], "`reason` is a text"),
        ([{"message": 3, "by": "x" * 300}], "`by` is a name"),
    ]
    for values, read in rows:
        with subtests.test(values=values, read=read):
            found = read_set_aside(values)
            if isinstance(read, SetAsideRequest):
                assert found == read
            else:
                assert isinstance(found, Rejection)
                assert read in found.reason


def test_the_state_sets_each_thing_aside_once_and_not_without_end() -> None:
    """A repetition changes nothing; a message that comes only with the next plan, and one too many, are refused."""
    state = RunState.opened(RunInput(agent_id="a.b", messages=[]))
    request = SetAsideRequest(3, "c1", "loops", "ana")
    after = state.setting_aside(request)
    assert requests_in(after.resume_messages) == [request]
    assert after.notes == ("set aside: the result of c1 in message 3: loops",)
    assert after.setting_aside(SetAsideRequest(3, "c1", "again", "bo")) is after
    assert after.set_aside_fault(SetAsideRequest(4), 5) is None
    assert "no message 5 yet" in (after.set_aside_fault(SetAsideRequest(5), 5) or "")
    for index in range(MAX_SET_ASIDE):
        after = after.setting_aside(SetAsideRequest(index))
    assert "set aside already" in (after.set_aside_fault(SetAsideRequest(200), 999) or "")
    assert after.set_aside_fault(request, 999) is None
