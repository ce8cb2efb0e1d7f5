"""What a model reads of a run, kept from turn to turn: the same as when it is converted anew, and only what is new is converted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Message, PlanInput, PlanResult, RunContext, ToolError, ToolRequest, ToolResult
from sojourn.contracts.message import CompactionPart
from sojourn.contracts.plan import Usage
from sojourn.models import conversation
from sojourn.models.compaction import with_part
from sojourn.models.conversation import ModelConversation, ModelConversations
from sojourn.models.messages import Converter
from sojourn.models.names import Names
from sojourn.models.requests import ModelInput
from sojourn.values.wire import decode_messages, encode

TOOL = "ops.devices.list"


def text(result: ToolResult, _names: Names | None = None) -> str:
    return str(result.error.message if result.error else result.result)


def called(*ids: str) -> Message:
    return Message.calls([ToolRequest(name=TOOL, tool_call_id=id) for id in ids])


def answered(*ids: str, value: str = "ok") -> Message:
    return Message.results([ToolResult(name=TOOL, tool_call_id=id, result=f"{value} {id}") for id in ids])


def steps(count: int, value: str = "ok") -> list[Message]:
    """A transcript of a question and `count` steps of one call."""
    made = [Message.user("go")]
    for n in range(count):
        made += [called(f"c{n}"), answered(f"c{n}", value=value)]
    return made


ids = st.sampled_from(["a", "b", "c", "a-2"])
messages = st.one_of(
    st.just(Message.user("more")),
    st.just(Message.system("notice")),
    st.just(Message.assistant("so far")),
    st.lists(ids, min_size=1, max_size=3).map(lambda made: called(*made)),
    st.lists(ids, min_size=1, max_size=3).map(lambda made: answered(*made)),
    ids.map(
        lambda made: Message.results([ToolResult(name=TOOL, tool_call_id=made, error=ToolError.new("no"))])
    ),
)


@given(transcript=st.lists(messages, max_size=14), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=14))
def test_a_transcript_that_grows_is_converted_as_if_anew(transcript, sizes):
    """Whatever calls and answers it has, in whatever order, and however many messages are new each time."""
    names = Names([TOOL])
    converter, end = Converter(names, text), 0
    for size in sizes:
        end = min(end + size, len(transcript))
        expected = Converter(names, text).messages(transcript[:end])
        assert [*map(strip, converter.messages(transcript[:end]))] == [*map(strip, expected)]


def strip(message):
    """A message without its time."""
    return (
        type(message),
        [(type(part), {k: v for k, v in vars(part).items() if k != "timestamp"}) for part in message.parts],
    )


def test_another_transcript_of_the_same_run_is_read_anew():
    """As after an attempt whose plan was not accepted, or a reset: nothing of what was read before stays."""
    conversations = ModelConversations(text)
    first = [*steps(2), called("x"), answered("x")]
    conversations.read("r", first, [TOOL]).request()
    other = [*first[:-2], called("y"), answered("y")]
    read = conversations.read("r", other, [TOOL])
    assert [*map(strip, read.request())] == [*map(strip, Converter(Names([TOOL]), text).messages(other))]


def test_a_turn_converts_the_results_of_its_last_step_alone(monkeypatch):
    """At step 300 as at step 3; what is converted is counted by the texts of results that are made."""
    made = []
    conversations = ModelConversations(lambda result, _: made.append(result.tool_call_id) or text(result))
    transcript, counts = steps(0), []
    for n in range(300):
        transcript = [*transcript, called(f"c{n}"), answered(f"c{n}")]
        made.clear()
        reading = ModelInput(conversations, turn(transcript), None)
        reading.messages()
        counts.append(len(made))
    assert set(counts[2:]) == {2}


def turn(transcript: list[Message], *, start: int = 0) -> PlanInput:
    run = RunContext(run_id="r", agent_id="test.agent")
    return PlanInput(run=run, messages=transcript, tools=[], turn_start=start)


@pytest.mark.parametrize(("start", "converted"), [(0, 6), (9, 2)], ids=["run", "later turn"])
def test_an_answer_ends_a_run_but_no_conversation(start, converted):
    """From its second turn on the next one converts only the last steps; a run that has ended is dropped."""
    made = []
    conversations = ModelConversations(lambda result, _: made.append(result.tool_call_id) or text(result))
    transcript = steps(5)
    reading = ModelInput(conversations, turn(transcript, start=start), None)
    reading.messages()
    reading.record(PlanResult.final("done"), Usage())
    made.clear()
    transcript = [*transcript, Message.assistant("done"), Message.user("more"), called("d"), answered("d")]
    ModelInput(conversations, turn(transcript, start=start), None).messages()
    assert len(set(made)) == converted


def test_runs_are_dropped_by_use_and_by_size(monkeypatch):
    """The run that was read least recently goes first; a run that is too large alone is read, and not kept."""
    monkeypatch.setattr(conversation, "MAX_RUNS", 2)
    conversations = ModelConversations(text)
    kept = {run: conversations.read(run, steps(1), []) for run in "ab"}
    conversations.read("a", steps(1), [])
    conversations.read("c", steps(1), [])
    assert conversations.read("a", steps(1), []) is kept["a"]
    assert conversations.read("b", steps(1), []) is not kept["b"]
    monkeypatch.setattr(conversation, "MAX_BYTES", 1_000)
    conversations = ModelConversations(text)
    large = conversations.read("d", steps(50), [])
    assert len(large.request()) == 101
    assert conversations.read("d", steps(50), []) is not large


PART = CompactionPart(type="compaction", summary="all fine", until=5, kept=[0], cleared=9, at=20)


def test_a_recorded_compaction_is_read_from_its_message_on():
    """Where it was made and in a worker that reads the transcript for the first time, also after later messages."""
    transcript = steps(10, "x" * 300)
    here = ModelConversation(text)
    here.update(transcript, [TOOL])
    here.compact(transcript, PART, Usage())
    before = here.request()
    recorded = with_part(called("new"), PART)
    after = [*transcript, recorded, answered("new", value="y" * 500)]
    here.update(after, [TOOL])
    elsewhere = ModelConversation(text)
    elsewhere.update(decode_messages(encode(after)), [TOOL])
    assert here.unrecorded is None
    assert [*map(strip, here.request())] == [*map(strip, elsewhere.request())]
    assert [*map(strip, here.request())][: len(before)] == [*map(strip, before)]
    texts = [str(part.content) for message in before for part in message.parts if hasattr(part, "content")]
    assert texts[0] == "go"
    assert "all fine" in texts[1]
    assert [each.startswith("[The result, of 303 characters, was cleared") for each in texts[2:]] == [
        True,
        True,
        *[False] * 6,
    ]


def test_an_attempt_that_is_repeated_uses_the_summary_of_the_one_before():
    """Its messages are other objects then, and the summary is not asked for again; in another transcript it is not used."""
    transcript = steps(10)
    here = ModelConversation(text)
    here.update(transcript, [TOOL])
    here.compact(transcript, PART, Usage(input_tokens=7))
    here.update(decode_messages(encode(transcript)), [TOOL])
    assert here.unrecorded == (PART, Usage(input_tokens=7))
    here.update(decode_messages(encode([*steps(9), called("z"), answered("z")])), [TOOL])
    assert here.unrecorded is None


@pytest.mark.parametrize("until", [-3, 5, 10_000])
def test_a_compaction_from_elsewhere_cannot_break_a_request(until):
    """Indices that are out of range are those of its ends."""
    made = CompactionPart(
        type="compaction", summary="s", until=until, kept=[-1, 0, 99], cleared=-5, max_result=-1
    )
    here = ModelConversation(text)
    here.update([*steps(3), with_part(called("n"), made), answered("n")], [TOOL])
    assert here.request()
