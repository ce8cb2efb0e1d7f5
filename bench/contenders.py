"""Who takes part: each a worker process and a way to start one run. Later contenders plug in here."""

import asyncio
import importlib
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import temporalio.client
import temporalio.worker
from temporalio.client import WorkflowHandle

from bench.agents import app
from bench.floor import FloorInput, FloorRun, floor_plan, floor_tool, tuned
from sojourn import App
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.converter.data_converter import data_converter
from sojourn.telemetry import interceptors
from sojourn.worker import Worker

__all__ = ["CONTENDERS", "FLOOR", "PEERS", "Contender"]

Start = Callable[[temporalio.client.Client, str, int], Awaitable[WorkflowHandle[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work."""

    name: str
    connect: Callable[[str], Awaitable[temporalio.client.Client]]
    """From an address to its client."""
    start: Start
    """Start one run of so many calls under this id."""
    worker: Callable[[temporalio.client.Client], Any]
    """Its worker, as an async context manager."""

    @property
    def task_queue(self) -> str:
        """Its own queue."""
        return f"bench-{self.name}"


async def _plain(address: str) -> temporalio.client.Client:
    return await temporalio.client.Client.connect(address)


async def _sojourn(address: str) -> temporalio.client.Client:
    return await temporalio.client.Client.connect(address, data_converter=data_converter)


async def _traced(address: str) -> temporalio.client.Client:
    """Traces and metrics go from this process to a collector of its own, in batches, as by default."""
    sink = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.sink", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    _SINKS.append(sink)
    assert sink.stdout
    asked = {
        "NO_PROXY": "127.0.0.1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{int(await sink.stdout.readline())}",
    }
    os.environ.update(asked)
    made = interceptors()
    del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]  # the workers of other contenders would be asked too
    return await temporalio.client.Client.connect(address, data_converter=data_converter, interceptors=made)


_SINKS: list[asyncio.subprocess.Process] = []


async def _start_floor(client: temporalio.client.Client, run_id: str, calls: int) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(FloorRun.run, FloorInput(calls), id=run_id, task_queue="bench-floor")


def _starting(agent_id: str, task_queue: str) -> Start:
    async def start(client: temporalio.client.Client, run_id: str, calls: int) -> WorkflowHandle[Any, Any]:
        run = RunInput(agent_id=agent_id, messages=[Message.user(str(calls))])
        return await client.start_workflow("AgentRun", run, id=run_id, task_queue=task_queue)

    return start


def _serving(task_queue: str, app: App = app) -> Callable[[temporalio.client.Client], Worker]:
    return lambda client: Worker(app, client, task_queue=task_queue, drain=timedelta(seconds=1))


def _floor_worker(client: temporalio.client.Client) -> temporalio.worker.Worker:
    return tuned(client, "bench-floor", [FloorRun], [floor_plan, floor_tool])


def _model_worker(client: temporalio.client.Client) -> Worker:
    from bench.contender_model import app  # the libraries of models are its own cost

    return _serving("bench-model", app)(client)


def _peer(name: str, module: str, needs: str) -> Contender | None:
    """One whose module has `connect`, `start` and `worker`; none where what it needs is not installed."""
    if importlib.util.find_spec(needs) is None:
        return None

    async def connect(address: str) -> temporalio.client.Client:
        return await importlib.import_module(module).connect(address)

    async def start(client: temporalio.client.Client, run_id: str, calls: int) -> WorkflowHandle[Any, Any]:
        return await importlib.import_module(module).start(client, run_id, calls)

    return Contender(name, connect, start, lambda client: importlib.import_module(module).worker(client))


FLOOR = Contender("floor", _plain, _start_floor, _floor_worker)

CONTENDERS = [
    FLOOR,
    Contender(
        "sojourn",
        _sojourn,
        _starting("bench.agent", "bench-sojourn"),
        _serving("bench-sojourn"),
    ),
    # Its tools are local activities, the floor's are not.
    Contender("local", _sojourn, _starting("bench.local", "bench-local"), _serving("bench-local")),
    # To be compared with `sojourn`, which is the same without.
    Contender("traced", _traced, _starting("bench.agent", "bench-traced"), _serving("bench-traced")),
    # A model plans, which decides the same as the planner of `sojourn`.
    Contender("model", _sojourn, _starting("bench.model", "bench-model"), _model_worker),
]

PEERS: dict[str, Contender | None] = {
    "pydantic-ai": _peer("pydantic-ai", "bench.contender_pydantic_ai", "pydantic_ai"),
    "openai-agents": _peer("openai-agents", "bench.contender_openai_agents", "temporalio.openai_agents"),
}
"""Other ways to run an agent with the same model on Temporal; none for one that is not installed."""
