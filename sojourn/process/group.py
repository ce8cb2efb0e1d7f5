"""A program's process group: start it, signal it, and see whether anything of it still runs.

A group outlives its leader, and its id is not given to others while it does. What a dead leader
started is inherited by process 1, which in a container reaps it late, or never: the dead that
nobody has reaped do not count as running.
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
        options: As for `subprocess.Popen`: streams, environment, folder.
    """
    return subprocess.Popen[bytes](command, bufsize=0, start_new_session=True, **options)


def signal_group(group: int, number: int) -> bool:
    """Signal every process of a group; whether any was there."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_running(group: int) -> bool:
    """Whether a group whose leader was reaped has a process that runs; reaps those that are ours."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)  # we are their heir when we are process 1
    if not signal_group(group, 0):
        return False
    states = set(_states(group))
    return not states or not states <= {"Z", "X"}


def _states(group: int) -> Iterator[str]:
    """The states of a group's processes, as Linux tells them; nothing elsewhere."""
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, of, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(of) == group:
                yield state
