"""Leaving: what a client may ask to be done where it leaves a stream before its end.

A page that stops reading and a connection that breaks look the same to a server. So a turn goes on by itself, unless its client has said
that it is to end with the connection.
"""

from contextlib import suppress
from typing import Annotated, Literal

from fastapi import Header

from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.protocols.streamed import Left
from sojourn.http.protocols.turn import Turn

__all__ = ["HEADER", "OnDisconnect", "interrupting"]

HEADER = "Sojourn-On-Disconnect"

OnDisconnect = Annotated[
    Literal["interrupt"] | None,
    Header(
        alias=HEADER,
        description="`interrupt` ends the turn where the client leaves the stream before its end; else the turn goes on.",
    ),
]


def interrupting(turn: Turn, asking: Principal) -> Left | None:
    """End the turn that a stream was of; None for a principal that may not.

    A message whose turn has not begun keeps its place.
    """

    async def left() -> None:
        with suppress(SojournError):
            turn_id = turn.turn_id or ("" if turn.message_id else (await turn.run.status()).turn_id)
            if turn_id:
                await turn.run.interrupt("the client left", by=asking.subject, turn_id=turn_id)

    return left if "user" in asking.roles else None
