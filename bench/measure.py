"""Measure contenders on one server, in turns so short that a slow moment of the machine hits all alike."""

import asyncio
import itertools
import statistics
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
import temporalio.client

from bench.contenders import Contender

__all__ = ["Lane", "Sample", "lane", "round_of", "size_of_run"]

CALLS = 20
LONG = 100
TOGETHER = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """One contender's figures of one round."""

    latency: float
    """Seconds of one run of 20 calls, alone; the median of several."""
    latency_together: float
    """Seconds of a run of 20 calls among 8 at once, the median."""
    runs_per_second: float
    """Runs of 20 calls that end per second, with 8 at once, over all batches."""
    cpu_per_call: float
    """Milliseconds of the worker's CPU for each call, over the runs of all batches."""
    events: int
    """History events of a run of 20 calls."""
    bytes: int
    """History bytes of a run of 20 calls."""
    long_events: int
    """History events of a run of 100 calls."""
    long_bytes: int
    """History bytes of a run of 100 calls."""
    long_latency: float
    """Seconds of a run of 100 calls."""


@dataclass(slots=True)
class Lane:
    """A contender under measurement: its client, its worker process and its samples."""

    contender: Contender
    client: temporalio.client.Client
    process: psutil.Process
    samples: list[Sample] = field(default_factory=list[Sample])

    async def run(self, calls: int) -> tuple[str, float]:
        """Execute one run; return its id and the seconds from its start to its answer."""
        run_id = f"{self.contender.name}-{uuid.uuid4().hex[:12]}"
        began = time.perf_counter()
        handle = await self.contender.start(self.client, run_id, calls)
        await handle.result()
        return run_id, time.perf_counter() - began

    def cpu(self) -> float:
        """CPU seconds that the worker has used so far."""
        times = self.process.cpu_times()
        return times.user + times.system


@asynccontextmanager
async def lane(contender: Contender, address: str) -> AsyncGenerator[Lane]:
    """A contender with its worker process, which ends at the exit."""
    import sys

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.worker", contender.name, address,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    assert process.stdin
    try:
        if (await process.stdout.readline()).strip() != b"ready":
            raise RuntimeError(f"the worker of {contender.name} did not start")
        yield Lane(contender, await contender.connect(address), psutil.Process(process.pid))
    finally:
        process.stdin.close()
        await process.wait()


async def size_of_run(lane: Lane, run_id: str) -> tuple[int, int]:
    """Events and bytes of a run's history, as the server counts them."""
    description: Any = (await lane.client.get_workflow_handle(run_id).describe()).raw_description
    info = description.workflow_execution_info
    return info.history_length, info.history_size_bytes


async def round_of(lanes: Sequence[Lane], *, alone: int = 8, batches: int = 3) -> None:
    """Add a sample to each lane: from `alone` runs one by one, `batches` of 8 runs at once, and one run of 100 calls.

    The lanes take turns run by run and batch by batch, each turn in the other order: a machine's
    slow moments last seconds, and must hit every lane alike.
    """
    work = {one.contender.name: _Work() for one in lanes}
    turns = itertools.cycle((list(lanes), list(reversed(lanes))))
    for _ in range(alone):
        for one in next(turns):
            work[one.contender.name].alone.append(await one.run(CALLS))
    for _ in range(batches):
        for one in next(turns):
            await work[one.contender.name].together(one)
    for one in next(turns):
        run_id, seconds = await one.run(LONG)
        one.samples.append(await work[one.contender.name].sample(one, run_id, seconds))


@dataclass(slots=True)
class _Work:
    """The measurements of one lane in the current round."""

    alone: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    batched: list[float] = field(default_factory=list[float])
    took: float = 0
    spent: float = 0

    async def together(self, lane: Lane) -> None:
        cpu, began = lane.cpu(), time.perf_counter()
        runs = await asyncio.gather(*(lane.run(CALLS) for _ in range(TOGETHER)))
        self.took += time.perf_counter() - began
        self.spent += lane.cpu() - cpu
        self.batched += [seconds for _, seconds in runs]

    async def sample(self, lane: Lane, long_id: str, long_latency: float) -> Sample:
        events, size = await size_of_run(lane, self.alone[0][0])
        long_events, long_size = await size_of_run(lane, long_id)
        return Sample(
            latency=statistics.median(seconds for _, seconds in self.alone),
            latency_together=statistics.median(self.batched),
            runs_per_second=len(self.batched) / self.took,
            cpu_per_call=1000 * self.spent / (len(self.batched) * CALLS),
            events=events,
            bytes=size,
            long_events=long_events,
            long_bytes=long_size,
            long_latency=long_latency,
        )
