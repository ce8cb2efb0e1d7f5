"""A client as a process of its own: `python run_once.py AGENT RUN_ID`; prints the modules of OpenTelemetry that it loaded.

With `SERVE` the process also serves the app, so that it holds all of Sojourn. With `OWN_PROVIDER` it sets a tracer
provider of its own, and prints the names of that provider's spans.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

from traced_app import app

from sojourn import Client, Worker
from sojourn.telemetry import flush

if os.environ.get("OWN_PROVIDER"):
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    SPANS = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(provider)


def report():
    """Return what the process prints at its end."""
    if os.environ.get("OWN_PROVIDER"):
        return [span.name for span in SPANS.get_finished_spans()]
    loaded = sorted(
        name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))
    )
    return {"loaded": loaded, "interceptors": INTERCEPTORS}


async def main():
    """Run once."""
    client = await Client.connect()
    INTERCEPTORS.extend(type(each).__name__ for each in client.temporal.config()["interceptors"])
    async with AsyncExitStack() as stack:
        if os.environ.get("SERVE"):
            await stack.enter_async_context(Worker(app, client, max_cached_runs=int(os.environ["SERVE"])))
        run = await client.start(sys.argv[1], "go", run_id=sys.argv[2], session_id="s-1")
        await run.result()
    print(json.dumps(report()))


INTERCEPTORS = []
asyncio.run(main())
flush()
sys.stdout.flush()
os._exit(0)  # as the `sojourn` command does: Temporal's threads may abort an interpreter that shuts down
