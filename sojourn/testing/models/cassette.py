"""Cassette: a file of requests to a model and its responses, in pydantic-ai's JSON for messages.

    {"format": 2, "model": "openai:gpt-5-mini", "exchanges": [
      {"tools": [{"name": "clinic__visits__book", "description": "...", "parameters_json_schema": {...}}],
       "messages": [{"kind": "request", "instructions": "You book visits.", "parts": [...]}],
       "response": {"kind": "response", "parts": [...]}},
      {"shared": 1, "messages": [...], "response": {...}}]}

A conversation grows, so an exchange leaves out what is equal in the exchange before: its first `shared` messages, and
its tools. The file of a run of 100 calls is hardly longer than its transcript. What only the provider uses (response
ids, signatures, addresses) is left out too, since a played response is never sent to a provider.
"""

import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.tools import ToolDefinition

from sojourn.models.response import usage_of
from sojourn.testing.models.request import PARTS, Json, Request, messages_json, request_of

__all__ = ["read", "response_json", "write"]

_RESPONSE: Final[Json] = {
    "kind": True,
    "parts": PARTS,
    "model_name": True,
    "finish_reason": True,
    "provider_details": {"refusal"},
    "usage": {"input_tokens", "output_tokens", "cache_read_tokens"},
}


class _Exchange(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    shared: NonNegativeInt = 0
    messages: list[ModelMessage]
    tools: list[ToolDefinition] | None = None
    response: ModelResponse


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    format: Literal[2]
    model: str
    exchanges: list[_Exchange]


def response_json(response: ModelResponse, first_call: int) -> Json:
    """Return a response as a cassette stores it: with its cost, and with its calls numbered through the file.

    Args:
        response: The response of the provider.
        first_call: The number of its first call, from 1.
    """
    [stored] = messages_json([response], _RESPONSE)
    if (cost := usage_of(response).cost) is not None:
        stored["usage"]["cost"] = str(cost)
    for number, call in enumerate(
        (part for part in stored["parts"] if part["part_kind"] == "tool-call"), first_call
    ):
        call["tool_call_id"] = f"call-{number}"
    return stored


def write(path: Path, model: str, exchanges: Sequence[tuple[Request, Json]]) -> None:
    """Write a cassette, in place of an earlier one; make its folders if needed.

    Args:
        path: The file.
        model: The name of the model, such as `openai:gpt-5-mini`.
        exchanges: Each request and the response to it, in order.
    """
    stored: list[Json] = []
    before = Request([], [])
    for request, response in exchanges:
        pairs = zip(before.messages, request.messages, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        exchange: Json = {"shared": shared} if shared else {}
        if request.tools != before.tools:
            exchange["tools"] = request.tools
        stored.append({**exchange, "messages": request.messages[shared:], "response": response})
        before = request
    text = json.dumps({"format": 2, "model": model, "exchanges": stored}, ensure_ascii=False, indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(f"{text}\n", encoding="utf-8")
    draft.replace(path)


def read(path: Path, ignore: Sequence[str] = ()) -> tuple[str, list[tuple[Request, ModelResponse]]]:
    """Return the name of the model, and each request with the response to it, in order.

    Args:
        path: The file.
        ignore: Regular expressions of text that is not compared, as for `request_of`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not a cassette; the message names the place.
    """
    try:
        file = _File.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: there is no recording; run the test once with SOJOURN_RECORD=1 and the provider's key"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the file"
        raise ValueError(_unfit(path, f"{where}: {first['msg']}")) from None
    exchanges: list[tuple[Request, ModelResponse]] = []
    messages: list[ModelMessage] = []
    tools: list[ToolDefinition] = []
    for number, stored in enumerate(file.exchanges):
        if stored.shared > len(messages):
            raise ValueError(
                _unfit(path, f"exchanges.{number}.shared: the exchange before has fewer messages")
            )
        messages = [*messages[: stored.shared], *stored.messages]
        tools = tools if stored.tools is None else stored.tools
        exchanges.append((request_of(messages, tools, ignore=ignore), stored.response))
    return file.model, exchanges


def _unfit(path: Path, why: str) -> str:
    return f"{path} is not a file of exchanges: {why}. Correct it, or record it again with SOJOURN_RECORD=1"
