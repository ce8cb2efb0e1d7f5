"""Going on: what a wait needs to know, so that a run goes on in a new execution while it lasts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class GoOn(Protocol):
    """Goes on in a new execution, where nothing is in flight."""

    def may(self) -> bool:
        """Whether nothing is in flight."""
        ...

    async def go(self, is_over: Callable[[], bool]) -> None:
        """Go on, unless the given wait is over meanwhile; return where the run cannot."""
        ...


class WhileItWaits:
    """Goes on while the whole run waits for one thing.

    Args:
        go_on: Goes on, unless the given condition is met meanwhile.
    """

    def __init__(self, go_on: Callable[[Callable[[], bool]], Awaitable[None]]) -> None:
        self._go_on = go_on

    def may(self) -> bool:
        """True: the run does nothing else."""
        return True

    async def go(self, is_over: Callable[[], bool]) -> None:
        """Go on, unless the wait is over meanwhile."""
        await self._go_on(is_over)


class Leaving(Exception):  # noqa: N818 - no error: it ends a wait of the run's own coroutine, which alone can go on
    """Ends the wait for a step's tasks, because the run is to go on in a new execution."""


class WhileCallsWait:
    """Goes on while all open calls of a step wait.

    Args:
        may: Whether all open calls wait.
        go: Goes on; None where only the run's own coroutine can, which waits for tasks.
    """

    def __init__(self, may: Callable[[], bool], go: Callable[[], Awaitable[None]] | None) -> None:
        self._may = may
        self._go = go
        self.tasks: asyncio.Future[list[Any]] | None = None
        """What the run's own coroutine waits for."""

    def may(self) -> bool:
        """Whether all open calls wait, and the run is not leaving already."""
        return self._may() and (self._go is not None or (self.tasks is not None and not self.tasks.done()))

    async def go(self, is_over: Callable[[], bool]) -> None:
        """Go on, or let the run's own coroutine do so."""
        del is_over  # the step knows
        if self._go is not None:
            await self._go()
        elif self.tasks is not None and not self.tasks.done():
            self.tasks.set_exception(Leaving())
