"""Whether what an activity is about to begin is still wanted: asked right before a tool, a planner, a model or a notice begins.

The activities set the check. Code below them, such as a model's, asks without knowing who answers.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Protocol

__all__ = ["CHECK", "StartCheck", "begun", "begun_in_thread", "still_wanted"]


class StartCheck(Protocol):
    """The check of one activity."""

    async def check(self) -> None:
        """Raise if the activity is no longer wanted; without a stall there is nothing to ask."""
        ...

    def check_in_thread(self) -> None:
        """Do the same in a thread that is not the event loop's."""
        ...


CHECK: ContextVar[StartCheck | None] = ContextVar("sojourn_start_check", default=None)
"""The check of the activity of this context; its tasks and threads have the same context."""


async def still_wanted() -> None:
    """Raise if the server has given the present activity to another worker, or has cancelled it, while this worker stood still."""
    check = CHECK.get()
    if check is not None:
        await check.check()


async def begun(work: Callable[[], Awaitable[Any]]) -> Any:
    """The value of asynchronous work, which begins only if it is still wanted."""
    await still_wanted()
    return await work()


def begun_in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Synchronous work that begins only if it is still wanted in the thread that has taken it."""

    def begin() -> Any:
        check = CHECK.get()
        if check is not None:
            check.check_in_thread()
        return work()

    return begin
