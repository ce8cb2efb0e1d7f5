"""Fixtures: a Redis server, a hub, and deltas as a worker makes them."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from sojourn.live import Delta
from sojourn.server import ports
from tests.programs import Program

START = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture(autouse=True)
def patient_transports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transport wait for its server, which a busy machine may keep from answering within a second."""
    for name in ("redis", "unix"):
        monkeypatch.setattr(f"sojourn.live.{name}.PATIENCE", 60.0)


class RedisServer:
    """A `redis-server` that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = ports.pick(0, 0)  # not ephemeral: a connection might take such a port while Redis is down
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the server without data, and wait until it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        async with asyncio.timeout(60), Redis.from_url(self.url) as client:
            while True:
                try:
                    await client.ping()
                except RedisError:  # the server does not listen yet
                    assert self._process.poll() is None
                    await asyncio.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class HubProcess:
    """A hub in a process of its own, which can be killed and started again."""

    SERVE = """
import asyncio, sys
from pathlib import Path
from sojourn.live.hub import serving

async def main():
    async with serving(sys.argv[1]):
        Path(sys.argv[2]).touch()
        await asyncio.Event().wait()

asyncio.run(main())
"""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hub.sock"
        self.url = f"unix://{self.path}"
        self._folder = folder
        self._process: Program | None = None

    async def start(self) -> None:
        """Start the hub, and wait until it listens."""
        ready, log = self._folder / "ready", self._folder / "hub.log"
        ready.unlink(missing_ok=True)
        self._process = Program(
            *("-c", self.SERVE, self.url, str(ready)),
            cwd=self._folder,
            env=dict(os.environ),
            out=log,
            err=log,
        )
        async with asyncio.timeout(60):
            while not ready.exists():
                assert self._process.poll() is None, log.read_text()
                await asyncio.sleep(0.01)

    def signal(self, number: int) -> None:
        """Signal the hub."""
        assert self._process
        self._process.signal(number)

    def kill(self) -> None:
        """Kill the hub with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process = None


@pytest.fixture
async def hub(processes) -> AsyncIterator[HubProcess]:
    """A hub for one test, in a private folder with a short name."""
    with tempfile.TemporaryDirectory() as folder:
        process = HubProcess(Path(folder))
        await process.start()
        yield process
        process.kill()


@pytest.fixture
async def redis(processes, tmp_path) -> AsyncIterator[RedisServer]:
    """A Redis server for one test, on a free port."""
    if shutil.which("redis-server") is None:
        reason = "there is no Redis on this machine: apt-get install redis-server"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    server = RedisServer(tmp_path)
    await server.start()
    yield server
    server.kill()


@pytest.fixture
def delta() -> Callable[..., Delta]:
    """Make a delta of a plan and an attempt, by their numbers: `delta("text", seq=3, plan=2, attempt=1)`."""

    def make(text: str = "", *, plan: int = 1, attempt: int = 1, **more: Any) -> Delta:
        scheduled = START + timedelta(minutes=plan)
        fields = {"kind": "text", "at": scheduled, **more}
        return Delta(
            scheduled=scheduled,
            started=scheduled + timedelta(seconds=attempt),
            plan=plan,
            attempt=attempt,
            text=text,
            **fields,
        )

    return make


@pytest.fixture
def first() -> Callable[..., Any]:
    """Read deltas of a subscription until there are at least `count`."""

    async def read(subscription, count: int) -> list[Delta]:
        read: list[Delta] = []
        async with asyncio.timeout(60):
            while len(read) < count:
                read += await anext(subscription)
        return read

    return read
