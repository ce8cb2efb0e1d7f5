"""The app, the Temporal client, the reader and the feeds of one process.

They open with the first request and close at shutdown. Any other process answers the same.
"""

import asyncio

from sojourn.authoring.agent import Agent
from sojourn.authoring.app import App
from sojourn.client.client import Client
from sojourn.errors import SojournError
from sojourn.http.metrics import Metrics
from sojourn.http.problems import Problem, redact
from sojourn.http.security.disconnect import StoppableServer, find_signaled_server, wait_until_stopping
from sojourn.reader import (
    Feeds,
    Reader,
    SpendingReader,
    WaitingLists,
)
from sojourn.values.text import closest_name

__all__ = ["Backend"]

CHECK = 5.0
"""Seconds in which the Temporal server must answer a check, and for which the outcome is cached."""


class Backend:
    """Connects to Temporal, and holds what all requests of the process share.

    Args:
        app: The app, whose agents are the catalogue.
        client: The client. If None, the backend makes its own from the standard settings.
    """

    def __init__(self, app: App, client: Client | None = None) -> None:
        self.app = app
        self.metrics = Metrics()
        self._given = client
        self._client = client
        self._feeds: Feeds | None = None
        self._reader: Reader | None = None
        self._waiting: WaitingLists | None = None
        self._spending_reader: SpendingReader | None = None
        self.is_down = False
        """Whether the Temporal server did not answer the last check of `is_available`."""
        self._opening = asyncio.Lock()
        self._stopping: asyncio.Future[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, unless the service is connected."""
        async with self._opening:
            if self._client is None:
                self._client = await Client.connect(
                    storage=self.app.storage,
                    live=self.app.live_setting,
                    attachment_limits=self.app.attachment_limits,
                )
            if self._feeds is None:
                self._feeds = Feeds(self._client, self.metrics, redact)
                self._reader = Reader(self._client)
                self._waiting = WaitingLists(self._reader)
                self._spending_reader = SpendingReader(self._reader)
                self._stopping = asyncio.get_running_loop().create_future()
                if (server := find_signaled_server()) is not None:
                    self._watching = asyncio.create_task(self._watch(server, self._stopping), name="watch")

    async def is_reachable(self, patience: float, *, fresh: float) -> bool:
        """Return whether the Temporal server is up, as `Reader.is_up` does."""
        try:
            await self.open()
        except SojournError:
            return False
        return await self.reader.is_up(patience, fresh=fresh)

    async def is_available(self) -> bool:
        """Return whether the Temporal server is up, and update `is_down`."""
        self.is_down = not await self.is_reachable(CHECK, fresh=CHECK)
        return not self.is_down

    async def _watch(self, server: StoppableServer, stopping: asyncio.Future[None]) -> None:
        await wait_until_stopping(server, stopping)
        if not stopping.done():
            await self.end_streams()

    async def end_streams(self) -> None:
        """End every stream and wait. Clients connect again, mostly to another process."""
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)
        if self._feeds is not None:
            await self._feeds.close()

    async def close(self) -> None:
        await self.end_streams()
        self._feeds = None
        if (vault := self.app.opened_vault) is not None:
            await vault.close()
        if self._given is None and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    @property
    def client(self) -> Client:
        assert self._client is not None, "the service is open while it answers"
        return self._client

    @property
    def feeds(self) -> Feeds:
        assert self._feeds is not None, "the service is open while it answers"
        return self._feeds

    @property
    def stopping(self) -> asyncio.Future[None]:
        """Done once this process ends its streams and its waits, at shutdown."""
        assert self._stopping is not None, "the service is open while it answers"
        return self._stopping

    @property
    def reader(self) -> Reader:
        assert self._reader is not None, "the service is open while it answers"
        return self._reader

    @property
    def _waits(self) -> WaitingLists:
        assert self._waiting is not None, "the service is open while it answers"
        return self._waiting

    @property
    def _spending(self) -> SpendingReader:
        assert self._spending_reader is not None, "the service is open while it answers"
        return self._spending_reader

    def agent(self, agent_id: str) -> Agent:
        """Return an agent of the app, or raise a problem (404)."""
        agent = self.app.agent(agent_id)
        if agent is None:
            raise Problem(
                404,
                "agent_not_found",
                f"the app has no agent {agent_id[:200]!r}{self.similar_agent(agent_id)}",
                then="GET /v1/agents lists the agents.",
            )
        return agent

    def similar_agent(self, agent_id: str) -> str:
        """Return a clause that names an agent with a similar id, or nothing."""
        closest = closest_name(agent_id, self.app.agent_ids)
        return f"; did you mean {closest!r}?" if closest else ""
