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

from sojourn.process.parent_death import killed_with_parent

__all__ = ["Program", "is_running", "signal_group", "start_group"]

_PROCESSES = Path("/proc")


def start_group(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a session and group, without a shell.

    Args:
        command: The program and its arguments.
        options: Options of `subprocess.Popen`, such as streams, environment and directory.

    Raises:
        OSError: The program cannot be started.
    """
    return subprocess.Popen[bytes](command, bufsize=0, start_new_session=True, **options)


def signal_group(group: int, number: int) -> bool:
    """Signal every process of a group.

    Returns:
        False if there is no process that this one may signal.
    """
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_running(group: int) -> bool:
    """Return whether a group whose leader was reaped has a running process.

    It reaps this process's children in the group.
    """
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)  # as process 1, this process inherits them
    if not signal_group(group, 0):
        return False
    states = set(_states(group))
    return not states or not states <= {"Z", "X"}


def _states(group: int) -> Iterator[str]:
    """Yield the states of a group's processes, from `/proc`.

    Yields nothing except on Linux.
    """
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
        """Wait until the process ends, and return its exit status.

        A negative status is the signal that ended it.
        """
        while (status := self._process.poll()) is None:  # noqa: ASYNC110 - bound to no event loop
            await asyncio.sleep(_POLL)
        if self._process.stdin:
            self._process.stdin.close()
        return status

    def terminate(self) -> None:
        """Send SIGTERM to the process alone: what it started may finish while it drains."""
        self._process.send_signal(signal.SIGTERM)

    async def stop(self, grace: timedelta) -> None:
        """Send SIGTERM, and kill the group if the process has not ended after `grace`.

        On cancellation, the group is killed at once.
        """
        try:
            self.terminate()
            async with asyncio.timeout(grace.total_seconds()):
                await self.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process and its group, and wait until the process is reaped.

        If the process has ended already, its group is left alone.
        """
        if self.is_running:
            signal_group(self.pid, signal.SIGKILL)
        self._process.wait()

    def log(self) -> str:
        """Return what the process wrote to `log`, or an empty text without a log."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size - self._log_starts
        # Not read(): the file's position is shared with the writing process.
        return os.pread(self._log.fileno(), size, self._log_starts).decode(errors="replace")
