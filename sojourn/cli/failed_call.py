"""The command that takes up a run that failed, or makes the call again at which it failed.

A retry keeps the recorded results of calls, also their errors, so that it repeats such a failure without a request.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING, Self

from sojourn.cli.options import connection_options
from sojourn.cli.screen.text import plain, shell_word

if TYPE_CHECKING:
    from sojourn.client.access import Access
    from sojourn.contracts.event import Event, ToolEndEvent

__all__ = ["FailedCall", "retry_line"]

_MAX_ORIGINS = 5
"""How many retries of a retry are followed to the run that made the call."""


def retry_line(run_id: str) -> str:
    """Return how to take up a run that failed."""
    return f"take it up again with: sojourn retry {shell_word(run_id)}{connection_options()}"


class FailedCall:
    """The call at which a run failed, by the run's events.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._begun: dict[str, str] = {}
        """The events by which calls began, by call."""
        self._failed: ToolEndEvent | None = None
        self._retried: str | None = None
        """The run that this one retries, while no call has ended in this one."""
        self._has_failed = False

    @classmethod
    async def of(cls, client: "Access", run_id: str) -> Self:
        """Read a run's events."""
        from sojourn.client.run import Run

        call = cls(run_id)
        async with aclosing(Run(client, run_id).events(follow=False)) as events:
            async for event in events:
                call.feed(event)
        return call

    def feed(self, event: "Event") -> None:
        """Add an event of the run, and ignore one of a child run."""
        if event.run_id != self._run_id:
            return
        if event.type == "run_started" and event.forked_from and not event.forked_from.at:
            self._retried = event.forked_from.run_id
        elif event.type == "tool_start":
            self._begun[event.tool_call_id] = event.event_id
        elif event.type == "tool_end":
            self._failed, self._retried = (event if event.result.error else None), None
        self._has_failed = event.type in ("run_failed", "run_timed_out") or (
            self._has_failed and event.type == "run_stream_end"
        )

    async def line(self, client: "Access") -> str | None:
        """Return the line to print below the run if it failed, else None: how to retry it, or to make its last call again.

        A retry keeps the failure of a call. One that has made no call of its own fails at the call of the run that it retries.
        """
        if not self._has_failed:
            return None
        found, again = self, retry_line(self._run_id)
        for _ in range(_MAX_ORIGINS):
            if found._failed and (at := found._begun.get(found._failed.tool_call_id)):
                line = f"sojourn fork {shell_word(found._run_id)} --at {at}{connection_options()}"
                name = plain(found._failed.result.name)
                return f"a retry keeps the failure of {name}; to make the call again: {line}"
            if found._retried is None:
                break
            found = await FailedCall.of(client, found._retried)
        return again
