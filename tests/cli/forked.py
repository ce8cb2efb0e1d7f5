"""Commands that fork_server.py runs: started in milliseconds, with the face of asyncio's own processes."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

SCRIPT = Path(__file__).with_name("fork_server.py")


class ForkServer:
    """A process that has imported what commands import, and forks them; a context manager."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="fork-")
        self._path = os.path.join(self._folder.name, "socket")
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, self._path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate()  # the end of its standard input is its own
        self._folder.cleanup()

    async def start(self, stdin: int, **request: Any) -> "Forked":
        """Start a command that reads from a descriptor, which the caller closes."""
        (out, stdout), (err, stderr) = await _output(), await _output()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        socket.send_fds(connection, [b"!"], [stdin, out, err])
        for stream in (out, err):
            os.close(stream)
        answers, asking = await asyncio.open_unix_connection(sock=connection)
        asking.write(json.dumps(request).encode() + b"\n")
        pid = int(await answers.readline())
        return Forked(pid, stdout, stderr, answers, asking)


class Forked:
    """A command that runs."""

    def __init__(
        self,
        pid: int,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        answers: asyncio.StreamReader,
        asking: asyncio.StreamWriter,
    ) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._answers = answers
        self._asking = asking

    async def wait(self) -> int:
        """Its exit status; negative is the signal that ended it."""
        if self.returncode is None:
            self.returncode = int(await self._answers.readline())
            self._asking.close()
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """All that it prints from now on, once it has ended."""
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Signal it alone."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL it."""
        self.send_signal(9)


async def _output() -> tuple[int, asyncio.StreamReader]:
    """The end of a pipe to write to, and a reader of the other."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
    )
    return writing, reader
