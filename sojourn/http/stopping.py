"""Stopping: learning that the server stops while requests still wait, which an application that is mounted is told too late.

A server calls the end of an application's lifespan once its requests have ended. uvicorn takes signals by a method of its server, which says at
once that it is about to exit.
"""

import asyncio
import signal
from typing import Protocol, cast

__all__ = ["Server", "signaled_server", "until_it_stops"]

TICK = 0.2
"""Seconds after which it is looked again whether the server stops."""


class Server(Protocol):
    """A server that can be asked to stop."""

    should_exit: bool
    """Whether it was."""


def signaled_server() -> Server | None:
    """The server of uvicorn's that takes the signals of this process; None where there is none."""
    for number in (signal.SIGTERM, signal.SIGINT):
        owner = getattr(signal.getsignal(number), "__self__", None)
        if isinstance(getattr(owner, "should_exit", None), bool):
            return cast("Server", owner)
    return None


async def until_it_stops(server: Server, known: asyncio.Future[None]) -> None:
    """Wait until a server is asked to stop, or it is known by another way."""
    while not server.should_exit and not known.done():
        await asyncio.wait({known}, timeout=TICK)
