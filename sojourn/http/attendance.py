"""Attendance: a request waits only while its client waits for it, and is let in, and this process goes on.

What it waits for goes on by itself: nothing is sent or changed while it waits, so that nothing is lost where it does not wait to the end.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Scope

from sojourn.http.locks.authenticated import unauthenticated
from sojourn.http.locks.limits import count
from sojourn.http.locks.presence import presence_of
from sojourn.http.service import Service

__all__ = ["Attendance", "Stopping"]

Result = TypeVar("Result")


class Stopping(TimeoutError):  # noqa: N818 - it says why the time is over
    """A wait is over before its time, since this process of the service stops."""


class Attendance:
    """The waiting of one request.

    Args:
        service: The service.
        scope: Of the request, which has passed the locks.
    """

    def __init__(self, service: Service, scope: Scope) -> None:
        self.service = service
        self._scope = scope

    def count(self) -> None:
        """Count the request among the streams of its principal, before it has any effect.

        Raises:
            Problem: The principal has too many (429).
        """
        count(self._scope)

    def if_stopped(self, name: str, value: str) -> None:
        """Add a header to the answer that the request gets where the server ends it since it stops."""
        presence_of(self._scope).if_stopped[name] = value

    def hold(self) -> None:
        """Let a library that cancels its work when the client leaves learn of that only once the request waits, or has sent all."""
        presence_of(self._scope).hold()

    def sent(self) -> None:
        """End the hold: what the request had to send is sent."""
        presence_of(self._scope).release()

    async def until(self, awaited: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for something; where the client leaves, the answering ends here.

        Args:
            awaited: What is waited for. It is cancelled where the wait is over before, so it must be without effect.
            seconds: How long.

        Raises:
            Stopping: This process stops.
            TimeoutError: The time is over.
            Problem: The principal has too many streams (429), or is let in no longer (401).
        """
        presence, stopping, metrics = presence_of(self._scope), self.service.stopping, self.service.metrics
        presence.release()
        waiting, leaving = asyncio.ensure_future(awaited), asyncio.ensure_future(presence.gone())
        metrics.waiting += 1
        try:
            self.count()
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait({waiting, leaving, stopping}, timeout=seconds, return_when=first)
            if waiting.done() and not (stopping.done() and waiting.exception()):
                return waiting.result()
            if stopping.done():
                raise Stopping
            if presence.is_refused:
                raise unauthenticated("the key or token of the request opens no longer")
            if leaving.done():
                await presence.end()
            raise TimeoutError
        finally:
            metrics.waiting -= 1
            waiting.cancel()
            leaving.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)
