"""Contenders: the implementations that are compared, each with a client, a worker and a way to start a run."""

import asyncio
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import temporalio.client
import temporalio.worker
from temporalio.client import WorkflowHandle
from temporalio.service import GrpcCompression

from bench import local
from bench.agents import app
from bench.floor import FloorInput, FloorRun, floor_plan, floor_tool, tuned
from sojourn import App
from sojourn.connection.connect import converter_with
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.converter.data_converter import data_converter
from sojourn.crypto import KeyRing, SealingCodec
from sojourn.telemetry import interceptors
from sojourn.worker import Worker

__all__ = ["CONTENDERS", "FLOOR", "PEERS", "Contender"]

UNCOMPRESSED = GrpcCompression.NONE
"""As `sojourn.Client` connects on loopback; the floor too."""

Start = Callable[[temporalio.client.Client, str, int], Awaitable[WorkflowHandle[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One implementation of the benchmark's work."""

    name: str
    connect: Callable[[str], Awaitable[temporalio.client.Client]]
    """Connect a client to the server at an address."""
    start: Start
    """Start a run, given the client, the run id and the number of calls."""
    worker: Callable[[temporalio.client.Client], Any]
    """Make the worker, an async context manager."""

    @property
    def task_queue(self) -> str:
        """The contender's task queue."""
        return f"bench-{self.name}"


async def _plain(address: str) -> temporalio.client.Client:
    return await temporalio.client.Client.connect(address, grpc_compression=UNCOMPRESSED)


async def _sojourn(address: str) -> temporalio.client.Client:
    return await temporalio.client.Client.connect(
        address, data_converter=data_converter, grpc_compression=UNCOMPRESSED
    )


async def _encrypted(address: str) -> temporalio.client.Client:
    """Connect a client that seals its payloads with a key ring, which it and its worker share."""
    path = Path(tempfile.gettempdir()) / f"sojourn-bench-{os.getuid()}-{address.rpartition(':')[2]}.ring"
    ring = KeyRing(path)
    if not path.exists():
        await ring.make_key()
    return await temporalio.client.Client.connect(
        address, data_converter=converter_with(SealingCodec(ring)), grpc_compression=UNCOMPRESSED
    )


async def _traced(address: str) -> temporalio.client.Client:
    """Connect a client whose traces and metrics go, in batches as by default, to a collector process started here."""
    sink = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.sink", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    _SINKS.append(sink)
    assert sink.stdout
    settings = {
        "NO_PROXY": "127.0.0.1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{int(await sink.stdout.readline())}",
    }
    os.environ.update(settings)
    made = interceptors()
    del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]  # the worker processes of other contenders would inherit it
    return await temporalio.client.Client.connect(
        address, data_converter=data_converter, interceptors=made, grpc_compression=UNCOMPRESSED
    )


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
    from bench.contender_model import app  # only this contender imports the libraries of models

    return _serving("bench-model", app)(client)


def _peer(name: str, module: str, needs: str) -> Contender | None:
    """A contender whose module has `connect`, `start` and `worker`; None if the package it needs is not installed."""
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
    # The tools are local activities; the floor's are not.
    Contender("local", _sojourn, _starting("bench.local", "bench-local"), _serving("bench-local")),
    Contender(
        local.NAME,
        _sojourn,
        _starting("bench.near", f"bench-{local.NAME}"),
        _serving(f"bench-{local.NAME}", local.app),
    ),
    # To compare with `sojourn`, which differs only in sending no traces and metrics.
    Contender("traced", _traced, _starting("bench.agent", "bench-traced"), _serving("bench-traced")),
    # To compare with `sojourn`, which differs only in encrypting nothing.
    Contender(
        "encrypted", _encrypted, _starting("bench.agent", "bench-encrypted"), _serving("bench-encrypted")
    ),
    # The planner is a model that decides like the planner of `sojourn`.
    Contender("model", _sojourn, _starting("bench.model", "bench-model"), _model_worker),
]

PEERS: dict[str, Contender | None] = {
    "pydantic-ai": _peer("pydantic-ai", "bench.contender_pydantic_ai", "pydantic_ai"),
    "openai-agents": _peer("openai-agents", "bench.contender_openai_agents", "temporalio.openai_agents"),
}
"""Other libraries that run an agent with the same model on Temporal; None for a library that is not installed."""
