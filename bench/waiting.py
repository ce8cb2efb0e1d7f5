"""`python -m bench.waiting`: what 1,000 runs that wait for a person cost a worker, and how fast they all go on.

Each size of the worker's cache has a server and a worker process of its own. With a cache smaller
than the crowd most runs are not in memory when they are answered: they are brought back by replay.
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

__all__: list[str] = []

CACHES = (MAX_CACHED_RUNS, 100)
AT_ONCE = 16
"""Runs that are not waiting at a time: fewer than the small cache holds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a crowd of waiting runs cost one worker."""

    runs: int
    """Runs that wait at once."""
    cache: int
    """Runs that the worker may keep in memory."""
    before: float
    """Resident memory in MB with no run, after one to warm up."""
    waiting: float
    """Resident memory in MB while all wait."""
    after: float
    """Resident memory in MB when all have ended."""
    idle: float
    """CPU seconds that the worker used in the watched time with no run."""
    watched: float
    """CPU seconds that it used in the same time with all of them waiting."""
    answering: float
    """Seconds from the first answer until the last run has ended."""
    cpu: float
    """Milliseconds of the worker's CPU meanwhile, for each run."""
    completed: int
    """Runs that ended with their own answer and no failed workflow task."""
    evicted: int
    """Times that a run was dropped from memory to make room; replay brings it back."""


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
    """Counts how often the worker dropped a run to make room."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count the SDK's own word for it."""
        self.count += "cache full" in record.getMessage()


async def serve(address: str, cache: int) -> None:
    """Be the worker process, until standard input ends; then tell the evictions."""
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
        """Resident, in MB."""
        return self._seen.memory_info().rss / 1e6

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        times = self._seen.cpu_times()
        return times.user + times.system

    async def watched(self, seconds: float) -> float:
        """CPU seconds that it uses from now on in so many seconds."""
        before = self.cpu
        await asyncio.sleep(seconds)
        return self.cpu - before

    async def evictions(self) -> int:
        """End it, and hear how many it made."""
        said, _ = await self._process.communicate(b"")
        return int(said)


@asynccontextmanager
async def worker_of(address: str, cache: int) -> AsyncGenerator[WorkerProcess]:
    """A worker process that is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.waiting", "--serve", address, "--caches", str(cache),
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
    """What the steps give, of which a few are taken at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(step: Awaitable[Any]) -> Any:
        async with slots:
            return await step

    return await asyncio.gather(*(one(step) for step in steps))


async def until_waiting(client: Client, runs: int) -> None:
    """Wait until so many runs wait, by the server's index: a query would bring them into memory."""
    while (await client.temporal.count_workflows('SojournAwaiting = "go"')).count < runs:
        await asyncio.sleep(0.1)


async def asked(client: Client, calls: int) -> Run:
    """A run that has asked its question, by its history."""
    run = await client.start("bench.asker", str(calls))
    async for event in run.events():
        if event.type == "await_clarification":
            break
    return run


async def answered(run: Run, answer: str) -> str:
    """What a run says in the end."""
    await run.answer("go", answer)
    return (await run.result()).text


async def is_well(run: Run) -> bool:
    """Whether no workflow task of a run failed."""
    history = await run.client.temporal.get_workflow_handle(run.id).fetch_history()
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    return all(event.event_type != failed for event in history.events)


async def measure(runs: int, calls: int, seconds: float, cache: int) -> Sample:
    """The figures of one crowd."""
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


async def main(options: argparse.Namespace) -> None:
    """Each cache in turn, and a table."""
    samples: list[Sample] = []
    for cache in options.caches:
        samples.append(await measure(options.runs, options.calls, options.seconds, cache))
        print(samples[-1], file=sys.stderr, flush=True)
    table = Table(title=f"runs of {options.calls} calls that wait, watched for {options.seconds:g} s")
    table.add_column("figure")
    for _ in samples:
        table.add_column(justify="right")
    for field in fields(Sample):
        table.add_row(field.name, *(f"{getattr(sample, field.name):.4g}" for sample in samples))
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.waiting")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=2, help="that each run makes before it asks")
    parser.add_argument("--seconds", type=float, default=20, help="to watch the worker for")
    parser.add_argument("--caches", type=int, nargs="+", default=CACHES)
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.serve, chosen.caches[0]) if chosen.serve else main(chosen))
