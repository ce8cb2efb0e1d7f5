"""The command that makes the call again at which a run failed.

A retry keeps the recorded results of calls, also their errors, so that it repeats such a failure without a request.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING

from sojourn.cli.options import connection_options
from sojourn.cli.screen.text import plain, shell_word

if TYPE_CHECKING:
    from sojourn.client.client import Client

__all__ = ["failed_call_line"]

_MAX_ORIGINS = 5
"""How many retries of a retry are followed to the run that made the call."""


async def failed_call_line(client: "Client", run_id: str) -> str | None:
    """The line below a failed run whose last call failed, or that has this call from the run that it retries; else None."""
    for _ in range(_MAX_ORIGINS):
        begun: dict[str, str] = {}
        failed, origin, has_failed = None, None, False
        async with aclosing(client.get_run(run_id).events(follow=False)) as events:
            async for event in events:
                if event.type == "run_started" and event.forked_from and not event.forked_from.at:
                    origin = event.forked_from.run_id
                elif event.type == "tool_start":
                    begun[event.tool_call_id] = event.event_id
                elif event.type == "tool_end":
                    failed, origin = (event if event.result.error else None), None
                has_failed = event.type == "run_failed" or (has_failed and event.type == "run_stream_end")
        if not has_failed:
            return None
        if failed is not None and (at := begun.get(failed.tool_call_id)):
            line = f"sojourn fork {shell_word(run_id)} --at {at}{connection_options()}"
            name = plain(failed.result.name)
            return f"a retry keeps the failure of {name}; to make the call again: {line}"
        if origin is None:
            return None
        run_id = origin
    return None
