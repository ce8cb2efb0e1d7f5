"""Leash: a command that dies with the process that started it (Linux).

    python -I -S leash.py PARENT_PID COMMAND [ARGUMENT...]

The kernel is asked to kill this process with its parent, and then it becomes
the command. A program of its own because running Python between fork and exec,
in a process with threads, may deadlock.
"""

import ctypes
import os
import signal
import sys

__all__ = ["leash"]

_PR_SET_PDEATHSIG = 1


def leash() -> list[str]:
    """What stands before a command so that it ends with the thread that starts it, by SIGKILL too; nothing but on Linux."""
    if sys.platform != "linux" or not sys.executable:
        return []
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that died before the call would never be noticed.
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
