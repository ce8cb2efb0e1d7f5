"""Program: one that lives beside us, such as a server or a worker.

It runs in a session of its own, so that Ctrl-C in the terminal reaches us and not it: a server is needed while workers
drain, and a worker drains when we say so.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from typing import IO

from sojourn.process.group import signal_group, start_group
from sojourn.process.leash import leash

__all__ = ["Program"]

_POLL = 0.02


class Program:
    """A process; usable from any event loop."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: IO[bytes] | None = None,
        keep: Sequence[int] = (),
        may_outlive_us: bool = False,
    ) -> None:
        """Start the process.

        Args:
            command: The absolute path of the binary, and its arguments.
            log: An unbuffered file for both of its outputs; our own outputs when None.
            keep: File descriptors that it inherits.
            may_outlive_us: Whether our end, however it comes, ends only its standard input, so that it may drain.
                Otherwise it reads nothing, and on Linux the kernel kills it with the thread that started it.
        """
        self._log = log
        self._log_starts = log.seek(0, os.SEEK_END) if log else 0
        self._process = start_group(
            command if may_outlive_us else [*leash(), *command],
            stdin=subprocess.PIPE if may_outlive_us else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            pass_fds=keep,
            umask=0o077 if log else -1,  # what a server keeps is for its owner
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    async def wait(self) -> int:
        """Wait until it ends, and return its status; negative is the signal that ended it."""
        while (status := self._process.poll()) is None:  # noqa: ASYNC110 - bound to no event loop
            await asyncio.sleep(_POLL)
        if self._process.stdin:
            self._process.stdin.close()
        return status

    def terminate(self) -> None:
        """Ask it to end (SIGTERM); what it started may finish while it drains."""
        self._process.send_signal(signal.SIGTERM)

    async def stop(self, grace: timedelta) -> None:
        """Ask it to end, and kill it when it has not after `grace`, or when we are cancelled."""
        try:
            self.terminate()
            async with asyncio.timeout(grace.total_seconds()):
                await self.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End it and its group at once, and wait until it is gone; nothing when it has ended."""
        if self.is_running:
            signal_group(self.pid, signal.SIGKILL)
        self._process.wait()

    def log(self) -> str:
        """All it has said to its log."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size - self._log_starts
        # Not read(): the position in the file is shared with the process that writes.
        return os.pread(self._log.fileno(), size, self._log_starts).decode(errors="replace")
