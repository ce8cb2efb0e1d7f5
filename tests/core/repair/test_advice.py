"""Advice: what a planner's turn adds to the hint of a refused call, from the run's other tools and earlier failures."""

from typing import Any, Literal

from sojourn import Message, ToolRequest, ToolResult, Toolset
from sojourn.core.payload.boundary import check_payload
from sojourn.core.repair.advice import MAX_SCHEMA, add_advice

orders, docs = Toolset("desk.orders"), Toolset("desk.docs")


@orders.tool(read_only=True)
async def search(status: Literal["open", "shipped", "returned"], limit: int = 10) -> str:
    """Search orders."""
    return f"{status} {limit}"


@orders.tool(read_only=True)
async def find(order_id: str) -> str:
    """Find an order."""
    return order_id


@orders.tool(examples=[{"order_id": "SO-10023", "amount": 12.5}])
async def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    return f"{order_id} {amount}"


@docs.tool(read_only=True)
async def read(path: str) -> str:
    """Read a document."""
    return path


TOOLS = [search, find, refund, read]
SPECS = [tool.spec for tool in TOOLS]


def transcript(*calls: tuple[Any, dict[str, Any]]) -> list[Message]:
    """The messages of a turn with one call a step, each answered by the boundary."""
    messages = [Message.user("Where is my order SO-10452?")]
    for number, (tool, payload) in enumerate(calls):
        call = ToolRequest(name=tool.id, payload=payload, tool_call_id=f"c{number}")
        answer = check_payload(tool.spec, tool.validator, call)
        done = ToolResult(name=call.name, tool_call_id=call.tool_call_id, result="done")
        messages += [
            Message.calls([call]),
            Message.results([answer if isinstance(answer, ToolResult) else done]),
        ]
    return messages


def last_hint(messages: list[Message], *, may_ask: bool = False) -> Any:
    [result] = add_advice(messages[-1].tool_results, messages, SPECS, may_ask=may_ask)
    return result.retry_hint


WRONG = (search, {"order_id": "SO-10452", "location": "LASERA"})
LACKING = (refund, {"order_id": "SO-10452"})


def test_an_unknown_field_of_another_tool_names_that_tool() -> None:
    """The tool that takes most of the call comes first, and the hint does not restrict to the wrong tool."""
    hint = last_hint(transcript(WRONG))
    assert hint.advice == (
        "`order_id` is an argument of desk.orders.find: call that, if it is what you mean. "
        "`order_id` is an argument of desk.orders.refund: call that, if it is what you mean."
    )
    assert not hint.restrict_to_tool
    misspelt = last_hint(transcript((search, {"status": "open", "lmit": 3})))
    assert (misspelt.advice, misspelt.restrict_to_tool) == (None, True)


def test_the_restriction_to_a_tool_ends_after_one_failure() -> None:
    """A second failure in a row of a tool leaves all tools on offer; a success of it begins anew."""
    assert last_hint(transcript(LACKING)).restrict_to_tool
    again = last_hint(transcript(LACKING, (refund, {"order_id": "SO-10452", "amount": "many"})))
    assert (again.restrict_to_tool, again.advice) == (False, None)
    between = last_hint(transcript(LACKING, (read, {"path": "a"}), LACKING))
    assert not between.restrict_to_tool
    after = last_hint(transcript(LACKING, (refund, {"order_id": "SO-1", "amount": 2}), LACKING))
    assert after.restrict_to_tool


def test_the_second_identical_refusal_says_something_new() -> None:
    """It has the schema, without examples; from the second on a person is asked, if the run may ask."""
    second = last_hint(transcript(LACKING, LACKING))
    assert second.advice.startswith(
        'desk.orders.refund was refused for the same fault again. The schema of its arguments: {"properties":{"order_id":'
    )
    assert second.advice.endswith("answer without it, and say what is lacking.")
    asking = last_hint(transcript(LACKING, LACKING), may_ask=True)
    assert asking.advice.endswith("ask the person: What should `amount` be?")
    third = last_hint(transcript(LACKING, LACKING, LACKING), may_ask=True)
    assert third.advice == "If you were not given what it needs, ask the person: What should `amount` be?"


def test_a_schema_in_an_advice_is_bounded_and_has_no_example() -> None:
    """A long schema is cut, and examples in it are left out, but not a field with that name."""
    fields = {f"field_{n}": {"type": "string", "examples": ["SO-10023"]} for n in range(200)}
    schema = {
        "type": "object",
        "properties": {"examples": {"type": "string"}, **fields},
        "required": ["examples"],
    }
    payload = refund.spec.payload.model_copy(update={"json_schema": schema})
    spec = refund.spec.model_copy(update={"payload": payload})
    messages = transcript(LACKING, LACKING)
    [result] = add_advice(messages[-1].tool_results, messages, [spec], may_ask=False)
    assert result.retry_hint is not None
    advice = result.retry_hint.advice or ""
    assert '"properties":{"examples":{"type":"string"},"field_0":{"type":"string"}' in advice
    assert "SO-10023" not in advice
    assert len(advice) < MAX_SCHEMA + 300


def test_other_results_are_unchanged() -> None:
    """Successes, failures of another kind, calls that may have taken effect, and tools that are not offered."""
    messages = transcript((find, {"order_id": "SO-1"}))
    assert add_advice(messages[-1].tool_results, messages, SPECS, may_ask=True) == messages[-1].tool_results
    messages = transcript(LACKING, LACKING)
    [unknown] = messages[-1].tool_results
    assert unknown.error is not None
    in_doubt = unknown.model_copy(
        update={"error": unknown.error.model_copy(update={"outcome_unknown": True})}
    )
    assert add_advice([in_doubt], messages, SPECS, may_ask=True) == [in_doubt]
    [alone] = add_advice([unknown], messages, [], may_ask=False)
    assert alone.retry_hint is not None
    assert "schema" not in (alone.retry_hint.advice or "")
