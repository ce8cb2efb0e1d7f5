"""Load: how many bytes of large inputs may be sent at once.

All commands of one workflow task are sent in one message of at most 4 MB; the server terminates a run that
sends more. Calls and their plans are bounded together; answers from outside and the inputs of child runs come
on top, any number of them in the same task.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from temporalio import workflow

from sojourn.core.values.wire import size_of

from .versions import patched

__all__ = ["Load"]

MOST = 1_800_000
"""Most bytes in flight; a larger input goes alone."""


class Load:
    """The inputs in flight, of one run."""

    def __init__(self) -> None:
        self._bytes = 0

    async def of(self, value: object) -> AbstractContextManager[None]:
        """Wait until an input fits together with the others in flight; it is in flight during the body of a `with`."""
        size = size_of(value)
        while not self._fits(size) and patched("large-inputs-in-turn"):
            await workflow.wait_condition(lambda: self._fits(size))  # several waiters wake at once
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
