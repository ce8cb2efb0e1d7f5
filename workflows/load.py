"""Load: how many bytes of large inputs are on their way at once.

All that begins in one workflow task is sent in one message, of 4 MB at most; what is larger ends the run by force.
Calls and their plans are bounded together; what people and systems send, and what child runs are given, comes
on top, and any number of them in the same task.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from temporalio import workflow

from sojourn.core.values.wire import size_of

__all__ = ["Load"]

MOST = 1_800_000
"""Bytes on their way; one input that is larger goes alone."""


class Load:
    """The inputs on their way, of one run."""

    def __init__(self) -> None:
        self._bytes = 0

    async def of(self, value: object) -> AbstractContextManager[None]:
        """Hold the input back until it fits beside the others; it is on its way in the body of a `with`."""
        size = size_of(value)
        while not self._fits(size) and workflow.patched("large-inputs-in-turn"):
            await workflow.wait_condition(lambda: self._fits(size))  # several are woken at once
        return self._on_its_way(size)

    @contextmanager
    def _on_its_way(self, size: int) -> Generator[None]:
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    def _fits(self, size: int) -> bool:
        return self._bytes == 0 or self._bytes + size <= MOST
