"""The transcript: packed in memory, read in slices, and as a planner receives it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import AwaitClarification, Message, ToolRequest, ToolResult
from sojourn.contracts import RunLink, ToolTelemetry
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run import transcript
from sojourn.core.run.transcript import (
    BLOCK_BYTES,
    Packed,
    call_ids,
    for_planner,
    question_message,
    reply,
    slice_of,
)
from sojourn.values.wire import MAX_SLICE_BYTES, decode_messages, encode

MESSAGES = [Message.user(f"Grüße {n} 🚀") for n in range(5)]
PACKED = [encode(message) for message in MESSAGES]


@given(st.lists(st.integers(0, 2 * BLOCK_BYTES), max_size=8))
def test_packed_messages_are_read_back(sizes: list[int]) -> None:
    """Each packed message is read back as the same bytes, in order, compressed or not."""
    messages = [Message.user(f"{n} {'é' * (size // 2)}") for n, size in enumerate(sizes)]
    packed = Packed()
    assert packed.extend(messages) == sum(len(encode(message)) for message in messages)
    assert len(packed) == len(messages)
    assert list(packed) == [encode(message) for message in messages]
    assert slice_of(packed, 0, None, 0)[0][: transcript.MAX_SLICE_BYTES] == encode(messages)


@given(st.lists(st.sampled_from([1, 20_000, 40_000]), max_size=6), st.integers(0, 6))
def test_the_last_messages_are_removed(sizes: list[int], count: int) -> None:
    """What is left is the transcript before they were added, whether they were compressed meanwhile or not."""
    messages = [Message.user(str(number) * size) for number, size in enumerate(sizes)]
    kept = messages[: max(len(messages) - count, 0)]
    packed, before = Packed(), Packed()
    before.extend(kept)
    packed.extend(kept)
    added = packed.extend(messages[len(kept) :])
    assert packed.drop_last(len(messages) - len(kept)) == added
    assert (len(packed), packed.messages()) == (len(kept), kept)
    for each in (packed, before):
        each.append(Message.user("next"))
    assert packed.messages() == before.messages()


def test_packed_messages_take_less_memory_than_their_json() -> None:
    """A megabyte of rows is held in less than half its size."""
    rows = [{"id": n, "name": f"device {n}", "value": n * 1.5} for n in range(200)]
    result = ToolResult(name="a.b.c", tool_call_id="c", result={"rows": rows})
    packed = Packed()
    size = packed.extend(Message.results([result]) for _ in range(120))
    assert size > 1_000_000
    assert packed.memory_bytes < size / 2


def test_a_small_transcript_is_one_slice() -> None:
    """A small transcript is read at once, as the JSON array `messages[after:until]`."""
    for after, until, expected in (
        (0, None, MESSAGES),
        (2, 4, MESSAGES[2:4]),
        (5, None, []),
        (-3, 1, MESSAGES[:1]),
    ):
        data, whole = slice_of(PACKED, after, until, 0)
        assert whole
        assert decode_messages(data) == expected


@given(st.integers(1, 40), st.integers(0, 5), st.none() | st.integers(0, 5))
def test_slices_add_up_to_the_whole(size: int, after: int, until: int | None) -> None:
    """Slices from offset to offset, until one is shorter, are the whole array, even if cut inside a character."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcript, "MAX_SLICE_BYTES", size)
        data = b""
        while True:
            part, whole = slice_of(PACKED, after, until, len(data))
            assert whole is (len(part) == len(encode(MESSAGES[after:until])))
            data += part
            if len(part) < size:
                break
    assert data == encode(MESSAGES[after:until])


def test_a_slice_fits_in_a_query_result() -> None:
    """A slice has at most 1.5 MB, since a query result over 2 MB fails; an offset beyond the end gives an empty slice."""
    big = [encode(Message.user("x" * (2 * MAX_SLICE_BYTES)))]
    part, whole = slice_of(big, 0, None, 0)
    assert (len(part), whole) == (MAX_SLICE_BYTES, False)
    assert slice_of(big, 0, None, 10**9) == (b"", False)
    assert slice_of(big, 0, None, -5)[0] == part


def test_telemetry_with_a_duration_alone_is_left_out() -> None:
    """A planner gets telemetry only with attempts, tokens or costs, or for a child run."""
    timed = ToolResult(result=1, telemetry=ToolTelemetry(duration_ms=9))
    assert for_planner(timed) == ToolResult(result=1)
    link = RunLink(run_id="r/c", agent_id="a.b", parent_run_id="r", parent_tool_call_id="c")
    for kept in (
        ToolResult(result=1),
        ToolResult(result=1, telemetry=ToolTelemetry(duration_ms=9, input_tokens=1)),
        ToolResult(result=1, telemetry=ToolTelemetry(duration_ms=9, attempts=2)),
        timed.model_copy(update={"run_link": link}),
    ):
        assert for_planner(kept) is kept


def test_call_ids_are_those_of_the_calls() -> None:
    """`call_ids` has the ids of all calls of a transcript, and not those of results."""
    asked = Message.calls([ToolRequest(name="a.b.c", tool_call_id=id) for id in ("c1", "c2")])
    assert call_ids([Message.user("x"), asked, Message.results([ToolResult(tool_call_id="zz")])]) == {
        "c1",
        "c2",
    }


def test_an_answer_is_the_result_of_the_models_asking_call() -> None:
    """The answer is the result of the call by which the model asks; the message's other calls are not executed."""
    calls = [ToolRequest(name="a.b.c", tool_call_id=id) for id in ("c1", "ask", "c2")]
    question = AwaitClarification(question="Which?", tool_call_id="ask")
    plan = PlanOutcome(await_=question, asking="ask", message=Message.calls(calls))
    results = reply(plan, Message.user("s-1")).tool_results
    assert [result.tool_call_id for result in results] == ["c1", "ask", "c2"]
    assert [result.result for result in results] == [None, "s-1", None]
    assert ["not executed" in str(result.error) for result in results] == [True, False, True]


def test_an_answer_to_a_question_without_a_call_is_a_user_message() -> None:
    """The question's message is the planner's own, or one with the question's text."""
    plan = PlanOutcome(await_=AwaitClarification(question="Which?"))
    assert reply(plan, Message.user("s-1")) == Message.user("s-1")
    assert question_message(plan) == Message.assistant("Which?")
    own = Message.assistant("I wonder which.")
    assert question_message(plan.model_copy(update={"message": own})) == own
