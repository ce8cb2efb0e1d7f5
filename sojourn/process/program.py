"""Program: a process that runs in the background, such as a server or a worker.

It runs in a session of its own, so that Ctrl-C in the terminal reaches only the process that started it: a server is
needed while workers drain, and a worker drains when it is asked to.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import IO

from sojourn.process.group import signal_group, start_group
from sojourn.process.parent_death import killed_with_parent

__all__ = ["Program"]

_POLL = 0.02


class Program:
    """A background process; bound to no event loop."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
        keep: Sequence[int] = (),
        may_outlive_us: bool = False,
    ) -> None:
        """Start the process.

        Args:
            command: The absolute path of the binary, and its arguments.
            environment: All its environment variables; this process's own when None.
            log: An unbuffered file for standard output and standard error; this process's own when None.
            keep: File descriptors that the process inherits.
            may_outlive_us: Whether the process may drain after this process ends: the end only closes its standard
                input. Otherwise its standard input is empty, and on Linux the kernel kills it with the thread that
                started it.
        """
        self._log = log
        self._log_starts = log.seek(0, os.SEEK_END) if log else 0
        self._process = start_group(
            command if may_outlive_us else [*killed_with_parent(), *command],
            env=environment,
            stdin=subprocess.PIPE if may_outlive_us else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            pass_fds=keep,
            umask=0o077 if log else -1,  # files of a server are private to its owner
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    async def wait(self) -> int:
        """Wait until the process ends, and return its exit status; negative is the signal that ended it."""
        while (status := self._process.poll()) is None:  # noqa: ASYNC110 - bound to no event loop
            await asyncio.sleep(_POLL)
        if self._process.stdin:
            self._process.stdin.close()
        return status

    def terminate(self) -> None:
        """Send SIGTERM to the process alone: what it started may finish while it drains."""
        self._process.send_signal(signal.SIGTERM)

    async def stop(self, grace: timedelta) -> None:
        """Send SIGTERM, and kill the group if the process has not ended after `grace`, or on cancellation."""
        try:
            self.terminate()
            async with asyncio.timeout(grace.total_seconds()):
                await self.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process and its group, and wait until the process is reaped; if it has ended, its group is left alone."""
        if self.is_running:
            signal_group(self.pid, signal.SIGKILL)
        self._process.wait()

    def log(self) -> str:
        """Return what the process wrote to `log`; empty without one."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size - self._log_starts
        # Not read(): the file's position is shared with the writing process.
        return os.pread(self._log.fileno(), size, self._log_starts).decode(errors="replace")
