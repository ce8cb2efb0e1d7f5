"""Run a program that ends with the call that runs it.

A program is started in a session of its own. When it has ended, or the call is cancelled or
overdue, the rest of its process group gets SIGTERM, and 2 s later SIGKILL, and is reaped before the
call continues. Only a process that left the group, for a session or group of its own, escapes. No
shell is used: an argument is one argument, even if a model wrote spaces or quotes into it. The
author decides whether an argument may begin with `-`; most programs accept `--` before arguments.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sojourn.errors import ToolUnavailable
from sojourn.process.program import is_running, signal_group, start_group

__all__ = ["Completed", "run_process"]

GRACE = 2.0
"""Most seconds from SIGTERM to SIGKILL, and from SIGKILL until the group is gone.

Both together fit in the 5 s that an activity has after its tool's time-out.
"""

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LC_COLLATE"),
)
"""Environment variables that a program inherits; others may be secrets of the worker, such as keys of models and of Temporal."""

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Completed:
    """The outcome of a program that ended by itself."""

    returncode: int
    """The exit status; negative is the signal that ended the program."""
    stdout: bytes
    """Standard output, up to `max_output` bytes."""
    stderr: bytes
    """Standard error, up to `max_output` bytes."""
    truncated: bool
    """Whether one of the two was longer than `max_output`."""


async def run_process(
    program: str | Path,
    *arguments: str | Path,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: timedelta | None = None,  # noqa: ASYNC109 - it ends the program, too
    max_output: int = 1_000_000,
) -> Completed:
    """Run a program to its end.

    Any exit status is a result, not an error.

    Args:
        program: A path, or a name to look up in `PATH`.
        arguments: The program's arguments, passed unchanged.
        stdin: The program's standard input; empty when None.
        env: Variables that are added to those of `INHERITED`, or replace them; `os.environ` passes on all.
        cwd: The working directory; the worker's when None.
        timeout: Time limit of the program; only the tool's own when None.
        max_output: Bytes kept of each output; the rest is read and dropped.

    Raises:
        ToolUnavailable: This worker has no such program, or may not run it, or cannot start a thread for it.
        TimeoutError: The program took longer than `timeout`, and was ended.
        OSError: `cwd` cannot be used, or the system cannot start the program for another reason.
        ValueError: The program, an argument or a variable holds a NUL character.
    """
    command = [str(program), *map(str, arguments)]
    basics = {name: os.environ[name] for name in INHERITED if name in os.environ}
    child = _Child(command, stdin, {**basics, **(env or {})}, cwd, max_output)
    clock = asyncio.timeout(None if timeout is None else timeout.total_seconds())
    try:
        async with clock:
            return await child.wait()
    except TimeoutError:
        if clock.expired():
            raise TimeoutError(f"{command[0]} did not end within {timeout}") from None
        raise
    finally:
        await _to_its_end(child.end())


class _Child:
    """A running program: its process group and its pipes.

    `asyncio.create_subprocess_exec` is not used: an event loop that shuts down while it connects pipes hangs.
    """

    def __init__(
        self,
        command: list[str],
        stdin: bytes | None,
        env: Mapping[str, str],
        cwd: Path | str | None,
        kept: int,
    ) -> None:
        self._input = stdin
        self._outputs = _Output(kept), _Output(kept)
        self._pipes: list[asyncio.BaseTransport] = []
        self._exited = asyncio.Event()
        try:
            self._process = start_group(
                command,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=cwd,
            )
        except (FileNotFoundError, PermissionError) as error:
            if error.filename != command[0]:
                raise  # about `cwd`
            raise ToolUnavailable(f"{command[0]} cannot be run on this worker: {error.strerror}") from error
        try:
            threading.Thread(target=self._reap, args=[asyncio.get_running_loop()], daemon=True).start()
        except RuntimeError as error:
            signal_group(self._process.pid, signal.SIGKILL)
            self._close()
            self._process.wait()
            raise ToolUnavailable(f"no thread can be started on this worker: {error}") from error

    async def wait(self) -> Completed:
        """Wait until the program has ended. Other processes have 2 s to close its outputs."""
        # A pipe whose connection is cancelled is closed, and a program that writes to it dies of SIGPIPE.
        await _to_its_end(self._connect())
        await self._exited.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                for output in self._outputs:
                    await output.closed.wait()
        out, err = self._outputs
        return Completed(self._process.returncode, bytes(out.kept), bytes(err.kept), out.is_cut or err.is_cut)

    async def _connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        for output, pipe in zip(self._outputs, (process.stdout, process.stderr), strict=True):
            self._pipes.append((await loop.connect_read_pipe(lambda output=output: output, pipe))[0])
        if process.stdin:
            writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            self._pipes.append(writer)
            writer.write(self._input or b"")
            writer.write_eof()

    async def end(self) -> None:
        group = self._process.pid
        try:
            signal_group(group, signal.SIGTERM)
            await self._wait_for_exit(group)
        finally:
            signal_group(group, signal.SIGKILL)
            self._close()
        await self._wait_for_exit(group)

    def _close(self) -> None:
        for pipe in self._pipes:
            if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
                pipe.abort()  # unread input would keep it open
            pipe.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    async def _wait_for_exit(self, group: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._exited.wait()
                while is_running(group):  # noqa: ASYNC110 - the system sends no event
                    await asyncio.sleep(_POLL)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._exited.set)


class _Output(asyncio.Protocol):
    def __init__(self, max_output: int) -> None:
        self._max_output = max_output
        self.kept = bytearray()
        self.is_cut = False
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        room = self._max_output - len(self.kept)
        self.kept += data[:room]
        self.is_cut |= len(data) > room

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature of the base class
        self.closed.set()


async def _to_its_end(step: Coroutine[Any, Any, None]) -> None:
    """Await a step to its end, and raise a cancellation only after it."""
    task = asyncio.ensure_future(step)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled:
        raise cancelled
