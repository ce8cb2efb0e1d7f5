"""`python -m bench.followers`: 500 streams of 50 runs from one process of the HTTP service, and what a run costs over HTTP.

Server, worker, service and reader are processes of their own. The lag of an event is from its time by the server's clock until
its reader has it, on the same machine.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import datetime

import httpx2
import psutil
from rich.console import Console
from rich.table import Table

from bench import load
from bench.waiting import serve, some_at_once, worker_of
from sojourn import Agent, App, Client, PlanResult, Run, RunPolicy, Toolset, Turn
from sojourn.server import Server
from sojourn.worker import MAX_CACHED_RUNS

__all__: list[str] = []

PAUSE = float(os.environ.get("BENCH_PAUSE", "2"))
"""Seconds that each call takes, so that the runs themselves leave the machine to their readers."""

WARM = 10
"""Runs before the comparison with the client."""

tools = Toolset("bench.load", description="Work of a known size")


@tools.tool
async def rest(text: str) -> str:
    """Wait, and return 200 bytes."""
    await asyncio.sleep(PAUSE)
    return load.result(text)


@tools.tool
async def echo(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


async def plan(turn: Turn) -> PlanResult:
    """Make as many calls as the first message says, one a plan; `rest` or `echo`, as it says too."""
    word, count = turn.messages[0].text.split()
    made = len(turn.messages) // 2
    if made < int(count):
        tool = rest if word == "rest" else echo
        return PlanResult.calls(tool.call(text=load.argument(made)))
    return PlanResult.final("done")


app = App(agents=[Agent("bench.agent", planner=plan, uses=[tools], policy=RunPolicy(max_tool_rounds=1_000))])


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one measurement."""

    readers: int
    """Streams that were open at once."""
    runs: int
    """Runs that they followed."""
    delivered: int
    """Events that were read by all of them together."""
    missing: int
    """Events of the histories that a reader did not get, or got twice."""
    p50: float
    """Milliseconds of lag, in the middle."""
    p95: float
    """The same of the slowest twentieth."""
    p99: float
    """The same of the slowest hundredth."""
    added: int
    """History events that the followed runs have more than those that nobody followed."""
    before: float
    """Resident memory of the service in MB, without a stream."""
    during: float
    """The most while the streams were open."""
    cpu: float
    """CPU seconds of the service while the runs went on."""
    seconds: float
    """How long they went on."""
    http: float
    """Milliseconds of a run of 3 calls, from `POST /v1/runs` to its output, in the middle of 40."""
    client: float
    """The same by the Python client."""
    ratio: float
    """The one divided by the other."""


@asynccontextmanager
async def service(address: str) -> AsyncGenerator[tuple[str, psutil.Process]]:
    """The HTTP service as a process; yields its host and port, and the process."""
    words = ("-m", "sojourn", "serve", "bench.followers:app", "--port", "0", "--json")
    env = {**os.environ, "TEMPORAL_ADDRESS": address}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    told = json.loads(await process.stdout.readline())
    try:
        yield told["address"].removeprefix("http://"), psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


_DATA = re.compile(rb'^data: .*?"event_id":"([0-9-]+)","time":"([^"]+)"')


async def read(at: str, run_id: str, lags: list[float]) -> list[str]:
    """Read a stream to its end; return the ids of its events, and add the lag of each."""
    host, _, port = at.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1_000_000)
    writer.write(
        f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: {at}\r\nAccept: text/event-stream\r\n\r\n".encode()
    )
    ids: list[str] = []
    began = time.time()  # what had happened before is caught up with, and says nothing about lag
    while line := await reader.readline():
        if line == b"0\r\n":
            break
        if found := _DATA.match(line):
            now, then = time.time(), datetime.fromisoformat(found[2].decode()).timestamp()
            ids.append(found[1].decode())
            if then > began:
                lags.append(1000 * (now - then))
    writer.close()
    return ids


async def length_of(client: Client, run_id: str) -> int:
    """Number of history events of a run."""
    return (await client.temporal.get_workflow_handle(run_id).describe()).history_length


async def compared(client: Client, at: str) -> tuple[float, float]:
    """Milliseconds of a run by HTTP and by the client, in turn, each in the middle of 40."""
    by_http: list[float] = []
    by_client: list[float] = []
    async with httpx2.AsyncClient(base_url=f"http://{at}", timeout=60) as http:
        for number in range(WARM + 40):
            began = time.perf_counter()
            await client.execute("bench.agent", "echo 3")
            middle = time.perf_counter()
            started = await http.post("/v1/runs", json={"agent_id": "bench.agent", "input": "echo 3"})
            path = f"/v1/runs/{started.json()['run_id']}/output"
            outcome = await http.get(path, params={"wait": 30})
            ended = time.perf_counter()
            assert outcome.json()["output"]["text"] == "done"
            if number >= WARM:
                by_client.append(1000 * (middle - began))
                by_http.append(1000 * (ended - middle))
    return statistics.median(by_http), statistics.median(by_client)


async def measure(readers: int, runs: int, calls: int) -> Sample:
    """The figures of so many readers, spread over so many runs."""
    async with (
        Server(attach=False, port=0, ui=False) as server,
        worker_of(server.address, MAX_CACHED_RUNS, "bench.followers"),
        service(server.address) as (at, process),
    ):
        client = await Client.connect(server.address)
        http, direct = await compared(client, at)
        alone = [await client.start("bench.agent", f"rest {calls}") for _ in range(3)]
        for run in alone:
            await run.result()
        before, used, began = process.memory_info().rss / 1e6, process.cpu_times(), time.perf_counter()
        followed: list[Run] = await some_at_once(
            client.start("bench.agent", f"rest {calls}") for _ in range(runs)
        )
        lags: list[float] = []
        reading = [
            asyncio.create_task(read(at, followed[number % runs].id, lags)) for number in range(readers)
        ]
        most = before
        while not all(task.done() for task in reading):
            most = max(most, process.memory_info().rss / 1e6)
            await asyncio.wait(reading, timeout=0.5)
        seconds, now = time.perf_counter() - began, process.cpu_times()
        missing = 0
        whole = {run.id: [event.event_id async for event in run.events(follow=False)] for run in followed}
        for number, task in enumerate(reading):
            missing += len(set(whole[followed[number % runs].id]) ^ set(task.result()))
            missing += len(task.result()) - len(set(task.result()))
        lengths = [await length_of(client, run.id) for run in followed]
        usual = max([await length_of(client, run.id) for run in alone])
        cuts = statistics.quantiles(lags, n=100)
        return Sample(
            readers=readers,
            runs=runs,
            delivered=sum(len(task.result()) for task in reading),
            missing=missing,
            p50=cuts[49],
            p95=cuts[94],
            p99=cuts[98],
            added=max(lengths) - usual,
            before=before,
            during=most,
            cpu=now.user + now.system - used.user - used.system,
            seconds=seconds,
            http=http,
            client=direct,
            ratio=http / direct,
        )


async def main(options: argparse.Namespace) -> None:
    """Measure, and print a table."""
    sample = await measure(options.readers, options.runs, options.calls)
    table = Table(title=f"{options.readers} readers of {options.runs} runs of {options.calls} calls")
    table.add_column("figure")
    table.add_column(justify="right")
    for field in fields(Sample):
        table.add_row(field.name, f"{getattr(sample, field.name):.4g}")
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.followers")
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--calls", type=int, default=15)
    parser.add_argument("--caches", type=int, nargs="+", default=[MAX_CACHED_RUNS], help=argparse.SUPPRESS)
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(chosen.serve, chosen.caches[0], app) if chosen.serve else main(chosen))
