"""Warn a user who follows a run if no worker polls its task queue.

The user would otherwise see nothing happen.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from sojourn.cli.client import worker_line
from sojourn.cli.screen.view import RunView
from sojourn.client.run import Run
from sojourn.client.stuck import stuck_runs
from sojourn.errors import SojournError

__all__ = ["telling_of_workers"]

LOOKED_AT_EVERY = 5.0
"""Seconds between two checks."""


@asynccontextmanager
async def telling_of_workers(run: Run, view: RunView) -> AsyncGenerator[None]:
    """Warn once, while the body runs, that no worker polls the run's task queue.

    The warning comes only if the run has work.
    """
    task = asyncio.create_task(_look(run, view))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _look(run: Run, view: RunView) -> None:
    while True:
        await asyncio.sleep(LOOKED_AT_EVERY)
        with suppress(SojournError):  # the server is away, which the follower of the run reports
            stuck = (await stuck_runs(run.client, [run.id])).get(run.id)
            if stuck and stuck.kind == "unserved":
                view.say(
                    f"! {stuck.reason}; start one with `{worker_line(stuck.queue)}`", "yellow", once=True
                )
