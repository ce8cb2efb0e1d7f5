"""Heartbeats of every activity, from the boundary, so that sync tools beat too."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from temporalio import activity

__all__ = ["beating"]

FIRST_BEAT = 3.0
"""Seconds before the first: most activities end sooner, and cost nothing."""

INTERVAL = 5.0
"""Seconds between beats; the heartbeat time-out is 15 s."""


@contextmanager
def beating() -> Generator[None]:
    """Beat from 3 s on, every 5 s, while the body runs; a cancellation arrives with a beat."""
    loop = asyncio.get_running_loop()

    def beat() -> None:
        nonlocal timer
        activity.heartbeat()
        timer = loop.call_later(INTERVAL, beat)

    timer = loop.call_later(FIRST_BEAT, beat)
    try:
        yield
    finally:
        timer.cancel()
