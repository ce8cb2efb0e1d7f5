"""Once: what many look at is read once, and shown to all of them for a moment."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["Once"]

MAX_KNOWN = 1_000
"""Most things that are remembered."""

T = TypeVar("T")


class Once:
    """Remembers what was read."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def read(self, key: Any, fresh: float, read: Callable[[], Awaitable[T]]) -> T:
        """What was read for this key a moment ago, or is being read; else read it.

        Args:
            key: What it is.
            fresh: Seconds for which it is shown as it was read; a failure is not remembered.
            read: Reads it.
        """
        now = time.monotonic()
        known = self._known.pop(key, None)
        if known is None or (known[1].done() and (now - known[0] > fresh or known[1].exception())):
            known = now, asyncio.ensure_future(read())
        self._known[key] = known
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return await asyncio.shield(known[1])
