"""The server's process: start it, end it, read what it said last.

It runs in a session of its own, so that Ctrl-C in the terminal reaches us and
not the server, which workers still need in order to drain. On Linux it is on a
leash: when the thread that started it ends, by SIGKILL too, the kernel kills it.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO

__all__ = ["Child"]

_POLL = 0.02


class Child:
    """A process and its log; usable from any event loop."""

    def __init__(self, command: Sequence[str], *, log: IO[bytes], keep: Sequence[int] = ()) -> None:
        """Start the process.

        Args:
            command: The absolute path of the binary, and its arguments.
            log: An unbuffered file for both of its outputs.
            keep: File descriptors that it inherits.
        """
        self._log = log
        self._log_starts = log.seek(0, os.SEEK_END)
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            [*_leash(), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=keep,
            umask=0o077,  # what a server keeps is for its owner
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
        return status

    async def stop(self, grace: timedelta) -> None:
        """Ask it to end, and kill it when it has not after `grace`, or when we are cancelled."""
        try:
            self._process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(grace.total_seconds()):
                await self.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, and wait until it is gone; nothing when it has ended."""
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        """All it has said."""
        size = os.fstat(self._log.fileno()).st_size - self._log_starts
        # Not read(): the position in the file is shared with the process that writes.
        return os.pread(self._log.fileno(), size, self._log_starts).decode(errors="replace")


def _leash() -> list[str]:
    if sys.platform != "linux" or not sys.executable:
        return []
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")), str(os.getpid())]
