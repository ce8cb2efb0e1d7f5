"""Run a command that the kernel kills when the thread that started it ends.

This works on Linux only.

    python -I -S parent_death.py PARENT_PID COMMAND [ARGUMENT...]

This program asks the kernel for SIGKILL when its parent ends, and then replaces itself with the
command. It is a separate program, because Python code between fork and exec may deadlock in a
process with threads.
"""

import ctypes
import os
import signal
import sys

__all__ = ["parent_death_prefix"]

_PR_SET_PDEATHSIG = 1


def parent_death_prefix() -> list[str]:
    """Return a prefix that ends a command with its thread, except off Linux."""
    if sys.platform != "linux" or not sys.executable:
        return []
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that ended before `prctl` sends no signal.
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
