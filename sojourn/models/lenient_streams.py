"""Lenient reading of streams from servers that almost follow an API.

Each deviation has one possible meaning, and is read by it.

| what a server streams | read as |
|---|---|
| one JSON body, in answer to a request for a stream | its events |
| an event without data, `[DONE]` with blanks around it | nothing, the end |
| chat: an error that is no `error` object | an error |
| chat: a choice without `delta`, or with a `message`; `function_call`; further choices | its delta; a tool call; nothing |
| Anthropic: events without names, blocks without fields that the API has, `usage: null`, `[DONE]` | as the API has them |
| Anthropic: several blocks at one index; the same block again | as many blocks; one block |
| Anthropic: the arguments at the start of a block, and again in its deltas; as an object | the arguments once, as a text |
| Anthropic: `message_stop` after no stop reason | the end, with the stop reason `unreported` |
| Responses: a call without `call_id`; an item that is incomplete in a response that is completed | a call with its item's id; an incomplete response |

The SDKs decode Server-Sent Events by an object, and `LenientDecoder` takes its place.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from sojourn.models.finish_reasons import UNREPORTED
from sojourn.values.json_value import is_array, is_object

__all__ = ["AnthropicEvents", "ChatEvents", "LenientDecoder", "ResponsesEvents"]

Event = tuple[str | None, str]


class Events(Protocol):
    def read(self, name: str | None, data: str) -> Iterator[Event]: ...


class LenientDecoder:
    """A decoder of Server-Sent Events, like those of the SDKs."""

    def __init__(self, decoder: Any, events: Events) -> None:
        self._decoder = decoder
        self._events = events

    async def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for event in self._decoder.aiter_bytes(_as_stream(iterator)):
            for name, data in self._events.read(event.event, event.data):
                yield type(event)(event=name, data=data, id=event.id, retry=event.retry)


async def _as_stream(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a body as a stream. A JSON object becomes one event."""
    begun = b""
    async for piece in pieces:
        begun += piece
        if begun.strip():
            break
    if not begun.lstrip().startswith(b"{"):
        yield begun
        async for piece in pieces:
            yield piece
        return
    body = [begun, *[piece async for piece in pieces]]
    try:
        yield f"data: {json.dumps(json.loads(b''.join(body)))}\n\n".encode()
    except (ValueError, RecursionError):
        return  # no event at all, as of any body that is no stream


def _object(data: str) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if is_object(each)] if is_array(value) else []


# OpenAI's Chat Completions API.


class ChatEvents:
    def __init__(self) -> None:
        self.is_done = False
        self._index: Any = None

    def read(self, name: str | None, data: str) -> Iterator[Event]:
        data = data.strip()
        if data.startswith("[DONE]"):
            self.is_done = True
        if not data:
            return
        chunk = _object(data)
        if chunk and not chunk.get("error") and (name == "error" or chunk.get("object") == "error"):
            chunk, data = None, json.dumps({"error": chunk})
        if chunk is None or chunk.get("error") or not is_array(chunk.get("choices")):
            yield name, data
            return
        chunk["choices"] = [*self._choices(chunk["choices"])]
        yield name, json.dumps(chunk)

    def _choices(self, given: Any) -> Iterator[dict[str, Any]]:
        for choice in _objects(given):
            index = choice.get("index")
            self._index = index if self._index is None else self._index
            if index is not None and index != self._index:
                continue
            message = choice.pop("message", None)
            if not is_object(choice.get("delta")):
                self.is_done = self.is_done or is_object(message)  # a whole body
                choice["delta"] = message if is_object(message) else {}
            delta = choice["delta"]
            function = delta.pop("function_call", None)
            if is_object(function) and not delta.get("tool_calls"):
                delta["tool_calls"] = [{"index": 0, "type": "function", "function": function}]
            yield choice


# Anthropic's Messages API.


class AnthropicEvents:
    def __init__(self) -> None:
        self._blocks: dict[Any, tuple[int, Any]] = {}
        """The index and the id that the latest block of each given index has."""
        self._repeated: set[Any] = set()
        """The given indices whose block is sent again."""
        self._inputs: dict[Any, Any] = {}
        """Arguments that a block began with, and that no delta has given yet, by its index."""
        self._next = 0
        """The lowest index that no block has had."""
        self._has_reason = False
        self._output_tokens = 0

    def read(self, name: str | None, data: str) -> Iterator[Event]:
        event = _object(data)
        if event is None:
            if data.strip() and not data.strip().startswith("[DONE]"):
                yield name, data
            return
        kind = event.get("type") or name
        if not isinstance(kind, str):
            yield name, data
            return
        events = _of_message(event) if kind == "message" else [event]
        for each in events:
            for made in self._read({"type": kind, **each}):
                yield str(made["type"]), json.dumps(made)

    def _read(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        match event["type"]:
            case "message_start":
                yield {**event, "message": self._message(event.get("message"))}
            case "content_block_start":
                yield from self._start(event)
            case "content_block_delta":
                yield from self._delta(event)
            case "content_block_stop":
                yield from self._stop(event)
            case "message_delta":
                yield from self._given_inputs()
                yield self._end(event)
            case "message_stop":
                yield from self._given_inputs()
                if not self._has_reason:
                    yield self._end({"type": "message_delta", "delta": {"stop_reason": UNREPORTED}})
                yield event
            case _:
                yield event

    def _message(self, given: Any) -> Any:
        message = given if is_object(given) else dict[str, Any]()
        usage = _usage(message.get("usage"))
        self._output_tokens = usage["output_tokens"]
        fields = {"id": "", "type": "message", "role": "assistant", "model": ""}
        filled = {name: message.get(name) or value for name, value in fields.items()}
        return {
            "stop_reason": None,
            "stop_sequence": None,
            **message,
            **filled,
            "content": [],
            "usage": usage,
        }

    def _start(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        given, found = event.get("index"), event.get("content_block")
        if not is_object(found):
            return
        block = found
        before, id = self._blocks.get(given), block.get("id")
        if before is not None and id and before[1] == id:
            self._repeated.add(given)
            return
        is_new = isinstance(given, int) and given >= self._next
        index = given if isinstance(given, int) and is_new else self._next
        self._next = index + 1
        self._blocks[given] = index, id
        if block.get("type") == "tool_use":
            if block.get("input"):
                self._inputs[index] = block["input"]
            block = {**block, "input": dict[str, Any]()}
        elif block.get("type") == "thinking":
            block = {
                **block,
                "thinking": block.get("thinking") or "",
                "signature": block.get("signature") or "",
            }
        yield {**event, "index": index, "content_block": block}

    def _delta(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        given, delta = event.get("index"), event.get("delta")
        if given in self._repeated or not is_object(delta):
            return
        index = self._blocks.get(given, (given, None))[0]
        if delta.get("type") == "input_json_delta":
            piece = delta.get("partial_json")
            text = piece if isinstance(piece, str) else "" if piece is None else json.dumps(piece)
            if text.strip():
                self._inputs.pop(index, None)
            delta = {**delta, "partial_json": text}
        yield {**event, "index": index, "delta": delta}

    def _stop(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        given = event.get("index")
        if given in self._repeated:
            self._repeated.discard(given)
            return
        index = self._blocks.get(given, (given, None))[0]
        yield from self._given_inputs(index)
        yield {**event, "index": index}

    def _given_inputs(self, index: Any = None) -> Iterator[dict[str, Any]]:
        """Yield the arguments that a block, or each block, began with as deltas."""
        for each in [*self._inputs] if index is None else [index] if index in self._inputs else []:
            value = self._inputs.pop(each)
            text = value if isinstance(value, str) else json.dumps(value)
            delta = {"type": "input_json_delta", "partial_json": text}
            yield {"type": "content_block_delta", "index": each, "delta": delta}

    def _end(self, event: dict[str, Any]) -> dict[str, Any]:
        given: Any = event.get("delta")
        delta = given if is_object(given) else dict[str, Any]()
        self._has_reason = self._has_reason or bool(delta.get("stop_reason"))
        usage = event.get("usage")
        used = {"output_tokens": self._output_tokens, **(usage if is_object(usage) else {})}
        return {**event, "delta": {"stop_reason": None, "stop_sequence": None, **delta}, "usage": used}


def _usage(given: Any) -> dict[str, Any]:
    usage = given if is_object(given) else dict[str, Any]()
    return {
        **usage,
        "input_tokens": usage.get("input_tokens") or 0,
        "output_tokens": usage.get("output_tokens") or 0,
    }


def _of_message(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": message}
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    delta = {name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield {"type": "message_delta", "delta": delta, "usage": _usage(message.get("usage"))}
    yield {"type": "message_stop"}


# OpenAI's Responses API.


class ResponsesEvents:
    def __init__(self) -> None:
        self._is_incomplete = False

    def read(self, name: str | None, data: str) -> Iterator[Event]:
        event = _object(data)
        if event is None:
            if data.strip():
                yield name, data.strip()
            return
        item, response = event.get("item"), event.get("response")
        if is_object(item) and item.get("type") == "function_call":
            item["call_id"] = item.get("call_id") or item.get("id")
            is_done = event.get("type") == "response.output_item.done"
            self._is_incomplete = self._is_incomplete or (is_done and item.get("status") == "incomplete")
        if is_object(response) and self._is_incomplete and response.get("status") == "completed":
            response["status"] = "incomplete"
        yield name, json.dumps(event)
