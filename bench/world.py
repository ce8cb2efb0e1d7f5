"""The environments that scripted runs act on, in the benchmark's process, and the worker that is killed beside it.

A real system has its state outside the worker, recognizes a request that comes again by its idempotency key, and survives the
worker. So does a `World`: the tools of `bench.scripted` call it over a Unix socket, and each key takes effect once.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from bench.scripted import APP, MAX_LINE, SOCKET, Request, ScriptedApp
from sojourn import Client
from sojourn.process.program import Program
from sojourn.server import Server

__all__ = ["Environment", "Executed", "Moment", "Scene", "World", "scene"]

Moment = Literal["before the effect", "after the effect", "after the answer"]
"""When a call's worker is killed. `after the effect` means before the answer, which is lost."""


class Environment(Protocol):
    """The state of one task, which its tools read and change."""

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call, and return its result as JSON.

        Raises:
            ValueError: The tool answers with an error.
        """
        ...


@dataclass(frozen=True, slots=True)
class Executed:
    """A call that took effect in an environment."""

    run_id: str
    tool: str
    tool_call_id: str


class World:
    """Serves environments, by the id of the run that acts on each, and counts what took effect."""

    def __init__(self) -> None:
        self._environments: dict[str, Environment] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self.executed: list[Executed] = []
        self.repeated = 0
        """Requests whose key had taken effect before."""
        self.arrived = 0
        """All requests."""
        self.kills: Callable[[int], Moment | None] = lambda _: None
        """Whether, and when, to kill the worker of a request, by its number."""
        self.kill: Callable[[], None] = lambda: None
        """Kills the worker."""

    def open(self, run_id: str, environment: Environment) -> None:
        """Let a run act on an environment."""
        self._environments[run_id] = environment

    def executed_by(self, run_id: str) -> list[Executed]:
        """Return the calls of a run that took effect, in order."""
        return [each for each in self.executed if each.run_id == run_id]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        try:
            request = Request.model_validate_json(await reader.readline())
            self.arrived += 1
            moment = self.kills(self.arrived)
            if moment == "before the effect":
                self.kill()
                return
            answer = self._answer(request)
            if moment == "after the effect":
                self.kill()
                return
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
            if moment:
                self.kill()
        except ConnectionError:
            pass  # the worker was killed meanwhile
        finally:
            writer.close()

    def _answer(self, request: Request) -> dict[str, Any]:
        if request.key in self._answers:
            self.repeated += 1
            return self._answers[request.key]
        self.executed.append(Executed(request.run_id, request.tool, request.tool_call_id))
        try:
            answer = {
                "result": self._environments[request.run_id].call(request.tool, dict(request.arguments))
            }
        except ValueError as error:
            answer = {"error": str(error)}
        self._answers[request.key] = answer
        return answer


@dataclass(slots=True)
class Scene:
    """A server, a world, a client, and the process of a worker, which can be killed."""

    client: Client
    world: World
    _start: Callable[[], Program]
    _worker: Program

    def replace_worker(self) -> None:
        """Kill the worker with SIGKILL, and start another one."""
        self._worker.kill()
        self._worker = self._start()

    def end_worker(self) -> None:
        """Kill the worker."""
        self._worker.kill()

    @property
    def log(self) -> str:
        """The log of the present worker."""
        return self._worker.log()


@asynccontextmanager
async def scene(app: ScriptedApp) -> AsyncGenerator[Scene]:
    """Serve an app by `sojourn worker`, in a process of its own, beside a development server of its own."""
    world = World()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile(buffering=0) as log:
        path = Path(folder)
        (path / "app.json").write_text(app.model_dump_json())
        async with (
            await asyncio.start_unix_server(world.serve, path / "world", limit=MAX_LINE),
            Server(attach=False, port=0, ui=False) as server,
            Client.connect(server.address, task_queue=app.name) as client,
        ):
            variables = {
                **os.environ,
                "TEMPORAL_ADDRESS": server.address,
                SOCKET: str(path / "world"),
                APP: str(path / "app.json"),
            }
            command = [sys.executable, "-m", "sojourn", "worker", "bench.scripted:app"]
            start = partial(Program, command, environment=variables, log=log)
            acted = Scene(client, world, start, start())
            world.kill = acted.replace_worker
            try:
                yield acted
            except BaseException:
                print(acted.log, file=sys.stderr)
                raise
            finally:
                acted.end_worker()
