"""The trace of a conversation begins with its first message, as that of a run with its start."""

import uuid

import temporalio.client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sojourn import Agent, App, Client, PlanResult, Worker
from sojourn.telemetry.interceptor import TelemetryInterceptor
from sojourn.telemetry.recorder import TelemetryRecorder


async def test_the_turns_of_a_conversation_are_in_the_trace_of_its_first_message(temporal_address):
    """The span of the sender is the root, and the plans of all turns are below the run's span."""
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    plain = (await Client.connect(temporal_address)).temporal
    interceptors = [TelemetryInterceptor(TelemetryRecorder(provider, None))]
    traced = temporalio.client.Client(**{**plain.config(), "interceptors": interceptors})
    client = Client(traced, task_queue=f"q-{uuid.uuid4().hex[:8]}")

    async def plan(_turn) -> PlanResult:
        return PlanResult.final("done")

    async with Worker(App(agents=[Agent("test.agent", planner=plan)]), client):
        session = client.session("test.agent", uuid.uuid4().hex)
        for _ in range(2):
            await (await session.send("hello")).result()
        await session.close()
        await session.run.result()
    by_name = {}
    for span in spans.get_finished_spans():
        by_name.setdefault(span.name, []).append(span)
    (root,) = [span for span in by_name["invoke_agent test.agent"] if span.parent is None]
    (whole,) = [span for span in by_name["invoke_agent test.agent"] if span.parent is not None]
    assert root.kind.name == "CLIENT"
    assert root.attributes["sojourn.run_id"] == session.run.id
    assert whole.parent.span_id == root.context.span_id
    assert [span.parent.span_id for span in by_name["plan test.agent"]] == [whole.context.span_id] * 2
    assert len({span.context.trace_id for span in spans.get_finished_spans()}) == 1
