"""Run a command that dies with the process that started it (Linux).

    python -I -S leash.py PARENT_PID COMMAND [ARGUMENT...]

The kernel is asked to kill this process with its parent, and then it becomes
the command. A file of its own because running Python between fork and exec, in
a process with threads, may deadlock.
"""

import ctypes
import os
import signal
import sys

__all__: list[str] = []

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that died before the call would never be noticed.
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
