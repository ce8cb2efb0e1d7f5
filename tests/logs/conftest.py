"""Fixtures: programs that log, as processes of their own, and workers whose every word is kept."""

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
class Said:
    """What a program has written, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its log, where that is JSON: every line of standard error."""
        return [json.loads(line) for line in self.err.splitlines()]


@pytest.fixture
def ended(tmp_path) -> Callable[..., Said]:
    """Run what follows `python`, with settings by keyword, to its end."""

    def run(*arguments: str, **settings: str) -> Said:
        out, err = tmp_path / "said.out", tmp_path / "said.err"
        for stream in (out, err):
            stream.write_text("")
        env = {**os.environ, **QUIET, **settings}
        code = Program(*arguments, cwd=tmp_path, env=env, out=out, err=err).wait()
        return Said(code, out.read_text(), err.read_text())

    return run


@pytest.fixture
def program(ended, tmp_path) -> Callable[..., Said]:
    """Run a program after `configure_logs()`, or with `configured=False` without; settings by keyword."""

    def run(text: str, *, configured: bool = True, **settings: str) -> Said:
        head = "import logging, structlog\nfrom sojourn.logs import configure_logs\n"
        head += "configure_logs()\nlog = structlog.get_logger('shop.tools')\n" if configured else ""
        (tmp_path / "program.py").write_text(head + textwrap.dedent(text))
        return ended("program.py", **settings)

    return run


class Worker:
    """A worker as a process, with what it writes to each of its streams in a file."""

    def __init__(self, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        self._out, self._err = folder / "out", folder / "err"
        env = {**os.environ, **QUIET, **environment}
        self._process = Program(*command, cwd=HERE, env=env, out=self._out, err=self._err)

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """Its standard error so far."""
        return self._err.read_text(errors="replace")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its log so far, where that is JSON; every whole line of standard error."""
        return [json.loads(line) for line in self.err.split("\n")[:-1]]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self) -> int:
        """Have it drain, and give its status."""
        self._process.terminate()
        return self._process.wait()

    def kill(self) -> None:
        """End it at once; nothing when it has ended."""
        self._process.kill()


Start = Callable[..., Awaitable[tuple[Client, Worker]]]


@pytest.fixture(scope="module")
async def worker(temporal_address, tmp_path_factory) -> AsyncIterator[Start]:
    """Start a worker: of `sojourn worker TARGET`, or of a script; gives a client of its queue, and it."""
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
def worker_of(tmp_path_factory) -> Iterator[Callable[..., Worker]]:
    """Start a program that serves, with settings by keyword; it is ended at the end."""
    made: list[Worker] = []

    def start(command: list[str], **settings: str) -> Worker:
        made.append(
            Worker(tmp_path_factory.mktemp("worker"), command, {"SOJOURN_TASK_QUEUE": "", **settings})
        )
        return made[-1]

    yield start
    for each in made:
        each.kill()
