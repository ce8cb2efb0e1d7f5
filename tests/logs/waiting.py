"""Waiting for a condition, never for a time."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["until"]

PATIENCE = 60.0
"""Seconds until a condition that does not come true is a failure."""


async def until(condition: Callable[[], Any]) -> Any:
    """Wait until a condition, sync or async, is true, and return its value."""
    async with asyncio.timeout(PATIENCE):
        while True:
            value = condition()
            value = await value if inspect.isawaitable(value) else value
            if value:
                return value
            await asyncio.sleep(0.02)
