"""Pulse: whether Temporal answers at all, looked for once for everybody whose page waits for it."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar
from weakref import WeakKeyDictionary

from sojourn.errors import ServerUnavailable
from sojourn.http.service import Service

__all__ = ["SILENCE", "Pulse", "pulse_of"]

PATIENCE = 5.0
"""Seconds that a page is made before it is looked whether Temporal answers."""

FRESH = 5.0
"""Seconds for which the last answer holds."""

SILENCE = "Temporal does not answer"
"""What is told of it where a page is live."""

T = TypeVar("T")


class Pulse:
    """Looks whether Temporal answers.

    Args:
        service: The service, whose server it is.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looked_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self.is_felt = True
        """Whether it did when somebody last looked."""

    async def feel(self) -> bool:
        """Whether Temporal answers now."""
        if self._looking is None and (not self._looked_at or time.monotonic() - self._looked_at > FRESH):
            self._looking = asyncio.create_task(self._look(), name="pulse")
        if self._looking is not None:
            await asyncio.wait({self._looking})
        return self.is_felt

    async def while_felt(self, making: Awaitable[T]) -> T:
        """What is made, however long it takes while Temporal answers.

        Raises:
            ServerUnavailable: It does not answer.
        """
        task = asyncio.ensure_future(making)
        try:
            while not (await asyncio.wait({task}, timeout=PATIENCE))[0]:
                if not await self.feel() and not task.done():
                    raise ServerUnavailable("the Temporal server does not answer; is it running?")
            return task.result()
        finally:
            task.cancel()

    async def _look(self) -> None:
        try:
            self.is_felt = await self._service.is_up(PATIENCE)
        finally:
            self._looked_at, self._looking = time.monotonic(), None


_PULSES: WeakKeyDictionary[Service, Pulse] = WeakKeyDictionary()


def pulse_of(service: Service) -> Pulse:
    """The pulse of a service's server."""
    return _PULSES.setdefault(service, Pulse(service))
