"""A model whose requests obey time-outs and limits, and have spans (ME-12, ME-16).

Time-outs are counted for each run, by one worker: a request without an answer has cost its whole
computation, and does so again if the model rambles without an end or the machine is too slow.
"""

import copy
from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind
from pydantic_ai import RunContext
from pydantic_ai import exceptions as raised
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings, merge_model_settings
from temporalio.exceptions import ApplicationError

from sojourn.models.lenient import lenient
from sojourn.models.portable import one_system, portable
from sojourn.models.rate_limits import Limiter, RequestLimits, limiter_for
from sojourn.network import timeouts_for
from sojourn.network.client import is_local_url
from sojourn.serving.hardening.attempt import still_wanted
from sojourn.telemetry.names import OPERATION, short
from sojourn.telemetry.recorder import fail

__all__ = [
    "CHARACTERS_A_TOKEN",
    "GuardedModel",
    "ReadTimeOuts",
    "estimate",
    "guard",
    "record_response",
    "request_span",
    "settings_for",
    "timeouts_name",
]


@contextmanager
def request_span(model: Model, *, streams: bool) -> Generator[Span]:
    """Make `chat <model>` the current span, by OpenTelemetry's conventions."""
    name = short(model.model_name)
    with trace.get_tracer("sojourn").start_as_current_span(
        f"chat {name}",
        kind=SpanKind.CLIENT,
        attributes={
            OPERATION: "chat",
            "gen_ai.provider.name": short(model.system),
            "gen_ai.request.model": name,
            "gen_ai.request.stream": streams,
        },
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            fail(span, type(error).__name__)
            raise


def record_response(span: Span, response: ModelResponse) -> None:
    """Set tokens, model and finish reason on a span, without the response's text."""
    if not span.is_recording():
        return
    used = response.usage
    span.set_attribute("gen_ai.usage.input_tokens", used.input_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", used.output_tokens)
    if response.model_name:
        span.set_attribute("gen_ai.response.model", short(response.model_name))
    if response.finish_reason:
        span.set_attribute("gen_ai.response.finish_reasons", [response.finish_reason])


MOST = 3
"""Times that the same request is made when no answer comes in time."""

MAX_RUNS = 1_000


class ReadTimeOuts:
    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def forget(self, run_id: str) -> None:
        self._counts.pop(run_id, None)

    def judge(self, run_id: str, error: ApplicationError) -> ApplicationError:
        """Return the error of a request. The third in a row ends the run."""
        if error.type != "ModelTimeout" or not _is_read(error.__context__):
            return error
        count = self._counts.pop(run_id, 0) + 1
        if count >= MOST:
            return ApplicationError(
                f"{error.message} It was asked {count} times. Allow it more time, by SOJOURN_TIMEOUT_LOCAL or the variable of its "
                "provider, or less to write, by settings={'max_tokens': ...}.",
                type=error.type,
                non_retryable=True,
            )
        self._counts[run_id] = count
        while len(self._counts) > MAX_RUNS:
            self._counts.popitem(last=False)
        return error


def _is_read(error: BaseException | None) -> bool:
    """Return whether a request was sent. Connecting is tried through an outage."""
    return isinstance(error, raised.ModelRequestTimeout) or (
        isinstance(error, raised.ModelTimeoutError) and error.phase in (None, "read")
    )


_OVERHEAD = 500

CHARACTERS_A_TOKEN = 3
"""Characters that an estimate takes for one token: few, so that it is rather too high."""


_LOCAL = ("ollama", "vllm")

_FAMILIES = ("claude", "deepseek")
"""Families of models with a row of their own in the table of time-outs, at any provider."""


def guard(model: Model, limits: RequestLimits | None = None) -> Model:
    """Return a model as a `GuardedModel`, of a `FallbackModel` each one."""
    if isinstance(model, GuardedModel):
        return model
    if isinstance(model, FallbackModel):
        model = copy.copy(model)
        model.models = [guard(each, limits) for each in model.models]
        return model
    return GuardedModel(lenient(model), limits)


class GuardedModel(WrapperModel):
    """A model of one provider, whose requests wait for the provider's limits."""

    def __init__(self, wrapped: Model, limits: RequestLimits | None = None) -> None:
        super().__init__(wrapped)
        self._limits = limits

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,
    ) -> list[ModelMessage]:
        return self.wrapped.prepare_messages(portable(messages, self.wrapped), model_request_parameters)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        limiter, settings = self._ready(model_settings)
        messages, model_request_parameters = one_system(messages, model_request_parameters, self.wrapped)
        tokens = estimate(messages, model_request_parameters)
        async with limiter.request(tokens, self.model_name) as sent:
            with request_span(self.wrapped, streams=False) as span:
                await still_wanted()
                response = await self.wrapped.request(messages, settings, model_request_parameters)
                record_response(span, response)
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
        limiter, settings = self._ready(model_settings)
        messages, model_request_parameters = one_system(messages, model_request_parameters, self.wrapped)
        tokens = estimate(messages, model_request_parameters)
        async with limiter.request(tokens, self.model_name) as sent:
            with request_span(self.wrapped, streams=True) as span:
                await still_wanted()
                async with self.wrapped.request_stream(
                    messages, settings, model_request_parameters, run_context
                ) as stream:
                    yield stream
                    record_response(span, stream.get())
            sent.used = stream.usage.total_tokens

    def _ready(self, user_settings: ModelSettings | None) -> tuple[Limiter, ModelSettings]:
        self._refresh_http_client()
        merged = merge_model_settings(self.wrapped.settings, user_settings)
        settings = settings_for(
            timeouts_name(self.wrapped),
            merged,
            self.wrapped.unsupported_settings,
            is_local=self.wrapped.system in _LOCAL or is_local_url(self.wrapped.base_url),
        )
        return limiter_for(self.wrapped, self._limits), settings


def settings_for(
    provider: str,
    user_settings: ModelSettings | None = None,
    ignored: Collection[str] = (),
    *,
    is_local: bool = False,
) -> ModelSettings:
    """Return the user's settings, with a default `timeout` and without retries.

    Only Temporal repeats. `timeout` is the row's time-out for reading, in seconds without progress; the one
    for connecting is the HTTP client's.
    """
    settings = ModelSettings(timeout=timeouts_for(provider, is_local=is_local).read)
    settings.update(user_settings or {})
    settings["max_retries"] = 0
    for name in {"timeout", "max_retries"} & set(ignored):
        settings.pop(name, None)
    return settings


def timeouts_name(model: Model) -> str:
    """Return a model's row of the time-outs: its provider's, or its family's."""
    name = model.model_name.casefold()
    family = next((each for each in _FAMILIES if each in name), None)
    return model.system if model.system == "anthropic" or family is None else family


def estimate(messages: Iterable[ModelMessage], parameters: ModelRequestParameters | None = None) -> int:
    """Return an estimate of a request's tokens, without files."""
    characters = sum(_characters(part) for message in messages for part in message.parts)
    characters += sum(len(getattr(message, "instructions", None) or "") for message in messages)
    tools = [*parameters.function_tools, *parameters.output_tools] if parameters else []
    characters += sum(len(str(tool.parameters_json_schema)) + len(tool.description or "") for tool in tools)
    return characters // CHARACTERS_A_TOKEN + _OVERHEAD


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
