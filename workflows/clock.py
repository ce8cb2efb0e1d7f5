"""Clock: the active time of a run, and what happens when its budget is used up.

Planning and executing count; waiting for people, sleeping and being paused do not. The clock is
the workflow's, so that a replay counts the same.
"""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import is_cancelled_exception

from sojourn.core.run.active_time import ActiveTime
from sojourn.core.values.frozen import changed
from sojourn.core.values.timers import LONGEST, TIME_BUDGET

from .kept import Kept

T = TypeVar("T")


class Clock:
    """Counts while something is busy and nothing is paused.

    Args:
        kept: Whose active time is counted.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._works: Sequence[asyncio.Task[Any]] = ()
        self._watch: asyncio.Task[None] | None = None

    @property
    def active(self) -> ActiveTime:
        """The active time of the run, as a value."""
        return self._kept.state.active

    @property
    def spent(self) -> timedelta:
        """Active time so far."""
        return self.active.spent(workflow.now())

    @property
    def left(self) -> timedelta | None:
        """Active time left; None is no budget."""
        return self.active.left(workflow.now())

    @property
    def is_expired(self) -> bool:
        """Whether the budget was used up in the middle of something."""
        return self.active.expired

    async def within(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What this gives, or None when the budget is used up first."""
        if self.active.budget is None or self.active.expired:
            return await work
        task = asyncio.create_task(work)
        await self.bound([task])
        if task.cancelled() or (
            (error := task.exception()) and self.active.expired and is_cancelled_exception(error)
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
        self._count(self.active.begun(workflow.now()))
        try:
            yield
        finally:
            if (
                workflow.in_workflow()
            ):  # else the run is only dropped from a worker's memory: there is no clock
                self._count(self.active.ended(workflow.now()))

    def add(self, spent: timedelta) -> None:
        """Count what a child run spent while this one only waited for it."""
        self._count(self.active.added(spent))

    def watch(self) -> None:
        """Watch the budget from now on, where there is one."""
        if self.active.budget is not None and self._watch is None:
            self._watch = asyncio.create_task(self._watched())

    def stop(self) -> None:
        """Watch no more."""
        if self._watch:
            self._watch.cancel()

    def _count(self, active: ActiveTime) -> None:
        self._kept.state = changed(self._kept.state, active=active)

    async def _watched(self) -> None:
        """One timer for each stretch of activity; from a plan to its calls there is no gap."""
        while True:
            await workflow.wait_condition(lambda: self.active.since is not None)
            budget, left = self.active.budget, self.left
            try:
                await workflow.wait_condition(
                    lambda: self.active.since is None or self.active.budget != budget,  # noqa: B023 - awaited here
                    timeout=min(left, LONGEST) if left is not None else None,
                    timeout_summary=TIME_BUDGET,
                )
            except TimeoutError:
                self._count(changed(self.active, expired=True))
                for work in self._works:
                    work.cancel()
                return
