"""Fixtures: an app served by a real worker on a real server."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from sojourn import Agent, App, Client, RunPolicy, Toolset, Worker

Serve = Callable[..., Awaitable[Client]]


@pytest.fixture
async def serve(temporal_address: str) -> AsyncIterator[Serve]:
    """Serve an app, or an agent made of a planner and toolsets, on a queue of its own; gives its client."""
    async with AsyncExitStack() as stack:

        async def start(
            app: App | None = None,
            *,
            planner=None,
            uses: tuple[Toolset, ...] = (),
            policy: RunPolicy | None = None,
        ) -> Client:
            if app is None:
                app = App(agents=[Agent("test.agent", planner=planner, uses=list(uses), policy=policy)])
            client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
            await stack.enter_async_context(Worker(app, client))
            return client

        yield start
