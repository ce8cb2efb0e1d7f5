"""Process groups: start a group, signal it, and check whether any of its processes still runs.

A group can outlive its leader, and the system does not reuse its id meanwhile. Process 1 inherits the children
of a dead leader, and in a container may reap them late or never; so zombies do not count as running.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["is_running", "signal_group", "start_group"]

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
    """Signal every process of a group; return False if there is none that may be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_running(group: int) -> bool:
    """Whether a group whose leader was reaped has a process that runs; reaps this process's children in it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)  # as process 1, this process inherits them
    if not signal_group(group, 0):
        return False
    states = set(_states(group))
    return not states or not states <= {"Z", "X"}


def _states(group: int) -> Iterator[str]:
    """Yield the states of a group's processes, from `/proc`; nothing except on Linux."""
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, of, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(of) == group:
                yield state
