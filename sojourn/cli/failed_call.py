"""Suggest the command that retries a failed run, or makes its failed call again.

A retry reuses the recorded results of calls, errors included, so it repeats such a failure without
a request.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING

from sojourn.cli.options import connection_options
from sojourn.cli.screen.text import plain, shell_word
from sojourn.contracts.ids import place_of

if TYPE_CHECKING:
    from sojourn.client.access import Access
    from sojourn.timeline import Call, Timeline

__all__ = ["retry_hint", "retry_line"]

_MAX_ORIGINS = 5
"""Most retries of a retry to follow back to the run that made the call."""


def retry_line(run_id: str) -> str:
    """Return the line with the command that retries a failed run."""
    return f"take it up again with: sojourn retry {shell_word(run_id)}{connection_options()}"


async def retry_hint(client: "Access", timeline: "Timeline") -> str | None:
    """Return the line to print below a failed run, or None for other runs.

    The line says how to retry the run, or how to make its last call again, because a retry keeps
    the failure of a call. A retry that has made no call of its own fails at the call of the run
    that it retries.
    """
    from sojourn.client.run import Run
    from sojourn.timeline import Timeline

    if timeline.end is None or timeline.end.status not in ("failed", "timed_out"):
        return None
    found = timeline
    for _ in range(_MAX_ORIGINS):
        last = max((each for each in found.calls if each.end_event_id), key=_end_place, default=None)
        if last is not None and last.error and last.start_event_id:
            line = f"sojourn fork {shell_word(found.run_id)} --at {last.start_event_id}{connection_options()}"
            return f"a retry keeps the failure of {plain(last.call.name)}; to make the call again: {line}"
        origin = found.started and found.started.forked_from
        if last is not None or origin is None or origin.at:
            break
        found = Timeline(origin.run_id)
        async with aclosing(Run(client, origin.run_id).events(follow=False)) as events:
            async for event in events:
                found.feed(event)
    return retry_line(timeline.run_id)


def _end_place(call: "Call") -> tuple[int, ...]:
    return place_of(call.end_event_id)
