"""Sessions: subscriptions to changes of a server's tools."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from sojourn import mcp
from sojourn.mcp.caller import Caller
from sojourn.mcp.session import ServerSession


class ChangingClient:
    """An SDK client whose first subscription ends at once, and whose second one announces one change and stays open."""

    def __init__(self) -> None:
        self.subscriptions = 0
        self.is_changed = asyncio.Event()

    @asynccontextmanager
    async def listen(self, *, tools_list_changed: bool) -> AsyncGenerator[AsyncIterator[str]]:
        assert tools_list_changed
        self.subscriptions += 1
        yield self._events()

    async def _events(self) -> AsyncIterator[str]:
        if self.subscriptions > 1:
            await self.is_changed.wait()
            yield "changed"
            await asyncio.Event().wait()


async def test_after_a_time_without_a_subscription_a_change_is_assumed(until):
    """A later subscription may have missed a change; the first has not, since the tools are listed after it."""
    changes: list[int] = []
    client = ChangingClient()
    session = ServerSession(
        "ops.test",
        mcp.Stdio("x"),
        on_change=lambda: changes.append(client.subscriptions),
        on_drop=lambda *_: None,
        current_transport=lambda: mcp.Stdio("x"),
        caller=Caller(),
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(session._listen, client)
        assert (client.subscriptions, changes) == (1, [])
        await until(lambda: changes)
        client.is_changed.set()
        await until(lambda: len(changes) > 1)
        tasks.cancel_scope.cancel()
    assert changes == [2, 2]
