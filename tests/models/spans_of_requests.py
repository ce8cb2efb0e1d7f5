"""A program with its own tracer that sends three requests to a stand-in and prints the spans."""

import asyncio
import json
from contextlib import suppress

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import ModelRequest
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models import infer_model

from sojourn.models.guarded import guard

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)


async def main() -> None:
    model, messages = (
        guard(infer_model("openai-chat:gpt-5-mini")),
        [ModelRequest.user_text_prompt("SECRET")],
    )
    with trace.get_tracer("test").start_as_current_span("plan"):
        await model_request(model, messages)
        async with model_request_stream(model, messages) as stream:
            async for _ in stream:
                pass
        with suppress(ModelAPIError):
            await model_request(model, messages)
    for span in spans.get_finished_spans():
        print(
            json.dumps(
                {
                    "name": span.name,
                    "has_parent": span.parent is not None,
                    "kind": span.kind.name,
                    "status": span.status.status_code.name,
                    "description": span.status.description,
                    "events": len(span.events),
                    "attributes": dict(span.attributes or {}),
                }
            )
        )


asyncio.run(main())
