"""Follow a run until it ends, waits for a person, or Ctrl-C.

The commands `run`, `watch`, `fork` and `retry` use it.
"""

import asyncio

from sojourn.cli.failure import Interrupted
from sojourn.cli.follow import follow, follow_as_json
from sojourn.cli.options import connection_options
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.text import shell_word
from sojourn.client.run import Run

__all__ = ["attach"]


async def attach(
    run: Run,
    *,
    as_json: bool,
    deltas: bool,
    verbose: int,
    after: str | None = None,
    is_old: bool = False,
    one_turn: bool = False,
) -> int:
    """Follow a run, and return its exit code.

    Ctrl-C leaves the run as it is, and prints the command line that follows it again.
    """
    try:
        if as_json:
            events = run.events(after=after, children=True, deltas=deltas)
            return await follow_as_json(run, events, one_turn=one_turn)
        detail = Detail(min(verbose, Detail.ALL))
        return await follow(run, after=after, detail=detail, is_old=is_old, one_turn=one_turn)
    except asyncio.CancelledError:
        line = f"sojourn watch {shell_word(run.id)}{connection_options()}"
        text = f"interrupted; the run continues; follow it with: {line}"
        raise Interrupted(text, run_id=run.id) from None
