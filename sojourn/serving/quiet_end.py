"""Ending: a program that has used Temporal's SDK exits with its own status.

The SDK's threads wake an event loop with a result. When the interpreter ends before such a thread has
returned, Python ends the thread in the middle, and the SDK's runtime aborts the whole process: `Fatal Python
error: PyGILState_Release`. The result has been delivered by then, so a program that connects and ends right
away meets this often on a busy machine. The SDK has nothing to wait for; but Python shows whether a thread
that it did not start is inside Python code.

Python 3.14, and 3.13 at least since 3.13.5, suspend such a thread for ever instead of ending it. If the SDK's runtime is freed
while the interpreter shuts down, it waits for its threads, and the process never ends.
"""

import atexit
import ctypes
import functools
import gc
import sys
import threading
import time

__all__ = ["end_quietly"]

_LONGEST = 5.0
"""Longest wait in seconds; a thread that stays in Python code for longer is not the SDK's."""

_POLL = 0.001


@functools.cache
def end_quietly() -> None:
    """Make this process, at its exit, wait until the SDK's threads have left Python code."""
    # Once, and early: the first registered function runs last, when the rest of the program has ended.
    atexit.register(_settle)


def _settle() -> None:
    until = time.monotonic() + _LONGEST
    while _foreign_threads() and time.monotonic() < until:
        time.sleep(_POLL)  # releases the interpreter lock, for which such a thread waits
    # From here to the interpreter's end this thread holds the lock, so that no other thread enters Python
    # code.
    _keep_runtimes()


def _keep_runtimes() -> None:
    """Leak each runtime of the SDK, so that Python never frees it; the end of the process ends its threads."""
    if runtimes := sys.modules.get("temporalio.runtime"):
        for each in gc.get_objects():
            if issubclass(type(each), runtimes.Runtime):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


def _foreign_threads() -> set[int]:
    """Ids of the threads in Python code that Python did not start."""
    # A foreign thread that asks for its own name gets a stand-in.
    own = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}  # noqa: SLF001
    return {ident for ident in sys._current_frames() if ident not in own}  # noqa: SLF001
