"""The active time of a run, and the end of its time budget.

Plans and calls count. Waits for people, sleeps and pauses do not. The clock is
the workflow's, so that a replay counts the same.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import is_cancelled_exception

from sojourn.core.run.totals import ActiveTime
from sojourn.values.frozen import copy_with
from sojourn.values.timers import LONGEST, TIME_BUDGET

from .cancellation import keeps_result
from .continue_as_new import ContinueWhileCallsWait, LeavingExecution
from .current_state import CurrentState

T = TypeVar("T")


async def wait_until(condition: Callable[[], bool], limit: timedelta | None, summary: str) -> None:
    """Wait until a condition holds, and raise TimeoutError at the limit.

    It is raised once all else of the workflow task is done. What a workflow task brings beside the end
    of the time is done in an order of asyncio's, and `asyncio.wait_for` is another function since Python
    3.12: without this, a run that one Python had served could not be replayed by another.
    """
    try:
        await workflow.wait_condition(condition, timeout=limit, timeout_summary=summary)
    except TimeoutError:
        await workflow.wait_condition(lambda: True)  # conditions are checked when nothing else is left to do
        raise


class Clock:
    """Counts active time while a plan or call is in progress.

    Time in which the run is paused does not count.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._works: Sequence[asyncio.Task[Any]] = ()
        self._watch: asyncio.Task[None] | None = None

    @property
    def active(self) -> ActiveTime:
        return self._current.state.active

    @property
    def active_time(self) -> timedelta:
        return self.active.active_time(workflow.now())

    @property
    def time_left(self) -> timedelta | None:
        return self.active.time_left(workflow.now())

    @property
    def is_expired(self) -> bool:
        """Whether the budget ran out during a plan or a call."""
        return self.active.expired

    async def within(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a coroutine, or None if the budget is used up first.

        An interruption waits for it, as without a budget.
        """
        if self.active.budget is None or self.active.expired:
            return await work
        task = asyncio.create_task(work)
        try:
            await self.wait_for([task])
        except asyncio.CancelledError:
            has_result = task.done() and not task.cancelled() and task.exception() is None
            if not (has_result and keeps_result()):
                raise
        if task.cancelled() or (
            (error := task.exception()) and self.active.expired and is_cancelled_exception(error)
        ):
            return None
        return task.result()

    async def wait_for(
        self, works: Sequence[asyncio.Task[Any]], go_on: ContinueWhileCallsWait | None = None
    ) -> None:
        """Wait for these tasks.

        They are cancelled when the budget is used up, or with the run.
        """
        self._works = works
        tasks = asyncio.gather(*works, return_exceptions=True)
        if go_on:
            go_on.tasks = tasks
        try:
            await tasks
        except LeavingExecution:
            raise
        except BaseException:
            self._works = ()
            raise
        self._works = ()

    @contextmanager
    def busy(self) -> Generator[None]:
        self._count(self.active.begun(workflow.now()))
        try:
            yield
        finally:
            if (
                workflow.in_workflow()
            ):  # else the run is only dropped from a worker's memory: there is no clock
                self._count(self.active.ended(workflow.now()))

    @contextmanager
    def idle(self) -> Generator[None]:
        """Stop counting within `busy`, while the run waits for a place."""
        self._count(self.active.ended(workflow.now()))
        try:
            yield
        finally:
            if workflow.in_workflow():
                self._count(self.active.begun(workflow.now()))

    def add(self, spent: timedelta) -> None:
        """Add the time that a child run was active while this run only waited for it."""
        self._count(self.active.added(spent))

    def watch(self) -> None:
        if self.active.budget is not None and self._watch is None:
            self._watch = asyncio.create_task(self._watch_budget())

    def stop(self) -> None:
        if self._watch:
            self._watch.cancel()
            self._watch = None

    def _count(self, active: ActiveTime) -> None:
        self._current.state = copy_with(self._current.state, active=active)

    async def _watch_budget(self) -> None:
        # From a plan to its calls there is no gap.
        while True:
            await workflow.wait_condition(lambda: self.active.since is not None)
            budget, left = self.active.budget, self.time_left
            try:
                await wait_until(
                    lambda: self.active.since is None or self.active.budget != budget,  # noqa: B023 - awaited here
                    min(left, LONGEST) if left is not None else None,
                    TIME_BUDGET,
                )
            except TimeoutError:
                self._count(copy_with(self.active, expired=True))
                for work in self._works:
                    work.cancel()
                return
