"""Aside: what keeps a processor busy for more than a moment runs in a thread, off the event loop.

Hundreds of calls share one loop; a check of a large value would hold all of them up, and their
heartbeats. The threads are few, so that checks take turns and not the whole machine.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sojourn.core.schema.budget import volume
from sojourn.core.schema.validate import Validator

__all__ = ["aside", "fits"]

LITTLE = 4_000
"""Bytes of what may be worked on in the loop itself."""

_T = TypeVar("_T")

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="sojourn-check")


async def aside(work: Callable[[], _T], *, on: object = None) -> _T:
    """What the work gives or raises, from a thread, in this context.

    Args:
        work: Reads and decides; it touches nothing of the event loop's.
        on: What it works on; where that is little, there is no thread.
    """
    if on is not None and volume(on) <= LITTLE:
        return work()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, context.run, work)


async def fits(validator: Validator, value: object) -> bool:
    """Whether a value fits; said at once where that takes a moment only."""
    return validator.fits_at_once(value) or await aside(lambda: validator.is_valid(value))
