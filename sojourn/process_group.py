"""A program's process group: start it, signal it, and see whether anything of it still runs.

A group outlives its leader, and its id is not given to others while it does. What a dead leader
started is inherited by process 1, which in a container reaps it late, or never: the dead that
nobody has reaped do not count as running.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sojourn.errors import ToolUnavailable

__all__ = ["is_running", "signal_group", "start_group"]

_PROCESSES = Path("/proc")


def start_group(
    command: Sequence[str], *, reads: bool, env: Mapping[str, str], cwd: str | Path | None
) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a session and group, with pipes; `reads` says whether for input too.

    Raises:
        ToolUnavailable: There is no such program, or it may not be run.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - there is no shell
            command,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError) as error:
        if error.filename != command[0]:
            raise  # the directory
        raise ToolUnavailable(f"{command[0]} cannot be run on this worker: {error.strerror}") from error


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
