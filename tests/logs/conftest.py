"""Fixtures: programs that log and workers, as processes whose output is kept."""

import asyncio
import json
import os
import textwrap
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sojourn import Client
from tests.programs import Program

from .waiting import until

HERE = Path(__file__).parent
QUIET = {"NO_COLOR": "", "FORCE_COLOR": "", "SOJOURN_LOG_FORMAT": "", "SOJOURN_LOG_LEVEL": ""}


@dataclass
class Output:
    """The output of a program, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The program's log in JSON: every line of standard error."""
        return [json.loads(line) for line in self.err.splitlines()]


@pytest.fixture
def ended(processes, tmp_path) -> Callable[..., Output]:
    """Run Python with these arguments to its end, with environment variables by keyword."""

    def run(*arguments: str, **settings: str) -> Output:
        out, err = tmp_path / "out", tmp_path / "err"
        for stream in (out, err):
            stream.write_text("")
        env = {**os.environ, **QUIET, **settings}
        code = Program(*arguments, cwd=tmp_path, env=env, out=out, err=err).wait()
        return Output(code, out.read_text(), err.read_text())

    return run


@pytest.fixture
def program(ended, tmp_path) -> Callable[..., Output]:
    """Run a program text after `configure_logs()`, or without by `configured=False`; environment variables by keyword."""

    def run(text: str, *, configured: bool = True, **settings: str) -> Output:
        head = "import logging, structlog\nfrom sojourn.logs import configure_logs\n"
        head += "configure_logs()\nlog = structlog.get_logger('shop.tools')\n" if configured else ""
        (tmp_path / "program.py").write_text(head + textwrap.dedent(text))
        return ended("program.py", **settings)

    return run


class Worker:
    """A worker process, whose output streams are written to files."""

    def __init__(self, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        self._out, self._err = folder / "out", folder / "err"
        env = {**os.environ, **QUIET, **environment}
        self._process = Program(*command, cwd=HERE, env=env, out=self._out, err=self._err)

    @property
    def out(self) -> str:
        """The worker's standard output so far."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """The worker's standard error so far."""
        return self._err.read_text(errors="replace")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The worker's log in JSON so far: every complete line of standard error."""
        return [json.loads(line) for line in self.err.split("\n")[:-1]]

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def stop(self) -> int:
        """Terminate the worker, wait until it has drained, and return its exit code."""
        self._process.terminate()
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self._process.kill()


Start = Callable[..., Awaitable[tuple[Client, Worker]]]


@pytest.fixture(scope="module")
async def worker(processes, temporal_address, tmp_path_factory) -> AsyncIterator[Start]:
    """Start a worker by `sojourn worker TARGET` or by a script, and return a client of its task queue with the worker."""
    made: list[Worker] = []

    async def start(
        target: str,
        *,
        queue: str | None = None,
        log_format: str = "json",
        level: str = "info",
        **environment: str,
    ) -> tuple[Client, Worker]:
        client = await Client.connect(temporal_address, task_queue=queue or f"q-{uuid.uuid4().hex[:8]}")
        command = [target] if target.endswith(".py") else ["-m", "sojourn", "worker", target]
        settings = {
            "TEMPORAL_ADDRESS": temporal_address,
            "SOJOURN_TASK_QUEUE": client.task_queue,
            "SOJOURN_LOG_FORMAT": log_format,
            "SOJOURN_LOG_LEVEL": level,
        }
        found = Worker(tmp_path_factory.mktemp("worker"), command, {**settings, **environment})
        made.append(found)

        def is_ready() -> bool:
            assert found.is_running, found.err + found.out
            return "worker_ready" in found.err

        await until(is_ready)
        return client, found

    yield start
    await asyncio.to_thread(lambda: [each.kill() for each in made])


@pytest.fixture(scope="module")
def worker_of(processes, tmp_path_factory) -> Iterator[Callable[..., Worker]]:
    """Start Python with a command, with environment variables by keyword; the process is killed at the end."""
    made: list[Worker] = []

    def start(command: list[str], **settings: str) -> Worker:
        made.append(
            Worker(tmp_path_factory.mktemp("worker"), command, {"SOJOURN_TASK_QUEUE": "", **settings})
        )
        return made[-1]

    yield start
    for each in made:
        each.kill()
