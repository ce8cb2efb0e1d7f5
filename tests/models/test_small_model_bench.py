"""The bench of small models: how a run is judged by its transcript, and what the models read of a conversation."""

import json

from bench.small_model import from_examples, outcome_of
from bench.small_model_desk import REQUESTS, toolsets
from bench.small_model_endpoint import _inputs, completion
from sojourn import Message, ToolRequest, ToolResult
from sojourn.core.payload.boundary import check_payload

TOOLS = {str(tool.id): tool for toolset in toolsets for tool in toolset.tools.values()}
REFUND = "desk.orders.refund"
EXAMPLE = {"order_id": "SO-10023", "amount": 12.5, "reason": "damaged"}


def refused(payload: dict) -> ToolResult:
    tool = TOOLS[REFUND]
    answer = check_payload(
        tool.spec, tool.validator, ToolRequest(name=REFUND, payload=payload, tool_call_id="1")
    )
    assert isinstance(answer, ToolResult)
    return answer


def test_no_request_has_a_value_of_an_example() -> None:
    """Forty different requests, of which none gives a model a value that an author's example has, but for words of enums."""
    assert len(set(REQUESTS)) == 40
    assert len(TOOLS) == 6
    for name, tool in TOOLS.items():
        assert tool.spec.payload.example
        for request in REQUESTS:
            fields = from_examples(name, tool.spec.payload.example, [], [request])
            assert fields != [], (name, request)


def test_a_copied_value_is_one_that_nobody_said() -> None:
    """A value of an example counts as copied unless the request or an executed call has it; one of an enum never does."""
    bad = refused({"order_id": "12", "amount": 4.5, "reason": "damaged"})
    assert from_examples(REFUND, EXAMPLE, [bad], ["Refund everything of order 12"]) == ["order_id", "amount"]
    assert from_examples(REFUND, EXAMPLE, [bad], ["Refund 12.5 of SO-10023"]) == []
    assert from_examples(REFUND, {**EXAMPLE, "order_id": "SO-10024"}, [bad], ["order 10023"]) == ["amount"]
    assert from_examples(REFUND, EXAMPLE, [], ["Refund 12,5", "order so-10023 is shipped: 12.5"]) == []


def test_a_run_is_judged_by_its_transcript() -> None:
    """The first executed call counts by the refusals before it, and a copy by whether its tool changes something."""

    def step(number: str, payload: dict, result: ToolResult) -> list[Message]:
        call = ToolRequest(name=REFUND, payload=payload, tool_call_id=number)
        answer = result.model_copy(update={"tool_call_id": number, "name": REFUND})
        return [
            Message.model_validate({"role": "assistant", "parts": [{"type": "tool_call", "tool_call_id": number, "name": REFUND, "raw": json.dumps(call.payload)}]}),
            Message.model_validate({"role": "tool", "parts": [{"type": "tool_result", "result": answer.model_dump(mode="json")}]}),
        ]  # fmt: skip

    asked = Message.model_validate(
        {"role": "user", "parts": [{"type": "text", "text": "Refund 3 of order 12, it is late"}]}
    )
    sent = {"order_id": "12", "amount": 3, "reason": "late"}
    ok = ToolResult(result="refunded")
    of_run = {"arm": "hints", "ended": "answered", "failed": False, "failed_tasks": 0, "seconds": 1.0}
    repaired = [
        asked,
        *step("1", sent, refused(sent)),
        *step("2", {**sent, "order_id": "SO-10023"}, ok),
    ]
    found = outcome_of(repaired, **of_run)
    assert (found.valid, found.executed, found.refused) == ("after 1 hint", 1, 1)
    assert (len(found.copied_by_writers), found.copied_by_readers) == (1, [])
    assert outcome_of(repaired[:3], **of_run).valid == "never"
    assert outcome_of(repaired[:1], **of_run).valid == "no call"


def test_the_endpoint_speaks_openais_chat_api() -> None:
    """A call of a small model is a tool call, and its conversation is told as the results and what people say after each of its messages."""
    made = completion({"calls": [{"name": "a", "arguments": {"n": 1}}], "text": ""}, 3)["choices"][0]
    assert made["finish_reason"] == "tool_calls"
    assert json.loads(made["message"]["tool_calls"][0]["function"]["arguments"]) == {"n": 1}
    assert completion({"calls": [], "text": "hello"}, 4)["choices"][0]["message"]["content"] == "hello"
    talk = [
        {"role": "system", "content": "desk"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": []},
        {"role": "tool", "content": "no"},
        {"role": "tool", "content": '{"done":"so"}'},
        {"role": "user", "content": [{"type": "text", "text": "note"}]},
    ]
    assert _inputs(talk) == ["hi", 'no\n[{"done":"so"}]\nnote']
