"""Stop waiting if the client disconnects, loses access, or the server shuts down.

The run that a request waits for continues without it. The request sends and changes nothing while it
waits, so nothing is lost if the wait ends early.
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
    """The wait ended early because this process of the service is shutting down."""


class RequestScope:
    """Waits on behalf of one request.

    Args:
        service: The service.
        scope: The request's scope, which has passed the security middleware.
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
        """Add a header to the response in case the server shuts down meanwhile."""
        disconnect_of(self._scope).if_stopped[name] = value

    def hold(self) -> None:
        """Hold back a disconnect until the request waits, or has sent everything.

        This is for libraries that cancel their work when the client disconnects.
        """
        disconnect_of(self._scope).hold()

    def release(self) -> None:
        """End the hold, since the request has sent everything that it had to send."""
        disconnect_of(self._scope).release()

    async def wait(self, awaited: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for something, and end the request if the client disconnects.

        Args:
            awaited: The coroutine to wait for. It is cancelled if the wait ends first, so it must not have side effects.
            seconds: The longest time to wait.

        Raises:
            ServerStopping: This process is shutting down.
            TimeoutError: The time is over.
            Problem: The principal has too many streams (429), or has lost access (401).
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
