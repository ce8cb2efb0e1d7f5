"""Off the loop: run work that keeps a processor busy for more than a moment in a thread, not on the event loop.

Hundreds of calls share one loop; validating a large value would delay all of them, and their
heartbeats. There are only two threads, so that such work does not take the whole machine.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sojourn.core.schema.budget import volume
from sojourn.core.schema.validate import Validator

__all__ = ["fits", "run_in_thread"]

LITTLE = 4_000
"""Size in bytes up to which work on a value is done in the loop itself."""

_T = TypeVar("_T")

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="sojourn-check")


async def run_in_thread(work: Callable[[], _T], *, on: object = None) -> _T:
    """The result of a function, or its error, from a thread with this context.

    Args:
        work: The function; it must not touch the event loop.
        on: The value that it works on; for a small value no thread is used.
    """
    if on is not None and volume(on) <= LITTLE:
        return work()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, context.run, work)


async def fits(validator: Validator, value: object) -> bool:
    """Whether a value fits; checked in the loop where that takes only a moment."""
    return validator.fits_at_once(value) or await run_in_thread(lambda: validator.is_valid(value))
