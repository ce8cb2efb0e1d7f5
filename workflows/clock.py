"""Clock: the active time of a run, and what happens when its budget is used up.

Planning and executing count; waiting for people, sleeping and being paused do not. The clock is
the workflow's, so that a replay counts the same.
"""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import is_cancelled_exception

from sojourn.core.values.timers import LONGEST, TIME_BUDGET

T = TypeVar("T")


class Clock:
    """Counts while something is busy and nothing is paused."""

    def __init__(self) -> None:
        self.budget: timedelta | None = None
        self.expired = False
        """Whether the budget was used up in the middle of something."""
        self._works: Sequence[asyncio.Task[Any]] = ()
        self._spent = timedelta(0)
        self._since: datetime | None = None
        self._busy = 0
        self._paused = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def spent(self) -> timedelta:
        """Active time so far."""
        return self._spent + (workflow.now() - self._since if self._since else timedelta(0))

    @property
    def left(self) -> timedelta | None:
        """Active time left; None is no budget."""
        return None if self.budget is None else max(self.budget - self.spent, timedelta(0))

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left of the budget."""
        return self.expired or self.left == timedelta(0)

    async def within(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What this gives, or None when the budget is used up first."""
        if self.budget is None or self.expired:
            return await work
        task = asyncio.create_task(work)
        await self.bound([task])
        if task.cancelled() or (
            (error := task.exception()) and self.expired and is_cancelled_exception(error)
        ):
            return None
        return task.result()

    async def bound(self, works: Sequence[asyncio.Task[Any]]) -> None:
        """Let these end; they are cancelled when the budget is used up, or with the run."""
        self._works = works
        try:
            await asyncio.gather(*works, return_exceptions=True)
        finally:
            self._works = ()

    @contextmanager
    def busy(self) -> Generator[None]:
        """Something runs meanwhile."""
        self._busy += 1
        self._turn()
        try:
            yield
        finally:
            self._busy -= 1
            self._turn()

    def pause(self, *, paused: bool) -> None:
        """Stand still, or go on."""
        self._paused = paused
        self._turn()

    def add(self, spent: timedelta) -> None:
        """Count what a child run spent while this one only waited for it."""
        self._spent += spent

    def limit(self, budget: timedelta | None) -> None:
        """Set the budget, and watch it from now on."""
        self.budget = budget
        if budget is not None and self._watch is None:
            self._watch = asyncio.create_task(self._watched())

    def stop(self) -> None:
        """Watch no more."""
        if self._watch:
            self._watch.cancel()

    def _turn(self) -> None:
        if not workflow.in_workflow():
            return  # the run is only dropped from a worker's memory; there is no clock to read
        running = self._busy > 0 and not self._paused
        if running == (self._since is not None):
            return
        if self._since is None:
            self._since = workflow.now()
        else:
            self._spent += workflow.now() - self._since
            self._since = None

    async def _watched(self) -> None:
        """One timer for each stretch of activity; from a plan to its calls there is no gap."""
        while True:
            await workflow.wait_condition(lambda: self._since is not None)
            budget = self.budget
            try:
                await workflow.wait_condition(
                    lambda: self._since is None or self.budget != budget,  # noqa: B023 - awaited here
                    timeout=min(self.left, LONGEST) if self.left is not None else None,
                    timeout_summary=TIME_BUDGET,
                )
            except TimeoutError:
                self.expired = True
                for work in self._works:
                    work.cancel()
                return
