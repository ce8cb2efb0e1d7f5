"""One request to a model, streamed or not, and the usage of its response."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ContentFilterError, ModelConnectionError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from temporalio import activity

from sojourn.contracts.plan import Usage
from sojourn.live import Deltas, current_deltas

__all__ = ["response_of", "usage_of", "was_cut_off", "with_distinct_ids", "without_repetitions"]

_ID_ROOM = 36

_REPORTS_FINISH = ("openai", "anthropic", "google", "google-cloud")
"""Providers whose streams end with a finish reason. A stream without one was cut off."""


_WITHOUT_END = ("google", "google-cloud")
"""Providers whose streams have no other last event."""

_TRUSTED_ATTEMPT = 3
"""The attempt from which their streams end by themselves."""


async def response_of(
    model: Model,
    messages: list[ModelMessage],
    parameters: ModelRequestParameters,
    settings: ModelSettings,
    *,
    id_of: Callable[[str], str],
) -> ModelResponse:
    """Return a model's response, streamed when the run is followed.

    Raises:
        ModelConnectionError: The stream ended before the answer was complete.
        ContentFilterError: The provider blocked the prompt.
    """
    deltas = current_deltas()
    if deltas is None:
        response = await model_request(
            model, messages, model_settings=settings, model_request_parameters=parameters
        )
        return _accept(response)
    async with model_request_stream(
        model, messages, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        writer = _DeltaWriter(deltas, id_of)
        async for event in stream:
            await writer.write(event)
        response = stream.get()
    attempt = activity.info().attempt if activity.in_activity() else 1
    if was_cut_off(response, attempt):
        raise ModelConnectionError(model.model_name, "the stream ended before the answer did", phase="read")
    return _accept(response)


def _accept(response: ModelResponse) -> ModelResponse:
    # Google's API answers a blocked prompt without an error status.
    if not response.parts and "block_reason" in (response.provider_details or {}):
        raise ContentFilterError("the prompt was blocked")
    return with_distinct_ids(without_repetitions(response))


def without_repetitions(response: ModelResponse) -> ModelResponse:
    """Return a response without repeated calls.

    Some servers send a call again at the end of a stream, or in a second block.
    """
    calls: set[tuple[str, str, str]] = set()
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_call_id:
            call = (part.tool_call_id, part.tool_name, _same_text(part.args))
            if call in calls:
                continue
            calls.add(call)
        parts.append(part)
    return response if len(parts) == len(response.parts) else replace(response, parts=parts)


def _same_text(arguments: Any) -> str:
    """Return arguments as a text that is the same for the same JSON object."""
    try:
        value: Any = json.loads(arguments, parse_float=str) if isinstance(arguments, str) else arguments
        return json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(arguments)


def with_distinct_ids(response: ModelResponse) -> ModelResponse:
    """Return a response whose calls have distinct ids, unlike some servers'."""
    taken = {call.tool_call_id for call in response.tool_calls}
    if len(taken) == len(response.tool_calls):
        return response
    seen: set[str] = set()
    parts = [*response.parts]
    for at, part in enumerate(parts):
        if not isinstance(part, ToolCallPart):
            continue
        own = part.tool_call_id
        if own in seen:
            names = (f"{own[:_ID_ROOM]}_{number}" for number in count(2))
            own = next(name for name in names if name not in taken)
            taken.add(own)
            parts[at] = replace(part, tool_call_id=own)
        seen.add(own)
    return replace(response, parts=parts)


def was_cut_off(response: ModelResponse, attempt: int = 1) -> bool:
    """Return whether a stream ended before the answer was complete.

    A stream of Google's has no last event but its finish reason. A server that left it out at two attempts
    leaves it out each time, and its stream counts by its end.
    """
    details = response.provider_details or {}
    is_reported = (
        "finish_reason" in details or "block_reason" in details
    )  # the latter of a prompt that Google blocks
    is_refusal = response.finish_reason == "content_filter"  # all that OpenAI's models keep of a refusal
    if is_reported or is_refusal or response.provider_name not in _REPORTS_FINISH:
        return False
    return not (response.provider_name in _WITHOUT_END and response.parts and attempt >= _TRUSTED_ATTEMPT)


def usage_of(response: ModelResponse) -> Usage:
    """Return the tokens and the cost, the provider's or by `genai-prices`."""
    used = response.usage
    return Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost=_cost(response),
        model=response.model_name,
    )


def _cost(response: ModelResponse) -> float | None:
    reported = getattr(response.usage, "cost", None)
    if reported is not None:
        return float(reported)
    if response.model_name is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None


class _DeltaWriter:
    def __init__(self, deltas: Deltas, id_of: Callable[[str], str]) -> None:
        self._deltas = deltas
        self._id_of = id_of
        self._calls: dict[int, tuple[int, str]] = {}
        """The number and the tool's name of each call, by the index of the part."""

    async def write(self, event: ModelResponseStreamEvent) -> None:
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ):
                await self._deltas.text(text)
            case PartStartEvent(part=ThinkingPart(content=text)):
                await self._deltas.thinking(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)):
                await self._deltas.thinking(text or "")
            case PartStartEvent(index=index, part=ToolCallPart() as call):
                self._calls[index] = (len(self._calls), call.tool_name)
                await self._call(index, call.args)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta() as delta) if index in self._calls:
                number, name = self._calls[index]
                self._calls[index] = (number, name + (delta.tool_name_delta or ""))
                await self._call(index, delta.args_delta)
            case _:
                pass

    async def _call(self, index: int, arguments: object) -> None:
        number, name = self._calls[index]
        piece = arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""
        await self._deltas.tool_call(self._id_of(name), piece, index=number)
