"""Tools of foreign servers, sent to providers that refuse what the real ones refuse: no list of tools fails a run."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel
from structlog.testing import capture_logs
from temporalio.exceptions import ApplicationError

from sojourn import (
    Message,
    ModelPlanner,
    PlanInput,
    PlanResumeInput,
    RetryHint,
    RunContext,
    ToolError,
    ToolResult,
)
from sojourn.contracts.ids import ToolId
from sojourn.contracts.message import ImagePart
from sojourn.contracts.plan import Finalize
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec
from sojourn.errors import DefinitionError
from sojourn.models import Price
from sojourn.testing.providers import (
    Body,
    Completion,
    Protocol,
    ProviderServer,
    ReportedUsage,
    Text,
    ToolCall,
    calls,
    says,
)
from sojourn.testing.providers.wire import WIRES

ANY = TypeSpec(name="any", json_schema={})

POISON = "cG9pc29u"

CIRCLE = {"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]}
SQUARE = {"properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]}

ODD: dict[str, dict[str, Any]] = {
    "one_of": {"type": "object", "oneOf": [CIRCLE, SQUARE]},
    "any_of": {"type": "object", "anyOf": [CIRCLE, SQUARE]},
    "all_of": {"type": "object", "allOf": [CIRCLE]},
    "no": {"type": "object", "properties": {"a": {}}, "not": {"required": ["a", "b"]}},
    "keys": {
        "type": "object",
        "properties": {"$top": {"type": "integer"}, "filter[id]": {}, "x" * 65: {}, "名前": {}, "": {}},
    },
    "reference": {
        "type": "object",
        "$ref": "#/$defs/N",
        "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}},
    },
    "untyped": {"properties": {"a": {}}},
    "array": {"type": "object", "properties": {"values": {"type": "array"}}, "required": ["values"]},
    "tuple": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    },
    "bounds": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
    },
    "required": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
    "closed": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


def tool(name: str, schema: dict[str, Any] | None = None, description: str = "Do it.") -> ToolSpec:
    return ToolSpec(
        id=ToolId(f"far.server.{name}"),
        title=name,
        description=description,
        payload=TypeSpec(name=name, json_schema=schema or {"type": "object"}),
        result=ANY,
        kind="mcp",
    )


def turn(tools: Sequence[ToolSpec], kind: type[PlanInput] = PlanInput, **fields: Any) -> PlanInput:
    run = RunContext(run_id=fields.pop("run_id", "r"), agent_id="test.agent", interrupts_allowed=True)
    return kind(**{"run": run, "messages": [Message.user("go")], "tools": list(tools), **fields})


def planner(standin: ProviderServer, protocol: Protocol, **options: Any) -> ModelPlanner:
    return ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000}, **options)


@pytest.mark.parametrize("protocol", WIRES)
async def test_no_schema_is_refused(standin: ProviderServer, protocol: Protocol) -> None:
    """Unions, conditions, references, odd keys, arrays without items and old drafts are offered in a form that providers take."""
    standin.script = [says("Done.")]
    plan = await planner(standin, protocol).plan_start(
        turn([*(tool(name, schema) for name, schema in ODD.items()), tool("long", description="d" * 4_000)])
    )
    assert plan.final_response.text == "Done."
    assert standin.refusals == []
    offered = [each.name for each in standin.requests[0].tools]
    assert len(offered) == len(ODD) + 2
    assert offered == [*sorted(offered[:-1]), "ask_user"]


@pytest.mark.parametrize("protocol", WIRES)
async def test_the_model_s_keys_are_the_tool_s_in_the_run(
    standin: ProviderServer, protocol: Protocol
) -> None:
    """A call has the tool's own keys; the transcript and hints that the model reads have the names that it knows."""
    spec = tool("keys", ODD["keys"])
    standin.script = [
        calls(ToolCall(id="c1", name="far__server__keys", arguments='{"top": "5", "filter_id": 7}')),
        says("Done."),
    ]
    model = planner(standin, protocol)
    plan = await model.plan_start(turn([spec]))
    (call,) = plan.tool_calls
    assert json.loads(call.raw or json.dumps(call.payload)) == {"$top": "5", "filter[id]": 7}
    hint = RetryHint(
        reason="invalid_arguments",
        tool=spec.id,
        message="`$top` must be an integer",
        example_input={"$top": 5},
    )
    result = ToolResult(
        name=spec.id, tool_call_id="c1", error=ToolError(message="`$top` is wrong"), retry_hint=hint
    )
    messages = [Message.user("go"), plan.message, Message.results([result])]
    await model.plan_resume(
        turn([spec], PlanResumeInput, messages=messages, tool_results=[result], hints=[hint])
    )
    second = standin.requests[1]
    assert json.loads(second.tool_calls[0].arguments) == {"top": "5", "filter_id": 7}
    assert "`top` must be an integer" in second.tool_results[0].text
    assert "$top" not in second.tool_results[0].text


class Circle(BaseModel):
    r: int


class Square(BaseModel):
    a: int
    top: int = Field(alias="$top")


async def test_a_typed_answer_may_be_a_union_with_odd_keys(
    standin: ProviderServer, protocol: Protocol
) -> None:
    """The type of an answer may be any, and the answer has the type's own keys."""
    standin.script = [
        calls(ToolCall(name="final_result", arguments='{"a": 1, "top": "x"}')),
        calls(ToolCall(name="final_result", arguments='{"a": 1, "top": 2}')),
        calls(ToolCall(name="final_result", arguments='{"answer": {"r": 1}}')),
    ]
    plan = await planner(standin, protocol, result=Square).plan_start(turn([]))
    assert plan.result == {"a": 1, "$top": 2}
    assert "`top` must be an integer" in standin.requests[1].tool_results[0].text
    standin.script = [says('{"a": 1, "top": 2}'), *list(standin.script)[2:]]
    assert (await planner(standin, protocol, result=Square).plan_start(turn([]))).result == plan.result
    either = await planner(standin, protocol, result=RootModel[Circle | Square]).plan_start(turn([]))
    assert either.result == {"r": 1}


# Many tools.


def many(count: int) -> list[ToolSpec]:
    return [tool(f"tool_{number}", description=f"Count to {number}.") for number in range(count)]


MAIL = tool(
    "write_mail", {"type": "object", "properties": {"$to": {"type": "string"}}}, "Send a letter to someone."
)


@pytest.mark.parametrize("protocol", WIRES)
async def test_more_tools_than_a_provider_takes_are_found_by_search(
    standin: ProviderServer, protocol: Protocol
) -> None:
    """A model searches, calls what it found, and reads its calls again as it made them; the front of the requests stays the same."""
    standin.script = [
        calls(ToolCall(id="s1", name="search_tools", arguments='{"query": "send a letter"}')),
        calls(
            ToolCall(
                id="c1",
                name="call_tool",
                arguments='{"name": "far__server__write_mail", "arguments": {"to": "ann"}}',
            )
        ),
        says("Done."),
    ]
    tools = [*many(150), MAIL]
    model = planner(standin, protocol, max_tools=20)
    plan = await model.plan_start(turn(tools))
    (call,) = plan.tool_calls
    assert (call.name, json.loads(call.raw or json.dumps(call.payload))) == (
        "far.server.write_mail",
        {"$to": "ann"},
    )
    found = standin.requests[1].tool_results[0].text
    assert found.startswith("name: far__server__write_mail\nSend a letter to someone.\n")
    assert '"to"' in found
    assert plan.usage.input_tokens > 0
    assert plan.notes == ["the model searched for tools: 'send a letter' found far.server.write_mail"]
    result = ToolResult(name=call.name, tool_call_id="c1", result="sent")
    messages = [Message.user("go"), plan.message, Message.results([result])]
    await model.plan_resume(turn(tools, PlanResumeInput, messages=messages, tool_results=[result]))
    first, _, last = standin.requests
    assert len(first.tools) == 19
    assert last.tool_calls[-1].name == "call_tool"
    assert json.loads(last.tool_calls[-1].arguments) == {
        "name": "far__server__write_mail",
        "arguments": {"to": "ann"},
    }
    assert first.tools == last.tools
    assert standin.refusals == []


async def test_searches_of_one_plan_are_bounded(standin: ProviderServer) -> None:
    """A model that only searches is told that there are no more searches, and then its search is a call like any other."""
    standin.script = lambda request: calls(
        ToolCall(name="search_tools", arguments='{"query": "nothing such"}')
    )
    plan = await planner(standin, "openai-chat").plan_start(turn(many(150)))
    assert [call.name for call in plan.tool_calls] == ["search_tools"]
    texts = [result.text for result in standin.requests[-1].tool_results]
    assert len(standin.requests) == 7
    assert texts[0].startswith("No further tool fits. There are tools of far.server (")
    assert texts[-1].startswith("No more searches in this step")
    assert plan.notes == ["the model searched for tools: 'nothing such' found nothing"] * 5


async def test_a_search_beside_other_calls_is_left_out(standin: ProviderServer, protocol: Protocol) -> None:
    """Calls beside a search are made, and the model can search afterwards."""
    search = ToolCall(id="s1", name="search_tools", arguments='{"query": "count"}')
    standin.script = [calls(search, ToolCall(id="c1", name="far__server__tool_1", arguments="{}"))]
    plan = await planner(standin, protocol, max_tools=10).plan_start(turn(many(150)))
    assert [call.name for call in plan.tool_calls] == ["far.server.tool_1"]
    assert [call.name for call in plan.message.tool_calls] == ["far.server.tool_1"]


async def test_a_tool_that_is_not_defined_can_be_called_by_its_name(standin: ProviderServer) -> None:
    """A model that calls a tool which it has to search for, without a search, calls it."""
    standin.script = [calls(ToolCall(name="far__server__tool_99", arguments="{}"))]
    plan = await planner(standin, "openai-chat", max_tools=10).plan_start(turn(many(150)))
    assert [call.name for call in plan.tool_calls] == ["far.server.tool_99"]


async def test_a_call_of_call_tool_that_names_no_tool_is_corrected(
    standin: ProviderServer, protocol: Protocol
) -> None:
    """A search by `call_tool` is a search; a call without a tool's name is answered with what to send, before any other call is made."""
    search = '{"name": "search_tools", "arguments": {"query": "count"}}'
    standin.script = [
        calls(ToolCall(id="s1", name="call_tool", arguments=search)),
        calls(
            ToolCall(id="c1", name="call_tool", arguments='{"arguments": {}}'),
            ToolCall(id="c2", name="far__server__tool_1", arguments="{}"),
        ),
        calls(
            ToolCall(id="c4", name="call_tool", arguments='{"tool": "far__server__tool_99", "arguments": {}}')
        ),
    ]
    plan = await planner(standin, protocol, max_tools=10).plan_start(turn(many(150)))
    assert [call.name for call in plan.tool_calls] == ["far.server.tool_99"]
    found, *_ = standin.requests[1].tool_results
    assert found.text.startswith("name: far__server__tool_")
    wrong, other = standin.requests[2].tool_results[-2:]
    assert "`call_tool` was not given the name of a tool. It takes" in wrong.text
    assert "not executed" in other.text
    assert standin.refusals == []


async def test_a_call_of_call_tool_without_arguments_is_corrected(standin: ProviderServer) -> None:
    """A tool that is named alone is not run without arguments: that may be more than was meant."""
    standin.script = [
        calls(ToolCall(name="call_tool", arguments='{"name": "far__server__tool_99"}')),
        calls(ToolCall(name="call_tool", arguments='{"name": "far__server__tool_99", "arguments": {}}')),
    ]
    plan = await planner(standin, "openai-chat", max_tools=10).plan_start(turn(many(150)))
    assert [call.name for call in plan.tool_calls] == ["far.server.tool_99"]
    (wrong,) = standin.requests[1].tool_results
    assert "`call_tool` was not given the arguments of the tool, `{}` if there are none." in wrong.text


# The front of the requests.


async def test_the_front_stays_the_same_to_the_last_turn(standin: ProviderServer, protocol: Protocol) -> None:
    """The definitions are the same bytes after a call that has to be corrected, in another order of tools, and in the last turn."""
    standin.script = [
        calls(ToolCall(id="c1", name="far__server__tool_1", arguments="{}")),
        says("1"),
        says("2"),
    ]
    model, tools = planner(standin, protocol), many(5)
    plan = await model.plan_start(turn(tools))
    hint = RetryHint(
        reason="invalid_arguments", tool="far.server.tool_1", restrict_to_tool=True, message="no"
    )
    result = ToolResult(name=hint.tool, tool_call_id="c1", error=ToolError(message="no"), retry_hint=hint)
    later: dict[str, Any] = {
        "messages": [Message.user("go"), plan.message, Message.results([result])],
        "tool_results": [result],
        "hints": [hint],
    }
    await model.plan_resume(turn(tools[::-1], PlanResumeInput, **later))
    last = Finalize(reason="max_tool_calls", message="Answer now.")
    await model.plan_resume(turn([], PlanResumeInput, finalize=last, **later))
    first, *rest = [json.dumps(request.body["tools"]) for request in standin.requests]
    assert [each == first for each in rest] == [True, True]


async def test_anthropic_is_asked_to_cache(standin: ProviderServer) -> None:
    """The definitions, the instructions and the last message have a mark, unless the author's settings say otherwise."""
    standin.script = [says("1"), says("2"), says("3")]
    await planner(standin, "anthropic", instructions="Be brief.").plan_start(turn(many(2)))
    own = {"max_tokens": 1000, "anthropic_cache_instructions": "1h"}
    model = standin.model("anthropic")
    await ModelPlanner(model, instructions="Be brief.", settings=own).plan_start(turn(many(2)))
    await ModelPlanner(model, settings={"max_tokens": 1000, "cache": False}).plan_start(turn(many(2)))
    bodies = [request.body for request in standin.requests]
    assert [each["tools"][-1].get("cache_control") for each in bodies] == [
        {"type": "ephemeral", "ttl": "5m"},
        None,
        None,
    ]
    assert [each["system"][-1].get("cache_control", {}).get("ttl") for each in bodies[:2]] == ["5m", "1h"]
    assert json.dumps(bodies[0]["messages"]).count("cache_control") == 1
    assert "cache_control" not in json.dumps(bodies[1]["messages"]) + json.dumps(bodies[2])


async def test_cache_writes_are_counted_and_cost(standin: ProviderServer) -> None:
    """What was written to a cache is part of the usage and of its cost, at the provider's higher price."""
    spent = [ReportedUsage(input=1_000, output=1), ReportedUsage(input=1_000, output=1, written=900)]
    standin.script = [Completion(parts=[Text(text="Done.")], usage=each) for each in spent]
    plain, written = [(await planner(standin, "anthropic").plan_start(turn([]))).usage for _ in spent]
    assert (written.input_tokens, written.cache_write_tokens, written.cached_tokens) == (1_000, 900, 0)
    assert (plain.cache_write_tokens, plain.cost < written.cost) == (0, True)


async def test_a_price_of_the_app_counts(standin: ProviderServer) -> None:
    """The usage of a plan has the cost by the price that the planner was given, also for a model that nobody prices."""
    standin.script = [
        Completion(parts=[Text(text="Done.")], usage=ReportedUsage(input=1_000_000, output=100_000))
    ]
    priced = planner(standin, "openai-chat", price=Price(input=2, output=10))
    assert (await priced.plan_start(turn([]))).usage.cost == pytest.approx(3.0)


# The net.


def refusal(message: str) -> Body:
    return Body(
        status=400, content=json.dumps({"error": {"type": "invalid_request_error", "message": message}})
    )


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for function 'far__server__tool_1': In context=(), 'x' is not permitted.",
        "tools.1.custom.input_schema: something new",
        "Invalid 'tools[1].function.parameters': something new",
        "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[a].items: missing field.",
        "Unknown name 'x' at 'tools[1].functionDeclarations[0].parameters.properties[0].value'",
    ],
)
async def test_a_refused_tool_is_withheld(
    standin: ProviderServer, protocol: Protocol, streamed: bool, message: str
) -> None:
    """If a provider refuses a request for one tool, the request is made again without it, and so are later ones."""
    standin.script = [refusal(message), says("Done."), says("Done."), says("Done.")]
    model = planner(standin, protocol)
    with capture_logs() as logs:
        plan = await model.plan_start(turn(many(3)))
    assert plan.final_response.text == "Done."
    (note,) = plan.notes
    assert note.startswith(
        "withheld: the model's provider refuses the tool far.server.tool_1, which is not offered to it: "
    )
    assert message[:20] in note
    assert "Change its schema, description or name as these words say" in note
    assert [(log["event"], log["tools"]) for log in logs if log["event"] == "tool_withheld"] == [
        ("tool_withheld", ["far__server__tool_1"])
    ]
    again = await model.plan_start(turn(many(3)))
    other = await model.plan_start(turn(many(3), run_id="other"))
    assert (again.notes, other.notes) == ([], [note])
    left = [[each.name[-1] for each in request.tools[:-1]] for request in standin.requests]
    assert left == [["0", "1", "2"], ["0", "2"], ["0", "2"], ["0", "2"]]


async def test_refusals_are_bounded(standin: ProviderServer) -> None:
    """A provider that refuses one tool after the other ends the plan, with its own words and what to do."""
    standin.script = lambda request: refusal(f"Invalid schema for function '{request.tools[0].name}': no.")
    with pytest.raises(ApplicationError) as caught:
        await planner(standin, "openai-chat").plan_start(turn(many(20)))
    assert len(standin.requests) == 11
    assert caught.value.type == "ModelRejected"
    assert "Invalid schema for function 'far__server__tool_" in caught.value.message
    assert "127.0.0.1:" in caught.value.message
    assert "leave the tool" in caught.value.message


async def test_a_tool_counts_as_refused_only_if_the_rest_is_taken(standin: ProviderServer) -> None:
    """A refusal that goes on without the tool, or that is of a message, withholds no tool."""
    named = "Invalid schema for function 'far__server__tool_1': no."
    standin.script = [refusal(named), refusal("No such template."), says("Done.")]
    model = planner(standin, "openai-chat")
    with pytest.raises(ApplicationError, match="No such template"):
        await model.plan_start(turn(many(3)))
    await model.plan_start(turn(many(3)))
    standin.script = [refusal("Invalid 'messages[3].tool_calls': far__server__tool_1 was not answered.")]
    with pytest.raises(ApplicationError, match="was not answered"):
        await model.plan_start(turn(many(3)))
    assert [len(request.tools) for request in standin.requests] == [4, 3, 4, 4]


async def test_a_tool_that_a_refusal_of_something_else_names_is_not_withheld(standin: ProviderServer) -> None:
    """A refused picture is left out, and its tool stays: in this plan and in others."""
    standin.script = lambda request: (
        refusal("Could not process image: far__server__tool_1 has made it.")
        if POISON in json.dumps(request.body)
        else says("Done.")
    )
    model = planner(standin, "anthropic")
    picture = ImagePart(type="image", media_type="image/png", data=POISON)
    shown = [Message(role="user", parts=[picture])]
    plan = await model.plan_start(turn(many(3), messages=shown))
    await model.plan_start(turn(many(3), run_id="other"))
    assert [note.partition(":")[0] for note in plan.notes] == ["set aside"]
    assert [len(request.tools) for request in standin.requests] == [4, 3, 4, 4]


@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'tools': array too long. Expected an array with maximum length 20, but got an array with length 41 instead.",
        "'tools' : maximum number of items is 20",
        "tools: List should have at most 20 items after validation, not 41",
    ],
)
async def test_a_provider_that_takes_fewer_tools_gets_fewer(standin: ProviderServer, message: str) -> None:
    """If a provider says how many tools it takes, the request is made again with as many, and so are later ones."""
    standin.script = [refusal(message), says("Done."), says("Done.")]
    model = planner(standin, "openai-chat")
    plan = await model.plan_start(turn(many(40)))
    limited = "the model's provider takes at most 20 tools; the model finds the others by search"
    assert (plan.final_response.text, plan.notes) == ("Done.", [limited])
    await model.plan_start(turn(many(40)))
    assert [len(request.tools) for request in standin.requests] == [41, 19, 19]  # with `final_result` 20


@pytest.mark.parametrize("most", range(1, 8))
async def test_a_provider_that_takes_very_few_tools_gets_no_more(standin: ProviderServer, most: int) -> None:
    """Any number works: the question goes first, then the search, and the own tools come before those of servers."""
    said = f"Invalid 'tools': array too long. Expected an array with maximum length {most}."

    standin.script = lambda request: refusal(said) if len(request.tools) > most else says("Done.")
    model = ModelPlanner(standin.model("openai-chat"))
    plan = await model.plan_start(turn(many(9)))
    assert plan.final_response.text == "Done."
    names = [tool.name for tool in standin.requests[-1].tools]
    assert 0 < len(names) <= most
    assert ("search_tools" in names) == (most >= 2)
    by_search = "the model finds the others by search" if most >= 2 else "the others are not offered"
    assert plan.notes == [f"the model's provider takes at most {most} tools; {by_search}"]
    typed = ModelPlanner(standin.model("openai-chat"), result=int)
    standin.script = lambda request: (
        refusal(said)
        if len(request.tools) > most
        else calls(ToolCall(name="final_result", arguments='{"answer": 3}'))
    )
    assert (await typed.plan_start(turn(many(9)))).result == 3


async def test_a_small_number_of_something_else_limits_no_tools(standin: ProviderServer) -> None:
    """Only words about how many tools there are lower their number to very few."""
    standin.script = [refusal("Tool calls are limited: at most 1 of them may be parallel.")]
    with pytest.raises(ApplicationError):
        await planner(standin, "openai-chat").plan_start(turn(many(3)))
    assert len(standin.requests) == 1


@pytest.mark.parametrize("max_tools", [0, 7, "20", -1])
def test_a_number_of_tools_is_checked_at_the_definition(max_tools: Any) -> None:
    """`max_tools` leaves room for Sojourn's own tools."""
    with pytest.raises(DefinitionError, match="at least 8"):
        ModelPlanner("openai:gpt-5", max_tools=max_tools)


async def test_a_refusal_that_names_no_tool_is_not_asked_again(
    standin: ProviderServer, protocol: Protocol
) -> None:
    """A refusal of anything else fails the plan at once."""
    standin.script = [refusal("Unsupported value: 'temperature' does not support 0.2.")]
    with pytest.raises(ApplicationError) as caught:
        await planner(standin, protocol).plan_start(turn(many(3)))
    assert "'temperature' does not support 0.2" in caught.value.message


async def test_a_typed_last_turn_can_only_answer(standin: ProviderServer, protocol: Protocol) -> None:
    """In the last turn a model that answers by type has to, though the tools are still defined."""
    standin.script = [calls(ToolCall(name="final_result", arguments='{"r": 1}')) for _ in range(2)]
    model = planner(standin, protocol, result=Circle)
    await model.plan_start(turn(many(2)))
    last = Finalize(reason="max_tool_calls", message="Answer now.")
    assert (await model.plan_resume(turn([], PlanResumeInput, finalize=last))).result == {"r": 1}
    first, second = standin.requests
    assert first.tools == second.tools
    assert "final_result" in json.dumps(second.tool_choice)
