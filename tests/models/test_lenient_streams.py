"""Streams of servers that speak a provider's API almost: what their events are read as."""

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn.models.finish_reasons import UNREPORTED
from sojourn.models.lenient import _Places
from sojourn.models.lenient_streams import AnthropicEvents, ChatEvents, LenientDecoder, ResponsesEvents


def read(events: Any, *given: Any, name: str | None = None) -> list[dict[str, Any]]:
    """What events are read as, as JSON."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in given]
    return [json.loads(data) for text in texts for _, data in events.read(name, text)]


# OpenAI's Chat Completions API.


CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"}}


def chunk(**choice: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}


@pytest.mark.parametrize(
    ("given", "delta"),
    [
        ({"delta": {"content": "Hi"}}, {"content": "Hi"}),
        ({"finish_reason": "stop"}, {}),
        ({"delta": None}, {}),
        ({"message": {"tool_calls": [CALL]}}, {"tool_calls": [CALL]}),
        (
            {"delta": {"function_call": {"name": "pay", "arguments": "{}"}}},
            {
                "tool_calls": [
                    {"index": 0, "type": "function", "function": {"name": "pay", "arguments": "{}"}}
                ]
            },
        ),
    ],
    ids=["as the API has it", "no delta", "null", "a message", "the old field"],
)
def test_a_choice_has_a_delta(given: dict[str, Any], delta: dict[str, Any]) -> None:
    """What a choice has in place of its delta is read as one."""
    [made] = read(ChatEvents(), chunk(**given))
    assert made["choices"][0]["delta"] == delta


def test_one_choice_is_read() -> None:
    """A second choice is another answer, and its calls are none of this one."""
    events, other = ChatEvents(), {"index": 1, "delta": {"tool_calls": [CALL]}}
    both = {"choices": [{"index": 0, "delta": {"content": "Hi"}}, other]}
    assert [len(each["choices"]) for each in read(events, both, {"choices": [other]}, {"choices": []})] == [
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("last", "is_done"), [(["[DONE]"], True), ([" [DONE] "], True), ([chunk(message={})], True), ([], False)]
)
def test_a_stream_ends_in_order_by_its_last_event(last: list[Any], is_done: bool) -> None:
    """`[DONE]`, with blanks or without, and the end of a whole body; a connection that broke has none."""
    events = ChatEvents()
    for each in [chunk(delta={"content": "Hi"}), *last]:
        [*events.read(None, each if isinstance(each, str) else json.dumps(each))]
    assert events.is_done is is_done


@pytest.mark.parametrize(
    ("name", "given"),
    [
        (None, {"object": "error", "message": "boom"}),
        ("error", {"message": "boom"}),
        (None, {"error": {"message": "boom"}}),
    ],
)
def test_an_error_in_a_stream_is_one(name: str | None, given: dict[str, Any]) -> None:
    """In whatever form a server sends it: what came before is no answer."""
    [made] = read(ChatEvents(), given, name=name)
    assert made["error"]["message"] == "boom"


def test_events_without_data_are_none() -> None:
    """Data that is no JSON is left to the SDK."""
    assert [*ChatEvents().read(None, " ")] == []
    assert [*ChatEvents().read(None, "{broken")] == [(None, "{broken")]
    assert [*AnthropicEvents().read(None, "[DONE]")] == []
    assert [*ResponsesEvents().read(None, "")] == []


# The pieces of calls.


def piece(arguments: Any = None, name: str | None = None, id: str | None = None, index: Any = 0) -> Any:
    return SimpleNamespace(index=index, id=id, function=SimpleNamespace(name=name, arguments=arguments))


A, B = '{"n":1}', '{"n":2}'
PIECES = {
    "as the API has it": ([piece("", "pay", "a"), piece('{"n"'), piece(":1}")], [A]),
    "the id and the name in each piece": ([piece('{"n"', "pay", "a"), piece(":1}", "pay", "a")], [A]),
    "a new id in each piece": ([piece('{"n"', "pay", "a"), piece(":1}", "pay", "b")], [A]),
    "all so far in each piece": ([piece('{"n"', "pay", "a"), piece(A, "pay", "a")], [A]),
    "once more at the end": ([piece('{"n"', "pay", "a"), piece(":1}"), piece(A, "pay", "a")], [A]),
    "once more without its name": ([piece(A, "pay", "a"), piece(A, None, "a")], [A]),
    "once more without an id": ([piece(A, "pay"), piece(A, "pay")], [A]),
    "two at one index without ids": ([piece(A, "pay"), piece(B, "pay")], [A, B]),
    "two at one index with blank ids": ([piece(A, "pay", ""), piece(B, "pay", "")], [A, B]),
    "two at one index, begun together": (
        [
            piece('{"n"', "pay", "a"),
            piece('{"n"', "pay", "b"),
            piece(":1}", None, "a"),
            piece(":2}", None, "b"),
        ],
        [A, B],
    ),
    "the same id with other arguments": ([piece(A, "pay", "a"), piece(B, "pay", "a")], [A, B]),
    "no index": ([piece(A, "pay", "a", None), piece(B, "pay", "b", None)], [A, B]),
    "nested objects": ([piece('{"n":', "pay", "a"), piece('{"n":1}'), piece("}")], ['{"n":{"n":1}}']),
}


def test_pieces_come_to_the_calls_that_they_are_of(subtests: pytest.Subtests) -> None:
    """Each call has its name and its arguments once, however a server repeats them."""
    for shape, (given, arguments) in PIECES.items():
        with subtests.test(shape=shape):
            places, calls = _Places(), dict[Any, list[str]]()
            for each in given:
                places.put(each)
                call = calls.setdefault(each.index, ["", ""])
                call[0] += each.function.name or ""
                call[1] += each.function.arguments or ""
            assert list(calls.values()) == [["pay", each] for each in arguments]


# Anthropic's Messages API.


def start(index: int = 0, id: str = "t1", **block: Any) -> dict[str, Any]:
    made = {"type": "tool_use", "id": id, "name": "pay", "input": {}, **block}
    return {"type": "content_block_start", "index": index, "content_block": made}


def delta(text: Any, index: int = 0) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": "input_json_delta", "partial_json": text},
    }


def stop(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


BEGIN: dict[str, Any] = {
    "type": "message_start",
    "message": {"usage": {"input_tokens": 3, "output_tokens": 1}},
}
REASON = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
END = {"type": "message_stop"}
BLOCKS = {
    "as the API has it": ([start(), delta('{"n"'), delta(":1}"), stop()], {0: A}),
    "all at the start": ([start(input={"n": 1}), stop()], {0: '{"n": 1}'}),
    "all at the start, and no stop": ([start(input={"n": 1})], {0: '{"n": 1}'}),
    "at the start and in a delta": ([start(input={"n": 1}), delta(""), delta(A), stop()], {0: A}),
    "an object in a delta": ([start(), delta({"n": 1}), stop()], {0: '{"n": 1}'}),
    "the block again": ([start(), delta(A), stop(), start(), delta(A), stop()], {0: A}),
    "two blocks at one index": (
        [start(), delta(A), stop(), start(id="t2"), delta(B), stop(), start(id="t3"), delta(A), stop()],
        {0: A, 1: B, 2: A},
    ),
}


def test_blocks_have_their_arguments_once(subtests: pytest.Subtests) -> None:
    """Each block has an index of its own, and its arguments from its start or from its deltas."""
    for shape, (given, arguments) in BLOCKS.items():
        with subtests.test(shape=shape):
            found = dict[int, str]()
            for event in read(AnthropicEvents(), BEGIN, *given, REASON, END):
                if event["type"] == "content_block_start":
                    assert event["content_block"]["input"] == {}
                if event["type"] == "content_block_delta":
                    index = event["index"]
                    found[index] = found.get(index, "") + event["delta"]["partial_json"]
            assert found == arguments


def test_events_of_anthropic_have_names_and_usages() -> None:
    """pydantic-ai reads both, and some servers send neither."""
    events = AnthropicEvents()
    given: list[Any] = [
        {"type": "message_start", "message": {}},
        {"type": "message_delta", "delta": None, "usage": None},
    ]
    named = [each for event in given for each in events.read(None, json.dumps(event))]
    assert [name for name, _ in named] == ["message_start", "message_delta"]
    begun, ended = (json.loads(data) for _, data in named)
    assert begun["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert ended["usage"] == {"output_tokens": 0}


@pytest.mark.parametrize(
    ("before", "reasons"),
    [
        ([REASON], ["tool_use"]),
        ([], [UNREPORTED]),
        ([{"type": "message_delta", "delta": {}}], [None, UNREPORTED]),
    ],
)
def test_a_stream_that_ended_without_a_reason_has_one(before: list[Any], reasons: list[str | None]) -> None:
    """`message_stop` says that a stream ended in order; without it nothing is added."""
    made = read(AnthropicEvents(), BEGIN, *before, END)
    assert [each["delta"]["stop_reason"] for each in made if each["type"] == "message_delta"] == reasons
    left = read(AnthropicEvents(), BEGIN, *before)
    assert UNREPORTED not in json.dumps(left)


def test_a_whole_message_in_answer_to_a_request_for_a_stream_is_its_events() -> None:
    """A text as content is one block."""
    whole = {"type": "message", "content": "Hi", "stop_reason": "end_turn"}
    kinds = [each["type"] for each in read(AnthropicEvents(), whole)]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


# OpenAI's Responses API.


@pytest.mark.parametrize(("status", "comes_to"), [("completed", "completed"), ("incomplete", "incomplete")])
def test_an_incomplete_call_makes_an_incomplete_response(status: str, comes_to: str) -> None:
    """And a call without an id of its own has that of its item; other items stay as they are."""
    item = {"type": "function_call", "id": "fc_1", "status": status}
    done, end, other = read(
        ResponsesEvents(),
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"status": "completed"}},
        {"type": "response.output_item.done", "item": {"type": "function_call_output", "call_id": "c"}},
    )
    assert done["item"]["call_id"] == "fc_1"
    assert end["response"]["status"] == comes_to
    assert other["item"]["call_id"] == "c"


# Bodies.


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for each in given:
        yield each


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ([b"", b"\n", b'{"choices": [{"me', b'ssage": {}}]}\n'], 1),
        ([b'data: {"choices": []}\n\n', b"data: [DONE]\n\n"], 2),
        ([b'{"choices": [{'], 0),
        ([b"<html>"], 0),
        ([], 0),
    ],
    ids=["JSON", "events", "half of it", "a page", "nothing"],
)
async def test_a_json_body_is_one_event(body: list[bytes], count: int) -> None:
    """A server that does not stream answers with the whole body."""
    from openai._streaming import SSEDecoder

    decoder = LenientDecoder(SSEDecoder(), ChatEvents())
    assert len([each async for each in decoder.aiter_bytes(pieces(*body))]) == count
