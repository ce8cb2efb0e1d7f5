"""GuardedModel: a model whose requests keep to its provider's time-outs and limits, and are made once."""

import copy
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings, merge_model_settings

from sojourn.models.limits import Limiter, Limits, limits_of
from sojourn.models.request_settings import settings_for, timeouts_name
from sojourn.models.span import request_span, tell_response

__all__ = ["GuardedModel", "estimate", "guarded"]

_OVERHEAD = 500
"""Tokens added to every estimate."""

_CHARACTERS_A_TOKEN = 3


def guarded(model: Model, limits: Limits | None = None) -> Model:
    """A model with guards; of models in order each has its own, since each has its own provider."""
    if isinstance(model, GuardedModel):
        return model
    if isinstance(model, FallbackModel):
        model = copy.copy(model)
        model.models = [guarded(each, limits) for each in model.models]
        return model
    return GuardedModel(model, limits)


class GuardedModel(WrapperModel):
    """A model of one provider; as long as it is not asked, it is the model that it wraps.

    Args:
        wrapped: The model.
        limits: What the user allows for its provider.
    """

    def __init__(self, wrapped: Model, limits: Limits | None = None) -> None:
        super().__init__(wrapped)
        self._limits = limits

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask once, when the limits let it."""
        limiter, settings = self._ready(model_settings)
        tokens = estimate(messages, model_request_parameters)
        async with limiter.request(tokens, self.model_name) as sent:
            with request_span(self.wrapped, streams=False) as span:
                response = await self.wrapped.request(messages, settings, model_request_parameters)
                tell_response(span, response)
            sent.used = response.usage.total_tokens
            return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Ask once, when the limits let it; the block of the stream is part of the request."""
        limiter, settings = self._ready(model_settings)
        tokens = estimate(messages, model_request_parameters)
        async with limiter.request(tokens, self.model_name) as sent:
            with request_span(self.wrapped, streams=True) as span:
                async with self.wrapped.request_stream(
                    messages, settings, model_request_parameters, run_context
                ) as stream:
                    yield stream
                    tell_response(span, stream.get())
            sent.used = stream.usage.total_tokens

    def _ready(self, given: ModelSettings | None) -> tuple[Limiter, ModelSettings]:
        """The limiter and settings of a request; and a client that belongs to the running loop."""
        self._refresh_http_client()
        merged = merge_model_settings(self.wrapped.settings, given)
        settings = settings_for(timeouts_name(self.wrapped), merged, self.wrapped.unsupported_settings)
        return limits_of(self.wrapped, self._limits), settings


def estimate(messages: Iterable[ModelMessage], parameters: ModelRequestParameters | None = None) -> int:
    """Tokens that a request may use: a third of its characters and 500; images and documents not counted."""
    said = sum(_characters(part) for message in messages for part in message.parts)
    said += sum(len(getattr(message, "instructions", None) or "") for message in messages)
    tools = parameters.function_tools if parameters else ()
    said += sum(len(str(tool.parameters_json_schema)) + len(tool.description or "") for tool in tools)
    return said // _CHARACTERS_A_TOKEN + _OVERHEAD


def _characters(part: Any) -> int:
    value: Any = getattr(part, "content", None) or getattr(part, "args", None)
    match value:
        case str():
            return len(value)
        case dict():
            return len(str(value))  # pyright: ignore[reportUnknownArgumentType] - arguments, as JSON
        case list() | tuple():
            return sum(len(each) for each in value if isinstance(each, str))  # pyright: ignore[reportUnknownVariableType]
        case _:
            return 0
