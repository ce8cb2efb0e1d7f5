"""`sojourn run` starts a run and follows it; `sojourn watch` follows one that is there."""

import asyncio
import sys
from collections.abc import Awaitable

from sojourn.cli.connected import with_client
from sojourn.cli.encrypted import given_again
from sojourn.cli.follow import follow, follow_as_json
from sojourn.client.client import Client
from sojourn.client.run import Run

__all__ = ["run_agent", "watch_run"]


def run_agent(
    agent: str,
    text: str,
    *,
    run_id: str | None,
    session_id: str,
    task_queue: str | None,
    json: bool,
    deltas: bool,
) -> int:
    """Start and follow a run; the exit code says how it ended."""

    async def start(client: Client) -> int:
        run = await client.start(agent, text, run_id=run_id, session_id=session_id)
        return await _attended(run, _followed(run, json=json, deltas=deltas))

    return with_client(start, task_queue=task_queue)


def watch_run(run_id: str, *, after: str | None, json: bool, deltas: bool) -> int:
    """Follow a run from its first event, or from the one after `after`; the exit code says how it ended."""

    async def watch(client: Client) -> int:
        run = client.get_run(run_id)
        return await _attended(run, _followed(run, json=json, after=after, deltas=deltas))

    return with_client(watch)


async def _followed(run: Run, *, json: bool, deltas: bool, after: str | None = None) -> int:
    if json:
        return await follow_as_json(run, run.events(after=after, children=True, deltas=deltas))
    return await follow(run, after=after)


async def _attended(run: Run, following: Awaitable[int]) -> int:
    try:
        return await following
    except asyncio.CancelledError:
        line = f"sojourn watch {run.id}{given_again()}"
        print(f"interrupted; the run goes on without you: {line}", file=sys.stderr)
        raise
