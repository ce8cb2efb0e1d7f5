"""Quiet: a stream that is cut on purpose is no error of the server's log.

A stream whose key opens nothing any more, or whose client takes nothing, is left without its end, so that its client comes back; uvicorn logs each
as an error of the application.
"""

import logging
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Quiet", "quieten"]

LOGGER = "uvicorn.error"

_INCOMPLETE = "ASGI callable returned without completing response"

_is_stream: ContextVar[bool] = ContextVar("sojourn.is_stream", default=False)
"""Whether the request that is answered here, which uvicorn logs from the same task, is answered by a stream."""


class Quiet:
    """Knows of each request whether its answer is a stream.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        is_stream = False

        async def sent(message: Message) -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                named = (
                    value for name, value in message.get("headers", ()) if name.lower() == b"content-type"
                )
                is_stream = any(value.startswith(b"text/event-stream") for value in named)
            await send(message)

        await self._app(scope, receive, sent)
        _is_stream.set(
            is_stream
        )  # it has ended without an exception: where its end is missing, that is on purpose


def quieten() -> None:
    """Leave out of uvicorn's log that a stream was cut."""
    logging.getLogger(LOGGER).addFilter(_is_no_cut)


def _is_no_cut(record: logging.LogRecord) -> bool:
    return not (_is_stream.get() and record.getMessage().startswith(_INCOMPLETE))
