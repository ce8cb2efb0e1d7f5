"""Sessions: what a conversation hears of changes to its server's tools."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from sojourn import mcp
from sojourn.mcp.session import Session


class Ear:
    """The SDK's client, whose first subscription ends at once; the second tells of one change and stays."""

    def __init__(self) -> None:
        self.begun = 0
        self.told = asyncio.Event()

    @asynccontextmanager
    async def listen(self, *, tools_list_changed: bool) -> AsyncGenerator[AsyncIterator[str]]:
        assert tools_list_changed
        self.begun += 1
        yield self._events()

    async def _events(self) -> AsyncIterator[str]:
        if self.begun > 1:
            await self.told.wait()
            yield "changed"
            await asyncio.Event().wait()


async def test_after_a_time_without_a_subscription_a_change_is_assumed(until):
    """What a server said meanwhile nobody heard; at the first subscription the tools have just been listed."""
    changes: list[int] = []
    ear = Ear()
    session = Session(
        "ops.test", mcp.Stdio("x"), on_change=lambda: changes.append(ear.begun), on_drop=lambda *_: None
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(session._listen, ear)
        assert (ear.begun, changes) == (1, [])
        await until(lambda: changes)
        ear.told.set()
        await until(lambda: len(changes) > 1)
        tasks.cancel_scope.cancel()
    assert changes == [2, 2]
