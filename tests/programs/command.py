"""Command: a Python program as a process, with the interface of asyncio's processes."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.programs.server import fork, number_in

__all__ = ["Command"]


class Command:
    """A program whose output is read while it runs."""

    def __init__(
        self,
        pid: int,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        answers: asyncio.StreamReader,
    ) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._answers = answers

    @classmethod
    async def start(
        cls, *arguments: str, cwd: Path, env: Mapping[str, str], stdin: int, before: str = ""
    ) -> Self:
        """Start a Python program.

        Args:
            arguments: The arguments of `python`: `-m MODULE`, `-c CODE` or the path of a script, and the program's own.
            cwd: The working directory.
            env: The whole environment.
            stdin: The descriptor of standard input, which the caller closes.
            before: Code that runs in the process before the program.
        """
        (out, stdout), (err, stderr) = await _output(), await _output()
        answers = fork(arguments, streams=(stdin, out, err), cwd=cwd, env=env, before=before)
        for stream in (out, err):
            os.close(stream)
        reader = await _reader(answers)
        return cls(number_in(await reader.readexactly(8)), stdout, stderr, reader)

    async def wait(self) -> int:
        """Wait until the program ends, and return its exit status; negative is the signal that ended it."""
        if self.returncode is None:
            self.returncode = number_in(await self._answers.readexactly(8))
            await self._answers.read()  # reading to the end closes the pipe
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait until the program ends, and return the rest of its standard output and standard error."""
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Signal the program, without its process group; do nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the program."""
        self.send_signal(signal.SIGKILL)


async def _output() -> tuple[int, asyncio.StreamReader]:
    """Return the writing end of a new pipe, and a reader of its other end."""
    reading, writing = os.pipe()
    return writing, await _reader(reading)


async def _reader(pipe: int) -> asyncio.StreamReader:
    """Return a reader of a pipe, which is closed when it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
    )
    return reader
