"""Responses of servers that speak OpenAI's chat API almost, whole and streamed."""

import json
from typing import Any

import pytest
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models.test import TestModel

from sojourn.models.guarded import guard
from sojourn.models.lenient import lenient
from sojourn.testing.providers import Body, ProviderServer

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def whole(*calls: dict[str, Any], **fields: Any) -> Body:
    """A response with these calls."""
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {
        "id": "r",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }
    return Body(content=json.dumps({**body, **fields}))


def stream(*pieces: dict[str, Any] | list[dict[str, Any]]) -> Body:
    """A stream with these pieces of calls, one or several a chunk."""
    shared = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"tool_calls": piece if isinstance(piece, list) else [piece]}, None) for piece in pieces
    ]
    chunks = [
        json.dumps({**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        for delta, finish in [*deltas, ({}, "tool_calls")]
    ]
    text = "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"])
    return Body(content=text, content_type="text/event-stream")


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "find", "arguments": arguments}, **fields}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (call(None), "{}"),
        ({"id": "c1", "type": "function", "function": {"name": "find"}}, "{}"),
        (call({"q": "a"}), '{"q": "a"}'),
        (call('{"q": 1}', type=None), '{"q": 1}'),
        (call('{"q": 1}', id=None), '{"q": 1}'),
        (call("not JSON"), "not JSON"),
    ],
    ids=["null", "none", "an object", "no type", "no id", "as it is"],
)
async def test_a_call_of_almost_the_right_shape_is_read(
    standin: ProviderServer, ask, given: Any, read: str
) -> None:
    """What a server can only mean is read, and everything else stays as the model wrote it."""
    standin.script = [whole(given)]
    response = await ask(guard(standin.model("openai-chat")))
    [made] = response.tool_calls
    assert (made.tool_name, made.args) == ("find", read)
    assert made.tool_call_id


async def test_a_response_without_what_nobody_needs_is_read(standin: ProviderServer, ask) -> None:
    """A response needs no id, model or object."""
    standin.script = [whole(call("{}"), id=None, model=None, object=None, created=None)]
    assert len((await ask(guard(standin.model("openai-chat")))).tool_calls) == 1


async def test_a_response_without_choices_cannot_be_read(standin: ProviderServer, ask) -> None:
    """It is no error of code, but an answer that cannot be read."""
    standin.script = [whole(choices=[])]
    with pytest.raises(UnexpectedModelBehavior, match="without choices"):
        await ask(guard(standin.model("openai-chat")))


def named(id: str, name: str, arguments: str = "", index: int | None = 0) -> dict[str, Any]:
    return {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def piece(arguments: Any, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}, **fields}


TWO = [("find", '{"q":"a"}'), ("read", '{"q":"b"}')]
STREAMS = {
    "one index for all": stream(named("c1", "find", '{"q":"a"}'), named("c2", "read", '{"q":"b"}')),
    "one index, in one chunk": stream([named("c1", "find", '{"q":"a"}'), named("c2", "read", '{"q":"b"}')]),
    "one index, in pieces": stream(
        named("c1", "find"), piece('{"q":'), piece('"a"}'), named("c2", "read"), piece('{"q":"b"}')
    ),
    "one index, interleaved by id": stream(
        named("c1", "find"), named("c2", "read"), piece('{"q":"a"}', id="c1"), piece('{"q":"b"}', id="c2")
    ),
    "no index": stream(named("c1", "find", '{"q":"a"}', None), named("c2", "read", '{"q":"b"}', None)),
    "as the API has it": stream(
        named("c1", "find"), piece('{"q":"a"}'), named("c2", "read", index=1), piece('{"q":"b"}', 1)
    ),
    "the id in each piece": stream(
        named("c1", "find"),
        piece('{"q":"a"}', id="c1"),
        named("c2", "read", index=1),
        piece('{"q":"b"}', 1, id="c2"),
    ),
    "arguments as an object": stream(
        {**named("c1", "find"), "function": {"name": "find", "arguments": {"q": "a"}}},
        named("c2", "read", '{"q":"b"}'),
    ),
}


@pytest.mark.parametrize("shape", STREAMS)
async def test_two_calls_of_a_stream_are_two(standin: ProviderServer, ask, shape: str) -> None:
    """Calls that share an index are told apart by their ids and names, and each has its own arguments."""
    standin.script = [STREAMS[shape]]
    response = await ask(guard(standin.model("openai-chat")), streamed=True)
    made = [(each.tool_name, str(each.args).replace(" ", "")) for each in response.tool_calls]
    assert made == TWO


async def test_a_name_in_pieces_is_one_call(standin: ProviderServer, ask) -> None:
    """A call whose name comes in pieces, with its id in each, is one call."""
    standin.script = [stream(named("c1", "fi"), named("c1", "nd"), piece("{}"))]
    response = await ask(guard(standin.model("openai-chat")), streamed=True)
    assert [(each.tool_name, each.args) for each in response.tool_calls] == [("find", "{}")]


def test_other_models_stay_as_they_are(standin: ProviderServer) -> None:
    """Only a model of OpenAI's chat API is read leniently."""
    other, model = TestModel(), standin.model("openai-chat")
    assert lenient(other) is other
    assert isinstance(lenient(model), type(model))
    assert type(lenient(lenient(model))).__mro__[1] is type(lenient(model))
