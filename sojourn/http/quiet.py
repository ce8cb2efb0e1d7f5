"""Quiet: a stream that is cut on purpose is no error of the server's log.

A stream whose key opens nothing any more, or an answer whose client takes nothing, is left without its end, so that its client comes back; uvicorn
logs each as an error of the application.
"""

import logging
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.media_type import is_stream

__all__ = ["Quiet", "cut", "quieten"]

LOGGER = "uvicorn.error"

_INCOMPLETE = "ASGI callable returned without completing response"

_NOISE = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")
"""How lines begin that anybody can make without a key, as many as he likes."""

_KEY = "sojourn.cut"
"""Where the scope of a request says that its answer was cut off."""

_is_cut: ContextVar[bool] = ContextVar("sojourn.is_cut", default=False)
"""Whether the answer to a request, which uvicorn logs from the same task, was a stream that has ended without an exception: without its end
too that is on purpose."""


class Quiet:
    """Knows of each request whether its answer is a stream.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        was_stream = False

        async def sent(message: Message) -> None:
            nonlocal was_stream
            if message["type"] == "http.response.start":
                was_stream = is_stream(message)
            await send(message)

        await self._app(scope, receive, sent)
        _is_cut.set(was_stream or scope.get(_KEY, False))


def cut(scope: Scope) -> None:
    """Say that the answer to a request is cut off on purpose."""
    scope[_KEY] = True


def quieten() -> None:
    """Leave out of uvicorn's log that a stream was cut, and what fills it."""
    logging.getLogger(LOGGER).addFilter(_is_no_cut)


def _is_no_cut(record: logging.LogRecord) -> bool:
    told = record.getMessage()
    return not (told.startswith(_NOISE) or (_is_cut.get() and told.startswith(_INCOMPLETE)))
