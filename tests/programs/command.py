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

_LEAD = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"


class Command:
    """A program whose output is read while it runs."""

    def __init__(
        self,
        pid: int,
        answers: asyncio.StreamReader,
        stdout: asyncio.StreamReader | None = None,
        stderr: asyncio.StreamReader | None = None,
    ) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._answers = answers

    @classmethod
    async def start(
        cls,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int | None = None,
        before: str = "",
    ) -> Self:
        """Start a Python program.

        Args:
            arguments: The arguments of `python`: `-m MODULE`, `-c CODE` or the path of a script, and the program's own.
            cwd: The working directory.
            env: The whole environment.
            stdin: The descriptor of standard input, which the caller closes.
            stdout: That of standard output, if somebody else reads it.
            before: Code that runs in the process before the program.
        """
        out, reading = (os.dup(stdout), None) if stdout is not None else await _output()
        err, stderr = await _output()
        answers = fork(arguments, streams=(stdin, out, err), cwd=cwd, env=env, before=before)
        for stream in (out, err):
            os.close(stream)
        reader = await _reader(answers)
        return cls(number_in(await reader.readexactly(8)), reader, reading, stderr)

    @classmethod
    async def in_terminal(cls, *arguments: str, terminal: int, cwd: Path, env: Mapping[str, str]) -> Self:
        """Start a Python program on a terminal that becomes the one of its session; it has no streams to read.

        Args:
            arguments: As those of `start`.
            terminal: The descriptor of the terminal, which the caller closes.
            cwd: The working directory.
            env: The whole environment.
        """
        answers = fork(arguments, streams=(terminal, terminal, terminal), cwd=cwd, env=env, before=_LEAD)
        reader = await _reader(answers)
        return cls(number_in(await reader.readexactly(8)), reader)

    async def wait(self) -> int:
        """Wait until the program ends, and return its exit status; negative is the signal that ended it."""
        if self.returncode is None:
            self.returncode = number_in(await self._answers.readexactly(8))
            await self._answers.read()  # reading to the end closes the pipe
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait until the program ends, and return the rest of its standard output and standard error."""
        out, err = await asyncio.gather(_rest(self.stdout), _rest(self.stderr))
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


async def _rest(stream: asyncio.StreamReader | None) -> bytes:
    return await stream.read() if stream else b""
