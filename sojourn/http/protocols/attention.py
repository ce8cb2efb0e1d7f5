"""Attention: wanting what a planner writes from before its message is sent, so that the first words are not missed."""

import asyncio
from contextlib import aclosing, suppress

from sojourn.client.client import Client
from sojourn.client.run import Run
from sojourn.live.transport import topic_of

__all__ = ["attend"]

LONGEST = 30.0
"""Seconds; by then the follower of the run, which gets the present draft from its beginning, listens by itself."""

_listening: set[asyncio.Task[None]] = set()


async def attend(client: Client, run: Run) -> None:
    """Begin to listen to a run, which need not exist yet; workers write nothing live for a run that nobody listens to."""
    topic = topic_of(client.temporal.namespace, run.id)
    task = asyncio.create_task(_listen(client, topic), name=f"attention to {run.id}")
    _listening.add(task)
    task.add_done_callback(_listening.discard)
    await asyncio.sleep(0)


async def _listen(client: Client, topic: str) -> None:
    with suppress(Exception):  # a transport that fails loses only what would have been seen live
        async with asyncio.timeout(LONGEST), aclosing(client.live.subscribe(topic)) as news:
            async for _ in news:
                pass
