"""Attention: wanting what a planner writes from before its message is sent, so that the first words are not missed.

It lasts as long as the requests that want it, and is one for each run, however many they are.
"""

import asyncio
from collections.abc import Hashable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from sojourn.client.client import Client
from sojourn.client.run import Run
from sojourn.live.transport import topic_of

__all__ = ["attend"]

LONGEST = 30.0
"""Seconds; by then the follower of the run, which gets the present draft from its beginning, listens by itself."""


@dataclass(slots=True)
class _Listener:
    """The listening to one run."""

    task: asyncio.Task[None]
    requests: int = 0
    """Requests that want it."""


_listeners: dict[Hashable, _Listener] = {}
"""By client and run."""


async def attend(client: Client, run: Run) -> None:
    """Listen to a run until the request ends, whose task this is; the run need not exist yet.

    Workers write nothing live for a run that nobody listens to.
    """
    key = (id(client), run.id)
    listener = _listeners.get(key)
    if listener is None or listener.task.done():
        topic = topic_of(client.temporal.namespace, run.id)
        task = asyncio.create_task(_listen(client, topic), name=f"attention to {run.id}")
        listener = _listeners[key] = _Listener(task)
    listener.requests += 1
    if (request := asyncio.current_task()) is not None:
        request.add_done_callback(lambda _: _leave(key, listener))
    await asyncio.sleep(0)


def _leave(key: Hashable, listener: _Listener) -> None:
    listener.requests -= 1
    if listener.requests:
        return
    listener.task.cancel()
    if _listeners.get(key) is listener:
        del _listeners[key]


async def _listen(client: Client, topic: str) -> None:
    with suppress(Exception):  # a transport that fails loses only what would have been seen live
        async with asyncio.timeout(LONGEST), aclosing(client.live.subscribe(topic)) as news:
            async for _ in news:
                pass
