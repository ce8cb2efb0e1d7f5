"""`python -m bench.length`: what a call costs at the end of a long run, and how soon a killed worker is replaced there.

One run each of 100, 1,000 and 10,000 calls, with no setting of a user; then a run whose worker is killed at some calls.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

import psutil
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from bench.agents import app
from sojourn import Client
from sojourn.contracts.ids import place_of
from sojourn.converter.data_converter import data_converter
from sojourn.server import Server
from sojourn.worker import shell

__all__: list[str] = []

WINDOW = 100
"""Calls at the start and at the end of a run whose gaps are compared."""


class WorkerProcess:
    """The worker of the benchmark's app, as a process that can be killed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and return once it serves."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.worker", "sojourn", self._address,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout
        if (await self._process.stdout.readline()).strip() != b"ready":
            raise RuntimeError("the worker did not start")

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self._process
        self._process.kill()
        await self._process.wait()

    @property
    def megabytes(self) -> float:
        """Its resident memory."""
        assert self._process
        return psutil.Process(self._process.pid).memory_info().rss / 1e6


async def executions(client: Client, run_id: str) -> list[Any]:
    """The executions of a run, oldest first, described."""
    found: list[Any] = []
    execution: str | None = (await client.temporal.get_workflow_handle(run_id).describe()).run_id
    while execution:
        handle: Any = client.temporal.get_workflow_handle(run_id, run_id=execution)
        found.append(await handle.describe())
        execution = None
        async for event in handle.fetch_history_events(page_size=1):
            execution = event.workflow_execution_started_event_attributes.continued_execution_run_id
            break
    return found[::-1]


async def history_of(client: Client, described: Any) -> WorkflowHistory:
    """The history of one execution."""
    handle: Any = client.temporal.get_workflow_handle(described.id, run_id=described.run_id)
    return await handle.fetch_history()


async def replay_seconds(histories: Sequence[WorkflowHistory]) -> list[float]:
    """How long a worker that knows nothing of a run replays each of its histories."""
    took: list[float] = []
    for history in histories:
        replayer = Replayer(
            workflows=list(shell(app).workflows),
            workflow_runner=UnsandboxedWorkflowRunner(),
            data_converter=data_converter,
        )
        began = time.perf_counter()
        await replayer.replay_workflow(history)
        took.append(time.perf_counter() - began)
    return took


async def measured(
    client: Client, worker: WorkerProcess, calls: int, shortest: WorkflowHistory | None
) -> WorkflowHistory:
    """Execute one run, print its row, and return the history of its last execution."""
    began = time.perf_counter()
    run = await client.start("bench.agent", str(calls), run_id=f"length-{uuid.uuid4().hex[:8]}")
    await run.result()
    took = time.perf_counter() - began
    starts, places = list[Any](), list[Any]()
    async for event in run.events():
        if event.event_id:
            places.append(place_of(event.event_id))
        if event.type == "tool_start":
            starts.append(event.time)
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(starts)]
    first, last = statistics.median(gaps[:WINDOW]), statistics.median(gaps[-WINDOW:])
    chain = await executions(client, run.id)
    size = sum(each.raw_description.workflow_execution_info.history_size_bytes for each in chain)
    replays, last_history = list[float](), await history_of(client, chain[-1])
    for each in chain:  # one at a time: the collector walks what is held, and a cold worker holds none of it
        replays += await replay_seconds([await history_of(client, each)])
    start = (await replay_seconds([shortest or last_history]))[0]
    whole = (
        len(starts) == calls
        and places == sorted(set(places))
        and len(await run.transcript()) == 2 * calls + 2
    )
    print(
        f"{calls:6} calls  {took:6.1f} s  {len(chain):3} executions  {size / calls:6.0f} B a call  "
        f"a call {first * 1000:5.1f} ms at the start, {last * 1000:5.1f} at the end: {last / first:4.2f}  "
        f"replay {max(replays):4.2f} s at most, of which {start:4.2f} for its start  "
        f"worker {worker.megabytes:4.0f} MB  {'whole' if whole else 'NOT WHOLE'}",
        flush=True,
    )
    return last_history


async def killed(client: Client, worker: WorkerProcess, at: Sequence[int]) -> None:
    """Execute one run whose worker is killed at some calls, and print how long each of the next calls took to begin."""
    run = await client.start("bench.agent", str(max(at) + WINDOW), run_id=f"killed-{uuid.uuid4().hex[:8]}")
    number, since = 0, 0.0
    async for event in run.events():
        if event.type == "tool_start":
            number += 1
            if since:
                print(
                    f"killed at call {number - 1:6}: the next call began after {time.perf_counter() - since:5.1f} s",
                    flush=True,
                )
                since = 0.0
            if number in at:
                await worker.kill()
                since = time.perf_counter()
                await worker.start()
    await run.result()


async def main(lengths: Sequence[int], at: Sequence[int]) -> None:
    """Measure runs of these lengths, and one that is killed at these calls."""
    async with Server(attach=False, port=0, ui=False) as server:
        client = await Client.connect(server.address, task_queue="bench-sojourn")
        worker = WorkerProcess(server.address)
        await worker.start()
        try:
            await (await client.start("bench.agent", "20")).result()
            shortest: WorkflowHistory | None = None
            for calls in lengths:
                last = await measured(client, worker, calls, shortest)
                shortest = shortest or last
            if at:
                await killed(client, worker, at)
        finally:
            await worker.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.length")
    parser.add_argument("--lengths", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--kill", type=int, nargs="*", default=[], help="calls at which the worker is killed")
    options = parser.parse_args()
    asyncio.run(main(options.lengths, options.kill))
