"""Let a request wait until its client disconnects or loses access, or the server shuts down.

What it waits for goes on by itself: nothing is sent or changed while it waits, so that nothing is lost if the wait ends early.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Scope

from sojourn.http.security.authentication import unauthenticated
from sojourn.http.security.disconnect import disconnect_of
from sojourn.http.security.limits import count_stream
from sojourn.http.service import Service

__all__ = ["RequestScope", "ServerStopping"]

Result = TypeVar("Result")


class ServerStopping(TimeoutError):  # noqa: N818 - it says why the time is over
    """A wait is over before its time, since this process of the service stops."""


class RequestScope:
    """The waiting of one request.

    Args:
        service: The service.
        scope: Of the request, which has passed the security middleware.
    """

    def __init__(self, service: Service, scope: Scope) -> None:
        self.service = service
        self._scope = scope

    def count(self) -> None:
        """Count the request among the streams of its principal, before it has any effect.

        Raises:
            Problem: The principal has too many (429).
        """
        count_stream(self._scope)

    def add_stop_header(self, name: str, value: str) -> None:
        """Add a header to the answer that the request gets where the server ends it since it stops."""
        disconnect_of(self._scope).if_stopped[name] = value

    def hold(self) -> None:
        """Let a library that cancels its work when the client leaves learn of that only once the request waits, or has sent all."""
        disconnect_of(self._scope).hold()

    def release(self) -> None:
        """End the hold: what the request had to send is sent."""
        disconnect_of(self._scope).release()

    async def wait(self, awaited: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for something; where the client leaves, the answering ends here.

        Args:
            awaited: What is waited for. It is cancelled where the wait is over before, so it must be without effect.
            seconds: How long.

        Raises:
            ServerStopping: This process stops.
            TimeoutError: The time is over.
            Problem: The principal has too many streams (429), or is let in no longer (401).
        """
        presence, stopping, metrics = disconnect_of(self._scope), self.service.stopping, self.service.metrics
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
                raise ServerStopping
            if presence.is_refused:
                raise unauthenticated("the API key or token is no longer valid")
            if leaving.done():
                await presence.end()
            raise TimeoutError
        finally:
            metrics.waiting -= 1
            waiting.cancel()
            leaving.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)
