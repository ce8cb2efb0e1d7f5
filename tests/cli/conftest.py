"""Fixtures: the `sojourn` command as a process, and runs of the app in desk_app.py."""

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sojourn import Client, Run
from tests import programs

DESK = Path(__file__).with_name("desk_app.py")

PATIENCE = 120.0
"""Most seconds that a command may take, whatever happens."""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON value on standard output."""
        return json.loads(self.out)

    @property
    def objects(self) -> list[Any]:
        """The JSON values on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Awaitable[Done]]


@pytest.fixture
def start_command(processes, tmp_path) -> Callable[..., Awaitable[programs.Command]]:
    """Start `sojourn` with these arguments, with optional `input` or descriptors, `env`, `cwd`, and code to run `before`."""

    async def start(
        *arguments: str,
        input: str | bytes = "",
        stdin: int | None = None,
        stdout: int | None = None,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        before: str = "",
    ) -> programs.Command:
        with tempfile.TemporaryFile() as file:
            file.write(input if isinstance(input, bytes) else input.encode())
            file.seek(0)
            return await programs.Command.start(
                "-m",
                "sojourn",
                *arguments,
                stdin=file.fileno() if stdin is None else stdin,
                stdout=stdout,
                env={**os.environ, **(env or {})},
                cwd=cwd or tmp_path,
                before=before,
            )

    return start


@pytest.fixture
def command(start_command) -> Command:
    """Run `sojourn` to its end with the options of `start_command`; return its exit code and output."""

    async def run(*arguments: str, **options: Any) -> Done:
        process = await start_command(*arguments, **options)
        try:
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            process.kill()
            pytest.fail(f"sojourn {' '.join(arguments)} did not end")
        return Done(process.returncode, out.decode(), err.decode())

    return run


@pytest.fixture(scope="session")
def desk():
    """The module of desk_app.py."""
    spec = importlib.util.spec_from_file_location("desk_app", DESK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Served:
    """The desk's app on a worker, with the environment variables with which commands find it."""

    client: Client
    env: dict[str, str]
    command: Command
    status_when: Callable[..., Awaitable[Any]]

    async def sojourn(self, *arguments: str, **options: Any) -> Done:
        """Run a command on this server and queue."""
        return await self.command(*arguments, env=self.env, **options)

    async def start(self, text: str, *, session_id: str = "") -> Run:
        """Start a run of the clerk."""
        run_id = f"{text.split(maxsplit=1)[0]}-{uuid.uuid4().hex[:8]}"
        return await self.client.start("desk.clerk", text, run_id=run_id, session_id=session_id)

    async def waiting(self, text: str, count: int = 1) -> Run:
        """Start a run, and wait until it has `count` open waits, or `count` child runs have."""
        run = await self.start(text)
        await self.status_when(run, lambda status: len(status.awaits or status.child_awaits) == count)
        return run

    async def end_left_open(self) -> None:
        """End the runs that tests before this one left open on the server."""
        temporal = self.client.temporal
        async for run in temporal.list_workflows("ExecutionStatus = 'Running'"):
            await temporal.get_workflow_handle(run.id).terminate()


@pytest.fixture
async def served(serve, desk, temporal_address, command, status_when) -> Served:
    """The desk's app, served in this process; commands run in processes of their own."""
    client = await serve(desk.app)
    env = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}
    return Served(client, env, command, status_when)
