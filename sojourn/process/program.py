"""A program in a process group of its own, which ends with its parent.

A group can outlive its leader, and the system does not reuse its id meanwhile. Process 1 inherits
the children of a dead leader, and in a container may reap them late or never; so zombies do not
count as running.

A program runs in a session of its own, so that Ctrl-C in the terminal reaches only the process that
started it. A server is needed while workers drain, and a worker drains when its parent sends
SIGTERM.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from sojourn.process.parent_death import parent_death_prefix

__all__ = ["Program", "is_running", "signal_group", "start_group"]

_PROCESSES = Path("/proc")


def start_group(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a session and group, without a shell."""
    return subprocess.Popen[bytes](command, bufsize=0, start_new_session=True, **options)


def signal_group(group: int, number: int) -> bool:
    """Signal every process of a group."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_running(group: int) -> bool:
    """Return whether a group without its leader runs, and reap our children in it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)  # as process 1, this process inherits them
    if not signal_group(group, 0):
        return False
    states = set(_states(group))
    return not states or not states <= {"Z", "X"}


def _states(group: int) -> Iterator[str]:
    """Yield the states of a group's processes. Nothing except on Linux."""
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, of, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(of) == group:
                yield state


_POLL = 0.02


class Program:
    """A background process, which is bound to no event loop."""

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
            command if may_outlive_us else [*parent_death_prefix(), *command],
            env=environment,
            stdin=subprocess.PIPE if may_outlive_us else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            pass_fds=keep,
            umask=0o077 if log else -1,  # files of a server are private to its owner
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def wait(self) -> int:
        """Wait for the exit status, or for the negative number of the ending signal."""
        while (status := self._process.poll()) is None:  # noqa: ASYNC110 - bound to no event loop
            await asyncio.sleep(_POLL)
        if self._process.stdin:
            self._process.stdin.close()
        return status

    def terminate(self) -> None:
        """Send SIGTERM to the process alone, so its children may finish while it drains."""
        self._process.send_signal(signal.SIGTERM)

    async def stop(self, grace: timedelta) -> None:
        """Send SIGTERM, and kill the group after `grace`, or at once on cancellation."""
        try:
            self.terminate()
            async with asyncio.timeout(grace.total_seconds()):
                await self.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the group, unless its process has ended already, and reap the process."""
        if self.is_running:
            signal_group(self.pid, signal.SIGKILL)
        self._process.wait()

    def log(self) -> str:
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size - self._log_starts
        # Not read(): the file's position is shared with the writing process.
        return os.pread(self._log.fileno(), size, self._log_starts).decode(errors="replace")
