"""Fixtures: an OTLP receiver, and workers and clients that send to it, each in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sojourn import Client, Run
from tests.programs import Program

HERE = Path(__file__).parent
PATIENCE = 60
WORKER = ("-m", "sojourn", "worker", "traced_app:app")
UNCACHED = ("serve_uncached.py",)


@dataclass
class Desk:
    """One scenario: a folder with what the receiver got, a task queue, and the processes."""

    folder: Path
    client: Client
    environment: dict[str, str]
    processes: list[Program | subprocess.Popen] = field(default_factory=list)

    def start(self, *command: str, log: str, out: str = "", **environment: str) -> Program:
        """Start a Python process of this scenario; its standard output goes to `out`, else to its log."""
        env = {**self.environment, **environment}
        process = Program(*command, cwd=HERE, env=env, out=self.folder / (out or log), err=self.folder / log)
        self.processes.append(process)
        return process

    async def worker(self, *command: str, **environment: str) -> Program:
        """Start a worker, and wait until it serves."""
        log = f"worker-{len(self.processes)}"
        process = self.start(*(command or WORKER), log=log, **environment)
        await self.until(lambda: "worker_ready" in self.log(log) or process.poll() is not None)
        assert process.poll() is None, self.log(log)
        return process

    def begin(self, agent: str, **environment: str) -> tuple[Run, Program]:
        """Start a client process that starts a run and waits for its end."""
        run = self.client.get_run(f"{agent.rpartition('.')[2]}-{uuid.uuid4().hex[:8]}")
        return run, self.start("run_once.py", agent, run.id, log="client", out="report", **environment)

    def begin_cold(self, agent: str, **environment: str) -> tuple[Run, subprocess.Popen]:
        """Start a client process with a new interpreter, for tests of what it imports."""
        run = self.client.get_run(f"{agent.rpartition('.')[2]}-{uuid.uuid4().hex[:8]}")
        env = {**self.environment, **environment}
        command = [sys.executable, "run_once.py", agent, run.id]
        with (self.folder / "report").open("ab") as out, (self.folder / "client").open("ab") as log:
            process = subprocess.Popen(command, cwd=HERE, env=env, stdout=out, stderr=log)
        self.processes.append(process)
        return run, process

    async def finish(self, client: Program | subprocess.Popen) -> Any:
        """Wait for a client process, and return what it printed."""
        assert await asyncio.to_thread(client.wait, PATIENCE) == 0, self.log("client")
        return json.loads(self.log("report").splitlines()[-1])

    async def run(self, agent: str, **environment: str) -> Run:
        """Start a run by a client process, wait for its end, and return the run."""
        run, client = self.begin(agent, **environment)
        await self.finish(client)
        return run

    async def end(self, process: Program) -> None:
        """Terminate a worker, and wait until it has sent its last spans and metrics and ended."""
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0

    def log(self, name: str) -> str:
        """Return the log of a process."""
        return (self.folder / name).read_text()

    @staticmethod
    async def until(claim):
        """Wait until a condition is true, and return its value."""
        async with asyncio.timeout(PATIENCE):
            while not (found := claim()):
                await asyncio.sleep(0.02)
        return found

    # Spans and metrics of the receiver.

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def spans(self) -> list[dict[str, Any]]:
        """Return all spans."""
        return self._lines("spans")

    def points_of_all(self) -> list[dict[str, Any]]:
        """Return the last point of each metric, for each set of attributes and each process."""
        last = {
            json.dumps([point["name"], point["attributes"], point["resource"]["service.instance.id"]]): point
            for point in self._lines("metrics")
        }
        return list(last.values())

    def points(self, name: str) -> list[dict[str, Any]]:
        """Return the last points of one metric."""
        return [point for point in self.points_of_all() if point["name"] == name]

    def count(self, name: str, *by: str) -> Counter:
        """Return the sums of a counter, or the counts of a histogram, by the values of attributes."""
        counts: Counter = Counter()
        for point in self.points(name):
            key = tuple(point["attributes"].get(attribute) for attribute in by)
            counts[key if len(by) != 1 else key[0]] += point.get("value", point.get("count"))
        return counts

    def raw(self) -> bytes:
        """Return the bytes of all requests."""
        path = self.folder / "raw"
        return path.read_bytes() if path.exists() else b""


@asynccontextmanager
async def opened(address: str, folder: Path) -> AsyncIterator[Desk]:
    """Open a scenario with a receiver, to which all its processes send; they are killed at the end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    client = await Client.connect(address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    desk = Desk(folder, client, clean)
    try:
        desk.start("receiver.py", str(folder), log="receiver")
        await desk.until((folder / "port").exists)
        desk.environment = {
            **clean,
            "NO_PROXY": "127.0.0.1",
            "TEMPORAL_ADDRESS": address,
            "SOJOURN_TASK_QUEUE": client.task_queue,
            "SOJOURN_LOG_FORMAT": "json",
            "TRACED_FOLDER": str(folder),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{(folder / 'port').read_text()}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }
        yield desk
    finally:
        for process in desk.processes:
            process.kill()
            process.wait()


@pytest.fixture
async def desk(processes, temporal_address, tmp_path) -> AsyncIterator[Desk]:
    """A scenario for one test."""
    async with opened(temporal_address, tmp_path) as desk:
        yield desk


@pytest.fixture(scope="session", params=[WORKER, UNCACHED], ids=["cached", "replayed at every step"])
async def clerk(processes, request, temporal_address, tmp_path_factory) -> AsyncIterator[tuple[Desk, Run]]:
    """A completed run with every kind of call, which was queried once more, and the scenario with its spans and metrics."""
    async with opened(temporal_address, tmp_path_factory.mktemp("clerk")) as desk:
        worker = await desk.worker(*request.param)
        run = await desk.run("desk.clerk")
        await desk.client.temporal.get_workflow_handle(run.id).query("status")
        await desk.end(worker)
        yield desk, run
