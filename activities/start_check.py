"""The check right before a tool, a planner, a model's request or a notice begins: is this attempt still wanted?

A worker that stood still wakes up with tasks that it fetched before. The server has timed them out meanwhile, other workers have done
them, and their runs have gone on. Such a task would act a second time, long after anybody expects it. So after a stall the attempt asks
the server. Without one it compares two clocks and sends nothing.
"""

import asyncio
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.contracts.dispatch import WRONG_WORKER
from sojourn.serving.stalls import now, stalls_of

from .own_task import OwnTask

__all__ = ["NotWantedError", "StartCheck", "given_up"]

DELIVERY = 30.0
"""Seconds that a task may have been in this process before its activity began: a stall of that time concerns it too."""

ASK_AGAIN = 1.0
"""Seconds after which the server is asked again that could not be reached."""

CANCELING = 5.0
"""Seconds that the SDK has to cancel an attempt after the heartbeat whose answer says so."""

_log = structlog.get_logger("sojourn.activity")


class NotWantedError(ApplicationError):
    """The attempt must not begin: somebody else has it, or it was cancelled."""


class StartCheck:
    """The check of the present activity.

    Args:
        details: What its heartbeats tell of earlier attempts, which stays in them.
    """

    def __init__(self, details: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stalls = stalls_of(self._loop)
        self._info = activity.info()
        self._task = OwnTask.current()
        self._details = [details] if details else []
        self._known = now() - DELIVERY
        """When the server was known to want this attempt: a stall since then raises the question anew."""
        self._has_ended = False

    def end(self) -> None:
        """Let nothing begin any more: the activity has its result, though a thread of it may not have begun."""
        self._has_ended = True

    async def check(self) -> None:
        """Return if the attempt is still wanted.

        Raises:
            NotWantedError: The server has given the attempt up, or cancels it; or it is a local activity of a workflow task that may be
                another worker's by now: an ordinary activity takes its place.
        """
        while self._stalls.last() > self._known:
            asked = now()
            await self._ask()
            self._known = asked

    def check_in_thread(self) -> None:
        """Do the same in a thread; the event loop asks."""
        if self._stalls.last() > self._known:
            asyncio.run_coroutine_threadsafe(self.check(), self._loop).result()
        if self._has_ended:
            raise given_up()

    async def _ask(self) -> None:
        if self._task is None:
            return
        if self._info.is_local:
            _log.warning("late_start_refused", **self._who)
            raise NotWantedError(
                "this worker stood still, and its workflow task may be another's by now",
                type=WRONG_WORKER,
                non_retryable=True,
            )
        details = await self._task.encoded(self._details)
        while True:
            try:
                answer = await self._task.beat(details)
            except RPCError as error:
                _log.warning("late_start_unknown", reason=str(error), **self._who)
                await asyncio.sleep(ASK_AGAIN)
            else:
                break
        if answer == "wanted":
            return
        _log.warning("late_start_refused", **self._who)
        if answer == "canceled":
            activity.heartbeat(*self._details)  # whose answer lets the SDK cancel this activity
            await asyncio.sleep(CANCELING)
        raise given_up()

    @property
    def _who(self) -> dict[str, str]:
        info = self._info
        return {"run_id": info.workflow_id or "", "activity_id": info.activity_id}


def given_up() -> NotWantedError:
    """The error of an attempt that the server has given up."""
    return NotWantedError("the server has given this attempt up", type="GivenUp", non_retryable=True)
