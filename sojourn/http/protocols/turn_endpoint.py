"""What every request for a turn of a user interface does, in one order."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from importlib import import_module
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from sojourn.http.event_streams import FrameResponse
from sojourn.http.protocols.turn import TurnStream
from sojourn.http.protocols.turn_request import OnDisconnect, TurnRequest, begin, disconnect_callback
from sojourn.http.routes.parameters import STREAM, Serving, problems
from sojourn.http.security import audit
from sojourn.http.security.file_bodies import release_files
from sojourn.http.security.limits import count_stream
from sojourn.http.security.principals import Asking

__all__ = ["TURN_RESPONSES", "TurnEndpoint", "TurnRoute", "load_stream"]

TURN_RESPONSES: dict[int | str, Any] = {
    200: {"description": "The events of the turn.", "content": {"text/event-stream": STREAM}},
    **problems(400, 404, 409, 429),
}
"""Responses of a path that streams a turn, for OpenAPI."""


class TurnEndpoint:
    """One request for a turn.

    The route of each protocol begins its turn here, so that none is left out of the audit log and of the
    limit on streams.
    """

    def __init__(
        self, request: Request, asking: Asking, service: Serving, on_disconnect: OnDisconnect = None
    ) -> None:
        self.asking = asking
        self.service = service
        self._scope = request.scope
        self._interrupts = on_disconnect is not None

    def count(self) -> None:
        """Count a stream of the principal, or refuse it with 429."""
        count_stream(self._scope)

    async def begin(self, agent_id: str, session_id: str, wanted: TurnRequest) -> TurnStream:
        """Audit and count the request, send its messages and answers, return the turn."""
        audit.bind(answers=[each.id for each in wanted.answers])
        self.count()
        turn = await begin(self.service, self.asking, agent_id, session_id, wanted)
        release_files()
        return turn

    def respond(
        self,
        frames: AsyncGenerator[str],
        turn: TurnStream | None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Stream the turn, and interrupt it on disconnect if the request says so."""
        left = disconnect_callback(turn, self.asking) if self._interrupts and turn else None
        return FrameResponse(frames, headers, left=left)


TurnRoute = Annotated[TurnEndpoint, Depends()]
"""Parameter of a route that streams a turn."""


async def load_stream(protocol: str) -> Any:
    """Import the encoder of a protocol: it loads the model layer, which takes long."""
    return await asyncio.to_thread(import_module, f"sojourn.http.protocols.{protocol}.stream")
