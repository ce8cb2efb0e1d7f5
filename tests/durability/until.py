"""Wait for a condition; no test here sleeps for a fixed time."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATIENCE = 90
"""Most seconds that one condition may take to come true."""


async def until(what: str, claim: Callable[[], Any]) -> Any:
    """Wait until the claim, which may be async, returns a true value, and return that value."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while True:
                found = claim()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(0.03)
    raise AssertionError(f"{what}: not within {PATIENCE} s")
