"""The outcome of a response: the answers to its calls, and the validators of its type, tested without a run."""

import json
from datetime import datetime
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from pydantic_ai.messages import FinishReason, ModelResponse, ToolCallPart

from sojourn import Message, PlanResult, ToolRequest
from sojourn.models.finish_reasons import UNREPORTED
from sojourn.models.messages import from_response
from sojourn.models.names import Names
from sojourn.models.offered import Expected
from sojourn.models.outcome import Correction, ModelReply, is_call_as_text, plan_of

NAMES = Names(["test.tools.add"])


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("it is odd")
        return value


def call(id: str, name: str, **payload: Any) -> ToolRequest:
    return ToolRequest(name=name, tool_call_id=id, payload=payload)


def reply(*calls: ToolRequest, text: str = "", finish: str | None = None) -> ModelReply:
    return ModelReply(Message.calls(list(calls)) if calls else Message.assistant(text), finish)


def outcome(
    given: ModelReply, expected: Expected | None = None, *, may_call: bool = False
) -> PlanResult | Correction:
    return plan_of(given, NAMES, expected=expected, may_ask=True, may_call=may_call)


@pytest.mark.parametrize("text", ["", "It is 3."])
def test_a_call_in_the_last_turn_is_corrected(text: str) -> None:
    """No tool is called any more, a question is none either, and the text beside the call is the answer in the end."""
    calls = [call("c1", "test.tools.add", a=1), call("c2", "ask_user", question="How?")]
    message = Message(role="assistant", parts=[*Message.assistant(text).parts, *Message.calls(calls).parts])
    given = ModelReply(message, None)
    correction = plan_of(given, NAMES, expected=None, may_ask=True, is_last=True)
    assert isinstance(correction, Correction)
    assert correction.answers.keys() == {"c1", "c2"}
    assert "Answer in words" in correction.text
    assert "the model called a tool in place of an answer" in correction.why
    answer = correction.otherwise and correction.otherwise.final_response
    assert (answer.text if answer else "") == text


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("ask_user", {"question": " "}), ("final_result", {"n": "two"})],
    ids=["question", "typed answer"],
)
def test_only_the_wrong_call_gets_the_correction(name: str, wrong: dict[str, Any]) -> None:
    """The other calls of the response are answered as not executed, with the reason."""
    calls = [
        call("c1", "test.tools.add", a=1),
        call("c2", name, **wrong),
        call("c3", "test.tools.add", a=2),
    ]
    correction = outcome(reply(*calls), Expected.of(Even))
    assert isinstance(correction, Correction)
    assert correction.answers["c2"] == correction.text
    beside = f"not executed: the call of `{name}` in the same response was not valid"
    assert (correction.answers["c1"], correction.answers["c3"]) == (beside, beside)


@pytest.mark.parametrize("is_called", [True, False], ids=["called", "written"])
def test_an_answer_that_the_type_s_validator_refuses_is_corrected(is_called: bool) -> None:
    """An answer that fits the schema but not the type's own validator is corrected."""

    def answer(n: int) -> PlanResult | Correction:
        given = reply(call("c1", "final_result", n=n)) if is_called else reply(text=json.dumps({"n": n}))
        return outcome(given, Expected.of(Even))

    correction, plan = answer(3), answer(4)
    assert isinstance(correction, Correction)
    assert correction.code == "MalformedAnswer"
    assert "it is odd" in correction.text
    assert isinstance(plan, PlanResult)
    assert plan.result == {"n": 4}


def test_without_a_type_only_the_schema_applies() -> None:
    """An answer for a calling agent, of which only the schema is known, need only fit the schema."""
    expected = Expected(Expected.of(Even).answer)
    plan = outcome(reply(call("c1", "final_result", n=3)), expected)
    assert isinstance(plan, PlanResult)
    assert plan.result == {"n": 3}


def test_a_run_that_may_ask_nobody_has_no_question() -> None:
    """A call of `ask_user` is a question where the run may ask; elsewhere it is a call of a tool that does not exist."""
    given = reply(call("c1", "ask_user", question="Which site?"))
    asked, called = (plan_of(given, NAMES, expected=None, may_ask=may_ask) for may_ask in (True, False))
    assert isinstance(asked, PlanResult)
    assert (asked.await_ and asked.await_.question, asked.tool_calls) == ("Which site?", [])
    assert isinstance(called, PlanResult)
    assert (called.await_, [each.name for each in called.tool_calls]) == (None, ["ask_user"])


# Responses that were cut off.


def test_the_last_call_of_a_response_that_was_cut_off_is_not_executed(subtests: pytest.Subtests) -> None:
    """The plan has all calls, and says why the last is answered in place of being executed; the model is told its limit."""
    rows = [
        ("length", "max_tokens", 1_000, "was cut off at the output limit of 1,000 tokens"),
        ("length", "length", None, "was cut off at the output limit"),
        ("length", "model_context_window_exceeded", 1_000, "because the context window is full"),
        ("content_filter", "content_filter", None, "was stopped by the provider's content filter"),
        ("error", "abort", None, "was ended by the provider before it was complete (abort)"),
    ]
    for finish, provider_finish, limit, why in rows:
        with subtests.test(finish=finish, provider_finish=provider_finish, limit=limit, why=why):
            message = Message.calls([call("c1", "test.tools.add", a=1), call("c2", "test.tools.add", a=2)])
            plan = outcome(ModelReply(message, finish, None, provider_finish, limit))
            assert isinstance(plan, PlanResult)
            assert [each.tool_call_id for each in plan.tool_calls] == ["c1", "c2"]
            assert plan.unfinished
            assert why in plan.unfinished
            assert ("smaller pieces" in plan.unfinished) is (finish == "length")
            assert why in plan.notes[0]


CUT = {
    "length": ("max_tokens", "MAX_TOKENS", "model_length", "length", "max_output_tokens"),
    "content_filter": ("SAFETY", "guardrail_intervened", "refusal"),
    "error": (
        "abort",
        "error",
        "OTHER",
        "MALFORMED_FUNCTION_CALL",
        "pause_turn",
        "cancelled",
        "in_progress",
        "incomplete",
    ),
}


def ended(word: str | None, arguments: str = '{"a": 1}', mapped: FinishReason | None = None) -> ModelReply:
    """A response with two calls, whose provider ended it with a word."""
    details = {"finish_reason": word} if word else None
    response = ModelResponse(
        [
            ToolCallPart("test__tools__add", '{"a": 0}', "c1"),
            ToolCallPart("test__tools__add", arguments, "c2"),
        ],
        finish_reason=mapped,
        provider_details=details,
    )
    return ModelReply.of(response, from_response(response, NAMES), None)


def test_a_finish_reason_counts_by_its_word_and_not_by_its_server(subtests: pytest.Subtests) -> None:
    """A call in which a response was cut off is not executed, in whatever API's words its server says so."""
    for word in [word for words in CUT.values() for word in words]:
        with subtests.test(word=word):
            given = ended(word)
            assert word in CUT[given.finish or ""]
            plan = outcome(given)
            assert isinstance(plan, PlanResult)
            assert plan.unfinished


def test_a_response_that_ended_by_itself_has_no_unfinished_call(subtests: pytest.Subtests) -> None:
    """Its calls are all executed; arguments that cannot be read are the boundary's matter."""
    rows = ["stop", "STOP", "tool_calls", "end_turn", "completed", "eos", None]
    for word in rows:
        with subtests.test(word=word):
            for arguments in ('{"a": 1}', '{"a"'):
                plan = outcome(ended(word, arguments, "stop"))
                assert isinstance(plan, PlanResult)
                assert plan.unfinished is None


@pytest.mark.parametrize("word", ["a_new_word", UNREPORTED])
@pytest.mark.parametrize(
    ("arguments", "is_whole"), [('{"a": 1}', True), ('{"a":', False), ("", False), ('"a"', True)]
)
def test_after_an_unknown_word_a_call_counts_if_it_is_complete(
    word: str, arguments: str, is_whole: bool
) -> None:
    """What nobody knows to be whole is executed only if its arguments are complete JSON."""
    plan = outcome(ended(word, arguments))
    assert isinstance(plan, PlanResult)
    assert (plan.unfinished is None) is is_whole


def test_a_text_that_the_provider_ended_has_a_note() -> None:
    """People see that the answer may be a part."""
    plan = outcome(ModelReply(Message.assistant("It is"), "error", None, "abort"))
    assert isinstance(plan, PlanResult)
    assert plan.notes == ["the answer was ended by the provider before it was complete (abort)"]


def test_a_whole_response_has_no_unfinished_call() -> None:
    """Calls of a response that ended by itself are all executed."""
    plan = outcome(reply(call("c1", "test.tools.add", a=1), finish="tool_call"))
    assert isinstance(plan, PlanResult)
    assert (plan.unfinished, plan.notes) == (None, [])


@pytest.mark.parametrize(
    ("finish", "code"),
    [("length", "OutputLimit"), ("content_filter", "ContentFiltered"), ("error", "MalformedAnswer")],
)
@pytest.mark.parametrize("way", ["called", "written", "question"])
def test_an_answer_that_was_cut_off_does_not_count(finish: str, code: str, way: str) -> None:
    """A typed answer, or a question, of a response that was cut off is corrected, even where it happens to be valid."""
    name, payload = ("ask_user", {"question": "Which"}) if way == "question" else ("final_result", {"n": 4})
    given = (
        reply(text='{"n": 4}', finish=finish)
        if way == "written"
        else reply(call("c1", name, **payload), finish=finish)
    )
    correction = outcome(given, Expected.of(Even))
    assert isinstance(correction, Correction)
    assert (correction.code, correction.most) == (code, 2)
    assert correction.needs_room is (finish == "length")
    assert "does not count" in correction.text
    assert correction.answers == ({} if way == "written" else {"c1": correction.text})


def test_a_question_before_the_call_that_was_cut_off_counts() -> None:
    """Only the last call of a response was cut off."""
    asked = outcome(
        reply(call("c1", "ask_user", question="Which?"), call("c2", "test.tools.add"), finish="length")
    )
    assert isinstance(asked, PlanResult)
    assert asked.await_


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_call_that_the_provider_could_not_read_is_corrected(finish: str) -> None:
    """A response that is empty because the provider could not read a call says what to do, and not that it was empty."""
    correction = outcome(ModelReply(Message(role="assistant", parts=[]), "error", None, finish))
    assert isinstance(correction, Correction)
    assert finish in correction.text
    assert "one JSON object" in correction.text
    assert correction.code == "EmptyAnswer"


# Calls written as text, and typed answers.


def test_a_call_written_as_text_is_noticed(subtests: pytest.Subtests) -> None:
    """The notations of calls are known, and JSON or prose that only resembles them is none."""
    rows = [
        ('{"name": "add", "arguments": {"a": 1}}', True),
        ('```json\n[{"name": "add", "parameters": {}}]\n```', True),
        ('{"name": "weather__2023_2023_2023', True),
        ('I add.\n<tool_call>\n{"name": "add"}\n</tool_call>', True),
        ('[TOOL_CALLS][{"name": "add"}]', True),
        ("<function=add>{}</function>", True),
        ("<tool_response>3</tool_response>", True),
        ('{"name": "Ada"}', False),
        ('{"name": "Ada", "age": 36}', False),
        ("Models write <tool_call> before a call.", False),
        ("It is 3.", False),
        (" " * 200_000 + "x", False),
    ]
    for text, is_one in rows:
        with subtests.test(text=text, is_one=is_one):
            assert is_call_as_text(text) is is_one


def test_a_call_written_as_text_is_corrected_and_then_the_answer() -> None:
    """With tools the model is told once to call as a tool; without, or the second time, the text is the answer, with a note."""
    given = reply(text='{"name": "add", "arguments": {}}')
    correction, plan = outcome(given, may_call=True), outcome(given)
    assert isinstance(correction, Correction)
    assert correction.otherwise == plan
    assert isinstance(plan, PlanResult)
    assert "written as text" in plan.notes[0]
    assert plan.final_response == given.message


def test_a_typed_answer_gets_the_hint_of_a_tool() -> None:
    """The correction has the faults, what would be valid, an example and what was sent."""

    class Ticket(BaseModel):
        topic: Literal["delay", "damage"]
        urgency: int = Field(ge=1, le=3)

    correction = outcome(reply(call("c1", "final_result", urgency=9)), Expected.of(Ticket))
    assert isinstance(correction, Correction)
    for fact in (
        '"delay"',
        "at most 3",
        "arguments to complete: ",
        'you sent: {"urgency":9}',
        "call final_result again",
    ):
        assert fact in correction.text
    assert correction.most == 2


class Berth(BaseModel):
    """A berth."""

    number: int
    note: str = ""
    tags: list[str] = []
    at: datetime | None = None


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"number": "5"}', {"number": 5}),
        ('{"number": 5.0, "note": null}', {"number": 5}),
        ('{"number": 5, "tags": "[\\"a\\"]"}', {"number": 5, "tags": ["a"]}),
        ('"{\\"number\\": 5}"', {"number": 5}),
        ('{"number": 5, "at": "2026-12-01T10:00:00"}', {"number": 5, "at": "2026-12-01T10:00:00"}),
    ],
    ids=[
        "text",
        "null and a whole float",
        "list as text",
        "text that holds the whole",
        "time without an offset",
    ],
)
def test_a_typed_answer_is_read_like_arguments(raw: str, value: Any) -> None:
    """A typed answer in the forms that models write is read without loss, whether called or written as text."""
    called = outcome(reply(ToolRequest(name="final_result", tool_call_id="c1", raw=raw)), Expected.of(Berth))
    assert isinstance(called, PlanResult)
    assert (called.result, type(called.result["number"])) == (value, int)
    if raw.startswith("{"):
        written = outcome(reply(text=raw), Expected.of(Berth))
        assert isinstance(written, PlanResult)
        assert written.result == value


def test_a_typed_list_is_read_from_a_text() -> None:
    """An answer that is no object is read as well."""
    raw = '{"answer": "[1.0, 2]"}'
    made = outcome(
        reply(ToolRequest(name="final_result", tool_call_id="c1", raw=raw)), Expected.of(list[int])
    )
    assert isinstance(made, PlanResult)
    assert json.dumps(made.result) == "[1, 2]"
