"""Span: one for each request to a model, a child of the plan's span, without any text of prompts, answers or errors."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from sojourn.telemetry.names import OPERATION, short
from sojourn.telemetry.recorder import fail

__all__ = ["record_response", "request_span"]


@contextmanager
def request_span(model: Model, *, streams: bool) -> Generator[Span]:
    """Make `chat <model>` the current span of the block, by OpenTelemetry's conventions for generative AI.

    Args:
        model: The model.
        streams: Whether the answer is streamed.
    """
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
    """Set the attributes of a response on its span: tokens, model and finish reason, without its text."""
    if not span.is_recording():
        return
    used = response.usage
    span.set_attribute("gen_ai.usage.input_tokens", used.input_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", used.output_tokens)
    if response.model_name:
        span.set_attribute("gen_ai.response.model", short(response.model_name))
    if response.finish_reason:
        span.set_attribute("gen_ai.response.finish_reasons", [response.finish_reason])
