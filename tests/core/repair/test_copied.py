"""Copied values: a call is not executed with values that are known only from an example."""

from typing import Any

import pytest

from sojourn import Message, RetryHint, ToolRequest, ToolResult, Toolset
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.boundary import check_payload, refusal
from sojourn.core.payload.hints import example_values
from sojourn.core.repair import copied
from sojourn.core.repair.copied import find_copied_values
from sojourn.core.schema.validate import Validator

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": r"^SO-\d{5}$"},
        "amount": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "reason": {"enum": ["damaged", "late"]},
        "note": {"type": "string"},
    },
    "required": ["order_id", "amount", "reason", "note"],
    "additionalProperties": False,
}
EXAMPLE = {"order_id": "SO-10023", "amount": 12.5, "reason": "damaged", "note": "as asked"}
RIGHT = {"order_id": "SO-20981", "amount": 30, "reason": "late", "note": "by phone"}


def refund_of(*, read_only: bool = False) -> ToolSpec:
    """A tool with an author's example."""
    toolset = Toolset("desk.orders")

    @toolset.tool(read_only=read_only, examples=[])
    async def refund(order_id: str) -> str:
        """Refund an order."""
        return order_id

    payload = refund.spec.payload.model_copy(update={"json_schema": SCHEMA, "example": EXAMPLE})
    return refund.spec.model_copy(update={"payload": payload})


SPEC = refund_of()


def step(payload: dict[str, Any], result: ToolResult | None = None) -> list[Message]:
    """The messages of a call and its answer: the boundary's refusal, unless another one is given."""
    call = ToolRequest(name=SPEC.id, payload=payload, tool_call_id="c")
    answer = result or check_payload(SPEC, Validator(SCHEMA), call)
    assert isinstance(answer, ToolResult)
    named = answer.model_copy(update={"name": SPEC.id, "tool_call_id": "c"})
    return [Message.calls([call]), Message.results([named])]


def found(messages: list[Message], payload: dict[str, Any], **options: Any) -> list[str]:
    call = ToolRequest(name=SPEC.id, payload=payload)
    return find_copied_values(call, options.pop("spec", SPEC), messages, **options)


ASKED = [Message.user("Refund everything of order 12")]
REFUSED = [*ASKED, *step({**EXAMPLE, "order_id": "12"})]


def test_a_value_of_the_example_is_found(subtests: pytest.Subtests) -> None:
    """In a field that was refused, the author's value, the derived one, that of a format and a placeholder are copies."""
    nothing = [*ASKED, *step({})]
    day = [*ASKED, *step({**RIGHT, "day": "soon"})]
    rows: list[tuple[list[Message], dict[str, Any], list[str]]] = [
        (REFUSED, EXAMPLE, ["/order_id"]),
        (REFUSED, {**EXAMPLE, "order_id": "SO-20981"}, []),
        (REFUSED, {**EXAMPLE, "order_id": "<order_id>"}, ["/order_id"]),
        (nothing, EXAMPLE, ["/amount", "/note", "/order_id"]),  # an enum's value may be chosen
        (nothing, RIGHT, []),
        (nothing, {**RIGHT, "note": "<note>"}, ["/note"]),
        (day, {**RIGHT, "day": "2024-01-31"}, ["/day"]),
        (day, {**RIGHT, "day": "2027-03-01"}, []),
        (ASKED, EXAMPLE, []),  # nothing was refused
        ([*REFUSED, *step(EXAMPLE, ToolResult(result="done"))], EXAMPLE, []),  # executed since
    ]  # fmt: skip
    for messages, payload, expected in rows:
        with subtests.test(str((len(messages), payload))):
            assert found(messages, payload) == expected


def test_a_value_that_was_told_is_no_copy(subtests: pytest.Subtests) -> None:
    """A value from a person, a tool, a question that a person has answered or the memory may equal the example's."""
    look = ToolResult(name="a.b.c", tool_call_id="d", result={"orders": ["SO-10023"]})
    asked = ToolResult(name="a.b.c", tool_call_id="d", error=ToolError.new("only SO-10023 is open"))
    own = RetryHint(reason="closed", tool="a.b.c", message="take SO-10023")
    hinted = ToolResult(name="a.b.c", tool_call_id="d", error=ToolError.new("closed"), retry_hint=own)
    sources = [
        [Message.user("so-10023, I mean")],
        [Message.user("订单SO-10023号")],
        [Message.results([look])],
        [Message.results([asked])],
        [Message.results([hinted])],
        [Message.assistant("Do you mean SO-10023?"), Message.user("yes")],
        [Message.system("The order is SO-10023.")],
    ]
    for source in sources:
        with subtests.test(str(source)):
            assert found([*source, *REFUSED], EXAMPLE) == []
    assert found(REFUSED, EXAMPLE, memory={"order": "SO-10023"}) == []
    assert found([*REFUSED, Message.assistant("I take SO-10023.")], EXAMPLE) == ["/order_id"]
    assert found([*REFUSED, Message.user("SO-100231")], EXAMPLE) == ["/order_id"]


def test_a_number_is_found_as_people_write_it() -> None:
    """12.5 is in "12,5" and in "12.5", and 30 is in "30.00"."""
    nothing = step({})
    spec = SPEC.model_copy(update={"payload": SPEC.payload.model_copy(update={"example": {"amount": 30}})})
    assert "/amount" in found([Message.user("all")], EXAMPLE) + found([*ASKED, *nothing], EXAMPLE)
    assert "/amount" not in found([Message.user("12,5 EUR"), *nothing], EXAMPLE)
    assert found([Message.user("30.00"), *nothing], {**RIGHT, "amount": 30}, spec=spec) == []
    assert found([Message.user("130"), *nothing], {**RIGHT, "amount": 30}, spec=spec) == ["/amount"]


def test_a_copy_is_refused_once_and_a_placeholder_each_time() -> None:
    """The same call again means that the value is right; a placeholder never is."""
    answer = refusal(ToolRequest(name=SPEC.id), example_values(SPEC, EXAMPLE, ["/order_id"]))
    told = [*REFUSED, *step(EXAMPLE, answer)]
    assert found(told, EXAMPLE) == []
    placeholder = {**EXAMPLE, "order_id": "<order_id>"}
    again = refusal(ToolRequest(name=SPEC.id), example_values(SPEC, placeholder, ["/order_id"]))
    assert found([*REFUSED, *step(placeholder, again)], placeholder) == ["/order_id"]
    message = (again.retry_hint and again.retry_hint.message) or ""
    assert message.endswith("Put a value in place of `<order_id>`.")
    assert "same call again" not in message


def test_the_answer_says_whose_values_they_are() -> None:
    """The hint names the field, and asks the person for it; nothing in it can be sent as it is."""
    error, hint = example_values(SPEC, EXAMPLE, ["/order_id"])
    assert error.code == hint.reason == "invalid_arguments"
    assert '`order_id` holds the value of an example, not one that was given, got "SO-10023"' in (
        hint.message or ""
    )
    assert "ask for them" in (hint.message or "")
    assert hint.clarifying_question == "What should `order_id` be?"
    assert (hint.mended(), hint.example_input, hint.prior_input) == (None, None, EXAMPLE)


def test_a_tool_that_changes_nothing_may_be_called_with_a_copy() -> None:
    """There a copy costs one call."""
    assert found(REFUSED, EXAMPLE, spec=refund_of(read_only=True)) == []


def test_a_repair_by_code_copies_nothing() -> None:
    """A call in place of a refused one has a person's value or a default of the planner; the name alone proves nothing."""
    call = ToolRequest(name=SPEC.id, payload=EXAMPLE, tool_call_id="c-repair1")
    assert find_copied_values(call, SPEC, REFUSED) == []
    other = call.model_copy(update={"tool_call_id": "d-repair1"})
    assert find_copied_values(other, SPEC, REFUSED) == ["/order_id"]


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value counts as found if the transcript is too long to be searched, and only the newest refusals are read."""
    monkeypatch.setattr(copied, "MAX_SEARCHED", 1_000)
    long = [Message.user("x" * 2_000)]
    assert found([*long, *REFUSED], EXAMPLE) == []
    monkeypatch.setattr(copied, "MAX_SEARCHED", 10_000)
    assert found([*long, *REFUSED], EXAMPLE) == ["/order_id"]
    later = step({**RIGHT, "amount": "many"}) * copied.MAX_REFUSALS
    assert found([*REFUSED, *later], EXAMPLE) == ["/amount"]


def test_a_value_inside_a_refused_object_is_found() -> None:
    """An object that was missing is compared value by value."""
    schema = {
        "type": "object",
        "properties": {"to": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}},
        "required": ["to"],
        "additionalProperties": False,
    }  # fmt: skip
    payload = SPEC.payload.model_copy(update={"json_schema": schema, "example": {"to": {"street": "Elm 1"}}})
    spec = SPEC.model_copy(update={"payload": payload})
    refused = check_payload(spec, Validator(schema), ToolRequest(name=spec.id, payload={}, tool_call_id="c"))
    assert isinstance(refused, ToolResult)
    messages = [*ASKED, Message.results([refused])]
    assert found(messages, {"to": {"street": "Elm 1"}}, spec=spec) == ["/to/street"]
    assert found(messages, {"to": {"street": "Ash 2"}}, spec=spec) == []
    assert found(messages, {"to": {"street": "<street>"}}, spec=spec) == ["/to/street"]
