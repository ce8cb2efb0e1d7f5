"""Attempts: what looks at what is asked, and then answers it, does both again where somebody closed it in between."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from sojourn.errors import AwaitClosed

__all__ = ["attempted"]

MOST = 3
"""Number of attempts."""

_T = TypeVar("_T")


async def attempted(look_and_answer: Callable[[], Awaitable[_T]]) -> _T:
    """Look at what is asked, and answer it; where it is closed just then, perhaps by this very message, again.

    Raises:
        AwaitClosed: It was closed each time.
    """
    for _ in range(MOST - 1):
        with suppress(AwaitClosed):
            return await look_and_answer()
    return await look_and_answer()
