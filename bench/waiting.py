"""`python -m bench.waiting`: what 1,000 runs that wait for a person cost a worker, and how fast they continue.

Each size of the worker's cache has a server and a worker process of its own. If the cache is smaller
than the number of runs, most runs are out of memory when they are answered, and replay brings them back.
"""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import EventType

from bench import load
from bench.agents import echo, tools
from sojourn import Agent, App, AwaitClarification, Client, PlanResult, Run, RunPolicy, Turn, Worker
from sojourn.server import Server
from sojourn.worker import MAX_CACHED_RUNS

__all__ = ["WorkerProcess", "is_well", "print_figures", "serve", "some_at_once", "worker_of"]

CACHES = (MAX_CACHED_RUNS, 100)
AT_ONCE = 16
"""Most runs that start or are answered at a time; fewer than the small cache holds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one measurement: waiting runs on one worker."""

    runs: int
    """Runs that wait at once."""
    cache: int
    """Runs that the worker may keep in memory."""
    before: float
    """Resident memory in MB with no open run, after one run to warm up."""
    waiting: float
    """Resident memory in MB while all runs wait."""
    after: float
    """Resident memory in MB when all runs have ended."""
    idle: float
    """CPU seconds that the worker used in `--seconds` with no open run."""
    watched: float
    """CPU seconds that the worker used in `--seconds` while all runs waited."""
    answering: float
    """Seconds from the first answer until the last run has ended."""
    cpu: float
    """Milliseconds of the worker's CPU for each run, from the first answer until the last run has ended."""
    completed: int
    """Runs that ended with the answer sent to them and without a failed workflow task."""
    evicted: int
    """Number of times that the worker evicted a run from its cache to make room."""


async def plan(turn: Turn) -> PlanResult:
    """Make as many calls as the first message says, ask, and repeat the answer."""
    made = sum(message.role == "tool" for message in turn.messages)
    if made < int(turn.messages[0].text):
        return PlanResult.calls(echo.call(text=load.argument(made)))
    if turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(id="go", question="Shall I go on?"))
    return PlanResult.final(turn.messages[-1].text)


app = App(
    agents=[Agent("bench.asker", planner=plan, uses=[tools], policy=RunPolicy(interrupts_allowed=True))]
)


class Evictions(logging.Handler):
    """A log handler that counts how often the worker evicted a run to make room."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count the SDK's message about an eviction."""
        self.count += "cache full" in record.getMessage()


async def serve(address: str, cache: int, app: App) -> None:
    """Serve an app as the worker process until standard input ends, then print the number of evictions."""
    evictions = Evictions()
    log = logging.getLogger("temporalio.worker._workflow")
    log.setLevel(logging.DEBUG)
    log.addHandler(evictions)
    client = await Client.connect(address)
    async with Worker(app, client, max_cached_runs=cache, drain=timedelta(seconds=1)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(evictions.count, flush=True)


class WorkerProcess:
    """The worker under measurement."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._seen = psutil.Process(process.pid)

    @property
    def memory(self) -> float:
        """Resident memory in MB."""
        return self._seen.memory_info().rss / 1e6

    @property
    def cpu(self) -> float:
        """CPU seconds that the process has used so far."""
        times = self._seen.cpu_times()
        return times.user + times.system

    async def watched(self, seconds: float) -> float:
        """CPU seconds that the process uses in the next `seconds` seconds."""
        before = self.cpu
        await asyncio.sleep(seconds)
        return self.cpu - before

    async def evictions(self) -> int:
        """End the process; return the number of evictions that it prints."""
        printed, _ = await self._process.communicate(b"")
        return int(printed)


@asynccontextmanager
async def worker_of(address: str, cache: int, module: str = "bench.waiting") -> AsyncGenerator[WorkerProcess]:
    """A worker process that serves the app of a module, and ends at the exit."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "--serve", address, "--caches", str(cache),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    assert process.stdin
    try:
        if (await process.stdout.readline()).strip() != b"ready":
            raise RuntimeError("the worker did not start")
        yield WorkerProcess(process)
    finally:
        process.stdin.close()
        await process.wait()


async def some_at_once(steps: Iterable[Awaitable[Any]]) -> list[Any]:
    """The results of the steps, `AT_ONCE` of which are awaited at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(step: Awaitable[Any]) -> Any:
        async with slots:
            return await step

    return await asyncio.gather(*(one(step) for step in steps))


async def until_waiting(client: Client, runs: int) -> None:
    """Wait until `runs` runs wait, by visibility: a query would load the runs into the worker's memory."""
    while (await client.temporal.count_workflows('SojournAwaiting = "go"')).count < runs:
        await asyncio.sleep(0.1)


async def asked(client: Client, calls: int) -> Run:
    """Start a run, and return it once the event of its question has arrived."""
    run = await client.start("bench.asker", str(calls))
    async for event in run.events():
        if event.type == "await_clarification":
            break
    return run


async def answered(run: Run, answer: str) -> str:
    """Answer a run's question and return the text of its output."""
    await run.answer("go", answer)
    return (await run.result()).text


async def is_well(run: Run) -> bool:
    """Whether a run's history holds no failed workflow task."""
    history = await run.client.temporal.get_workflow_handle(run.id).fetch_history()
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    return all(event.event_type != failed for event in history.events)


async def measure(runs: int, calls: int, seconds: float, cache: int) -> Sample:
    """The figures of `runs` runs of `calls` calls, with a cache of `cache` runs, watched for `seconds` seconds."""
    async with Server(attach=False, port=0, ui=False) as server, worker_of(server.address, cache) as worker:
        client = await Client.connect(server.address)
        await answered(await asked(client, calls), "yes")
        idle, before = await worker.watched(seconds), worker.memory

        crowd: list[Run] = await some_at_once(asked(client, calls) for _ in range(runs))
        await until_waiting(client, runs)
        watched, waiting = await worker.watched(seconds), worker.memory

        cpu, began = worker.cpu, time.perf_counter()
        answers = await some_at_once(answered(run, str(number)) for number, run in enumerate(crowd))
        answering, cpu = time.perf_counter() - began, worker.cpu - cpu

        after = worker.memory
        well = await some_at_once(is_well(run) for run in crowd)
        return Sample(
            runs=runs,
            cache=cache,
            before=before,
            waiting=waiting,
            after=after,
            idle=idle,
            watched=watched,
            answering=answering,
            cpu=1000 * cpu / runs,
            completed=sum(well[number] and text == str(number) for number, text in enumerate(answers)),
            evicted=await worker.evictions(),
        )


async def print_figures(title: str, measuring: Iterable[Awaitable[Any]]) -> None:
    """Measure in turn, and print a table with a column for each sample."""
    samples: list[Any] = []
    for each in measuring:
        samples.append(await each)
        print(samples[-1], file=sys.stderr, flush=True)
    table = Table(title=title)
    table.add_column("figure")
    for _ in samples:
        table.add_column(justify="right")
    for field in fields(samples[0]):
        table.add_row(field.name, *(f"{getattr(sample, field.name):.4g}" for sample in samples))
    Console().print(table)


async def main(options: argparse.Namespace) -> None:
    """Measure with each size of the cache in turn, and print a table."""
    await print_figures(
        f"runs of {options.calls} calls that wait, watched for {options.seconds:g} s",
        [measure(options.runs, options.calls, options.seconds, cache) for cache in options.caches],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.waiting")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=2, help="calls of each run before its question")
    parser.add_argument(
        "--seconds", type=float, default=20, help="seconds for which the worker's CPU is measured"
    )
    parser.add_argument("--caches", type=int, nargs="+", default=CACHES)
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.serve, chosen.caches[0], app) if chosen.serve else main(chosen))
