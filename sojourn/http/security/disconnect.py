"""Stop answering when the client disconnects, loses access, or the server stops.

An application that answers for longer than a moment receives meanwhile, to learn that the client
has disconnected, as ASGI has it. So this is the one place that authenticates a long request again.
The application sees a client that lost access as one that has disconnected.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.problems import stopping_problem
from sojourn.http.security.authentication import credentials_of, unauthenticated_problem
from sojourn.http.security.principals import Auth, AuthAgain, principal_of
from sojourn.http.security.requests import refuse

__all__ = [
    "RECHECK",
    "Disconnect",
    "DisconnectMiddleware",
    "StoppableServer",
    "disconnect_of",
    "find_signaled_server",
    "is_admitted",
    "wait_until_stopping",
]

RECHECK = 15.0
"""Seconds after which a long request is authenticated again."""

HELD = 60.0
"""Most seconds for which to hold back a disconnect from an application."""

_GONE: Message = {"type": "http.disconnect"}
_KEY = "sojourn.disconnect"
_log = structlog.get_logger("sojourn.http")


class Disconnect:
    """Whether the client of one request is connected, and still has access.

    `is_let_in` authenticates the request again, and is None if that is not possible.
    """

    def __init__(self, receive: Receive, is_let_in: Callable[[], Awaitable[bool]] | None) -> None:
        self.is_refused = False
        """Whether the client lost access."""
        self.is_ended = False
        """Whether the application was cancelled because the client disconnected."""
        self.if_stopped: dict[str, str] = {}
        """Headers of the response if the server stops before its end."""
        self._has_left = False
        self._may_be_told = asyncio.Event()
        self._may_be_told.set()
        self._receive = receive
        self._is_let_in = is_let_in
        self._receiving = asyncio.Lock()
        self._coming: asyncio.Future[Message] | None = None
        self._answering = asyncio.current_task()

    def hold(self) -> None:
        self._may_be_told.clear()

    def release(self) -> None:
        self._may_be_told.set()

    async def receive(self) -> Message:
        """Return the next message. A client without access counts as disconnected."""
        message = await self._next()
        if message["type"] == "http.disconnect":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELD):
                    await self._may_be_told.wait()
        return message

    async def _next(self) -> Message:
        async with self._receiving:
            if self._has_left or self.is_refused:
                return _GONE
            if self._is_let_in is None:
                return self._note(await self._receive())
            # A caller that only checks whether the client is connected may have given up and left a pending message.
            if self._coming is None:
                self._coming = asyncio.ensure_future(self._receive())
            while not self._coming.done():
                is_due = not (await asyncio.wait({self._coming}, timeout=RECHECK))[0]
                if is_due and not await self._is_let_in():
                    self.is_refused = True
                    return _GONE
            coming, self._coming = self._coming, None
            return self._note(coming.result())

    def _note(self, message: Message) -> Message:
        self._has_left = self._has_left or message["type"] == "http.disconnect"
        return message

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects or loses access, once its body was received."""
        while (await self._next())["type"] != "http.disconnect":
            pass

    async def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)

    async def end(self) -> None:
        """Cancel the application from within. Never returns."""
        self.is_ended = True
        if self._answering is not None:
            self._answering.cancel()
        await asyncio.get_running_loop().create_future()


def disconnect_of(scope: Scope) -> Disconnect:
    found = scope.get(_KEY)
    if not isinstance(found, Disconnect):
        raise RuntimeError("the request has passed no security middleware")  # noqa: TRY004 - it is the application's fault
    return found


def is_admitted(scope: Scope) -> bool:
    """Return whether a request reached the application."""
    return _KEY in scope


class DisconnectMiddleware:
    """Give each request its `Disconnect`, and answer for a cancelled application.

    An authentication method that is an `AuthAgain` authenticates a request again while it lasts.
    """

    def __init__(self, app: ASGIApp, *, auth: Auth | None) -> None:
        self._app = app
        self._auth = auth if isinstance(auth, AuthAgain) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def forward(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        disconnect = scope[_KEY] = Disconnect(receive, self._recheck_of(scope))
        try:
            await self._app(scope, disconnect.receive, forward)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if disconnect.is_ended and task is not None and not task.uncancel():
                return
            if is_begun:
                raise
            problem = stopping_problem()  # the server is shutting down and cancels its requests
            problem.headers |= disconnect.if_stopped
            await refuse(problem, scope, receive, send)
        else:
            if disconnect.is_refused and not is_begun:
                await refuse(unauthenticated_problem(), scope, receive, send)
        finally:
            await disconnect.close()

    def _recheck_of(self, scope: Scope) -> Callable[[], Awaitable[bool]] | None:
        auth, asking = self._auth, principal_of(scope)
        if auth is None or asking is None:
            return None

        async def is_let_in() -> bool:
            try:
                return await auth.still_lets_in(Request(credentials_of(scope)), asking)
            except Exception as error:  # noqa: BLE001 - as for a new request, an error means no access
                _log.warning("authentication_failed_again", reason=str(error) or type(error).__name__)
                return False

        return is_let_in


TICK = 0.2
"""Seconds between two checks whether the server is shutting down."""


class StoppableServer(Protocol):
    """A server that stops when its `should_exit` is set."""

    should_exit: bool


def find_signaled_server() -> StoppableServer | None:
    """Return the uvicorn server that handles the signals of this process, or None.

    A server ends the lifespan only after its requests, too late for requests that wait.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        owner = getattr(signal.getsignal(number), "__self__", None)
        if isinstance(getattr(owner, "should_exit", None), bool):
            return cast("StoppableServer", owner)
    return None


async def wait_until_stopping(server: StoppableServer, known: asyncio.Future[None]) -> None:
    """Wait until a server starts to shut down, or `known` is done."""
    while not server.should_exit and not known.done():
        await asyncio.wait({known}, timeout=TICK)
