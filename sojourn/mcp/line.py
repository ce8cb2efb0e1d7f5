"""Line: one session with a server that many calls share, opened by the first call that needs it, and again when it is lost."""

import asyncio
import contextvars
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from sojourn.contracts.tool_call import ToolInput
from sojourn.errors import ToolUnavailable
from sojourn.mcp.errors import SessionRefused

if TYPE_CHECKING:
    from sojourn.mcp.session import OnProgress, Session

__all__ = ["Line"]

_COOL = 0.5
"""Seconds after a failed attempt to connect in which further callers get its error, without another attempt."""


class Line(ABC):
    """Opens its session on demand, in one attempt that all callers share."""

    def __init__(self) -> None:
        self._context = contextvars.Context()
        self._opening: asyncio.Task[Session] | None = None
        self._held: list[Session] = []
        self._failure: ToolUnavailable | None = None
        self._failed_at = 0.0

    @abstractmethod
    async def _open_session(self) -> "Session":
        """A new session.

        Raises:
            ToolUnavailable: The server cannot be used now; the message says why.
        """

    def refresh(self) -> None:  # noqa: B027 - a line that lists nothing does nothing
        """Take note that a call broke off, so that the server may have changed."""

    async def session(self) -> "Session":
        """Return the session; open one if there is none, in one attempt that all callers share.

        Raises:
            ToolUnavailable: The server cannot be used now; the message says why.
        """
        if self._held and not self._held[-1].lost.is_set():
            return self._held[-1]
        if self._opening is None or self._opening.done():
            if self._failure is not None and time.monotonic() - self._failed_at < _COOL:
                raise ToolUnavailable(str(self._failure), retry_after=self._failure.retry_after)
            # A session outlives the call that opens it, so its log lines must not have that call's context.
            self._opening = asyncio.create_task(self._open(self._held), context=self._context.copy())
            self._opening.add_done_callback(_retrieve)
        return await asyncio.shield(self._opening)

    async def send(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: "OnProgress | None",
        tool_input: ToolInput | None = None,
    ) -> Any:
        """Call a tool of the server, or continue a call that asked for input; return the SDK's result.

        A call that the server refuses because it forgot the session is sent once more, on a new session.

        Args:
            name: The tool's name at the server.
            arguments: The valid arguments.
            on_progress: Called with each progress notification.
            tool_input: The responses to the input that the call asked for.

        Raises:
            ToolUnavailable: The server cannot be reached, or the connection broke off during the call.
            SojournError: Another error of `sojourn.mcp.errors.translate`.
        """
        for _ in range(2):
            session = await self.session()
            try:
                return await session.call(name, arguments, on_progress, tool_input)
            except SessionRefused:
                continue  # the server did not execute the call, so it is safe to send it again
            except ToolUnavailable:
                self.refresh()
                raise
        raise ToolUnavailable(
            "its MCP server closes each session as soon as it is opened", outcome_unknown=True
        )

    async def close(self) -> None:
        """End the session, with a server process that was started for it."""
        opening, held = self._opening, self._held
        self._opening, self._held = None, []
        if opening is not None:
            opening.cancel()
            await asyncio.wait({opening})
        await close_all(held)

    async def _open(self, held: "list[Session]") -> "Session":
        # The old session ends first: its server process may hold a lock.
        await close_all(held)
        try:
            session = await self._open_session()
        except ToolUnavailable as error:
            self._failure, self._failed_at = error, time.monotonic()
            raise
        self._failure = None
        held.append(session)
        return session


async def close_all(held: "list[Session]") -> None:
    """End sessions, the last one first."""
    while held:
        await held[-1].close()
        held.pop()


def _retrieve(opening: "asyncio.Task[Session]") -> None:
    """Retrieve the outcome, so that asyncio does not warn of an exception that no caller waited for."""
    if not opening.cancelled():
        opening.exception()
