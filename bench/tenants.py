"""`python -m bench.tenants`: how much one tenant's load delays the runs of another on one worker.

The quiet tenant starts its runs at a low rate, first alone and then beside a noisy tenant at `--load` times that
rate; starts do not wait for ends (open arrivals). A run has three calls, and a model that takes 100 ms. Each arm has a
server and a worker of its own. The bar is on the last arm: a p95 of at most 1.5 times that of the quiet tenant alone.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import time
import types
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import psutil

from bench.__main__ import RESULTS
from sojourn import Agent, App, Client, PlanResult, Principal, ToolRequest, Toolset, Worker
from sojourn.logs import configure_logs
from sojourn.server import Server, dev_server
from sojourn.serving.hardening.loop_guard import new_event_loop

CALLS = 3
QUEUE = "bench-tenants"
BAR = 1.5

LONGEST = 60.0
"""Seconds after which a run of the quiet tenant is no longer waited for."""


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    is_fair: bool
    """Whether the server takes tenants in turn."""
    worker: dict[str, str] = field(default_factory=dict[str, str])
    """Settings of the worker."""


@dataclass(frozen=True, slots=True)
class Options:
    quiet: float
    load: float
    seconds: float
    model: float


@dataclass(frozen=True, slots=True)
class Phase:
    """One arm alone, or beside the noisy tenant."""

    seconds: list[float]
    """What each run of the quiet tenant took, from its start to its answer."""
    server_cpu: float
    """Seconds of CPU a second."""
    worker_cpu: float
    noisy_started: int = 0
    noisy_ended: int = 0


def arms(slots: int) -> list[Arm]:
    return [
        Arm("nothing", is_fair=False),
        Arm("server", is_fair=True),
        Arm("server, few slots", is_fair=True, worker={"SOJOURN_MAX_ACTIVITIES": str(slots)}),
        Arm(
            "server, few slots, no eager",
            is_fair=True,
            worker={"SOJOURN_MAX_ACTIVITIES": str(slots), "SOJOURN_FAIR": "1"},
        ),
    ]


def app(model: float) -> App:
    tools = Toolset("bench.tools")

    @tools.tool
    async def look(number: int) -> str:
        """Look."""
        return f"seen {number}"

    async def plan(turn: Any) -> PlanResult:
        await asyncio.sleep(model)
        made = sum(len(message.tool_results) for message in turn.messages)
        if made == CALLS:
            return PlanResult.final("done")
        return PlanResult.calls(ToolRequest(name="bench.tools.look", payload={"number": made}))

    return App(agents=[Agent("bench.agent", planner=plan, uses=[tools])])


async def serve(address: str, model: float) -> None:
    """Serve until standard input ends."""
    configure_logs()
    async with Worker(app(model), await Client.connect(address, task_queue=QUEUE)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def make_noise(address: str, rate: float) -> None:
    """Start runs at a rate until standard input ends, and print how many."""
    client = await Client.connect(address, task_queue=QUEUE)
    stopped = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    starting, began, number = set[asyncio.Task[Any]](), time.monotonic(), 0
    print("ready", flush=True)
    while not stopped.done():
        while number < (time.monotonic() - began) * rate:
            number += 1
            task = asyncio.create_task(start(client, "noisy"))
            starting.add(task)
            task.add_done_callback(starting.discard)
        await asyncio.sleep(0.01)
    await asyncio.gather(*starting, return_exceptions=True)
    print(number, flush=True)


async def start(client: Client, tenant: str) -> Any:
    principal = Principal(subject="bench", tenant=tenant)
    return await client.start("bench.agent", "go", principal=principal, wait_for_worker=True)


@asynccontextmanager
async def program(*words: str, **settings: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A process of this module, which ends at the exit."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.tenants", *words, env={**os.environ, **settings},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    try:
        if (await process.stdout.readline()).strip() != b"ready":
            raise RuntimeError(f"{words[0]} did not start")
        yield process
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def noise(address: str, rate: float, counts: list[int]) -> AsyncGenerator[None]:
    async with program("noisy", address, str(rate)) as process:
        assert process.stdin
        assert process.stdout
        yield
        process.stdin.close()
        counts.append(int(await process.stdout.readline()))


async def measure(arm: Arm, options: Options) -> dict[str, Phase]:
    tuned = dict(dev_server.DYNAMIC_CONFIG) | {"matching.enableFairness": arm.is_fair}
    dev_server.DYNAMIC_CONFIG = types.MappingProxyType(tuned)
    async with (
        Server(attach=False, port=0, ui=False) as server,
        program("worker", server.address, str(options.model), **arm.worker) as worker,
    ):
        client = await Client.connect(server.address, task_queue=QUEUE)
        processes = (_server_process(), psutil.Process(worker.pid))
        await asyncio.gather(*(timed(client) for _ in range(5)))  # warms up
        alone = await quiet(client, options, processes)
        counts = list[int]()
        async with noise(server.address, options.quiet * options.load, counts):
            await asyncio.sleep(options.seconds / 4)  # until the queues are as long as they get
            beside = await quiet(client, options, processes)
            ended = await client.temporal.count_workflows(
                "SojournTenant = 'noisy' AND ExecutionStatus = 'Completed'"
            )
        return {
            "alone": alone,
            "beside": replace(beside, noisy_started=counts[0], noisy_ended=ended.count),
        }


async def quiet(client: Client, options: Options, processes: tuple[psutil.Process, ...]) -> Phase:
    """Start runs of the quiet tenant at its rate, and wait for all of them."""
    used, began = [_cpu(each) for each in processes], time.monotonic()
    runs = list[asyncio.Task[float]]()
    while time.monotonic() - began < options.seconds:
        runs.append(asyncio.create_task(timed(client)))
        await asyncio.sleep(random.expovariate(options.quiet))
    took = time.monotonic() - began
    server, worker = [(_cpu(each) - before) / took for each, before in zip(processes, used, strict=True)]
    return Phase(await asyncio.gather(*runs), server, worker)


async def timed(client: Client) -> float:
    """Return the seconds of a run, at most `LONGEST`: behind a backlog that grows, it may never end."""
    began = time.perf_counter()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LONGEST):
            run = await start(client, "quiet")
            await run.result()
    return time.perf_counter() - began


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _server_process() -> psutil.Process:
    children = psutil.Process().children()
    return next(each for each in children if "start-dev" in each.cmdline())


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20, method="inclusive")[-1]


def interval(alone: list[float], beside: list[float]) -> tuple[float, float]:
    """The bootstrapped 90 % interval of the ratio of both p95."""
    chosen = random.Random(1)
    ratios = sorted(
        p95(chosen.choices(beside, k=len(beside))) / p95(chosen.choices(alone, k=len(alone)))
        for _ in range(1_000)
    )
    return ratios[50], ratios[949]


def line(name: str, phases: dict[str, Phase]) -> str:
    alone, beside = phases["alone"], phases["beside"]
    low, high = interval(alone.seconds, beside.seconds)
    ratio = p95(beside.seconds) / p95(alone.seconds)
    return (
        f"{name:28} alone p50 {statistics.median(alone.seconds):6.3f} p95 {p95(alone.seconds):6.3f}   "
        f"beside p50 {statistics.median(beside.seconds):6.3f} p95 {p95(beside.seconds):6.3f}   "
        f"ratio {ratio:5.2f} ({low:.2f} to {high:.2f})   {len(beside.seconds)} runs   "
        f"CPU server {beside.server_cpu:.2f} worker {beside.worker_cpu:.2f}   "
        f"noisy {beside.noisy_ended} of {beside.noisy_started}"
    )


async def main(options: Options, chosen: list[Arm]) -> None:
    results = dict[str, dict[str, Phase]]()
    for arm in chosen:
        results[arm.name] = await measure(arm, options)
        print(line(arm.name, results[arm.name]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    everything = {
        "options": asdict(options),
        "arms": {name: {phase: asdict(of) for phase, of in found.items()} for name, found in results.items()},
    }
    (RESULTS / f"tenants-{time.strftime('%Y%m%d-%H%M%S')}.json").write_text(json.dumps(everything, indent=1))
    last = results[chosen[-1].name]
    ratio = p95(last["beside"].seconds) / p95(last["alone"].seconds)
    print(f"bar: at most {BAR}; {chosen[-1].name}: {ratio:.2f}, {'met' if ratio <= BAR else 'missed'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.tenants")
    parser.add_argument("--quiet", type=float, default=0.2, help="runs a second of the quiet tenant")
    parser.add_argument("--load", type=float, default=100, help="times as many of the noisy one")
    parser.add_argument("--seconds", type=float, default=600, help="of each half of an arm")
    parser.add_argument("--model", type=float, default=0.1, help="seconds that a plan takes")
    parser.add_argument("--slots", type=int, default=60, help="activities of the worker in the last arms")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="only these arms, from 0")
    return parser.parse_args()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worker", address, model]:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(serve(address, float(model)))
        case ["noisy", address, rate]:
            asyncio.run(make_noise(address, float(rate)))
        case _:
            given = _options()
            every = arms(given.slots)
            only: list[int] = given.only or list(range(len(every)))
            options = Options(given.quiet, given.load, given.seconds, given.model)
            asyncio.run(main(options, [every[number] for number in only]))
