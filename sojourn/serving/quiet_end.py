"""Ending: a program that has used Temporal's SDK ends with its own status.

The SDK's threads wake an event loop with a result. When the interpreter ends before such a thread is
back from there, Python ends the thread in the middle, and the SDK's runtime aborts the whole process:
`Fatal Python error: PyGILState_Release`. The result is there by then, so a program that connects and
ends right away meets this again and again on a busy machine. There is nothing in the SDK to wait for;
what can be seen is that a thread which Python did not start is inside Python code.
"""

import atexit
import functools
import sys
import threading
import time

__all__ = ["end_quietly"]

_LONGEST = 5.0
"""Seconds; a stranger's thread that stays in Python code for longer is none of the SDK's."""

_POLL = 0.001


@functools.cache
def end_quietly() -> None:
    """Have this process, at its end, wait until the SDK's threads are out of Python code."""
    # Once, and early: what is registered first runs last, when the rest of the program has ended.
    atexit.register(_settle)


def _settle() -> None:
    until = time.monotonic() + _LONGEST
    while _strangers() and time.monotonic() < until:
        time.sleep(_POLL)  # lets go of the interpreter lock, for which such a thread waits
    # From here to the interpreter's end the lock is ours, so that no thread gets in again.


def _strangers() -> set[int]:
    """The threads in Python code that Python did not start."""
    # A thread that asks for its own name is given a stand-in.
    own = {one.ident for one in threading.enumerate() if not isinstance(one, threading._DummyThread)}  # noqa: SLF001
    return {ident for ident in sys._current_frames() if ident not in own}  # noqa: SLF001
