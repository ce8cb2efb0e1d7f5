"""Fixtures: the service in this process behind a real HTTP server on the loopback interface, and a client of it."""

import asyncio
import contextlib
import importlib.util
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from sojourn import Client, Run
from sojourn.asgi import create_app
from sojourn.http.server import CONNECTIONS, Connection, Connections
from sojourn.network import http_client

SHOP = Path(__file__).with_name("shop_app.py")


@pytest.fixture(scope="session")
def shop():
    """The module of shop_app.py."""
    spec = importlib.util.spec_from_file_location("shop_app", SHOP)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.asynccontextmanager
async def listening(web: Any, *, buffer: int | None = None) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port, perhaps with small buffers for what is sent; yields its address."""
    listener = socket.socket()
    if buffer is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        web,
        log_level="critical",
        timeout_graceful_shutdown=1,
        http=Connection.of(Connections(CONNECTIONS)),
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            assert not serving.done(), "the server did not start"
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


@dataclass
class Frame:
    """A frame of a stream of events."""

    id: str = ""
    name: str = ""
    data: Any = None
    comment: str = ""


@dataclass
class Shop:
    """The service of the shop's app, a client of it, and a client of the runs themselves."""

    web: Any
    url: str
    http: httpx2.AsyncClient
    client: Client
    status_when: Callable[..., Awaitable[Any]]
    left: list[Run] = field(default_factory=list)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        """POST a JSON body."""
        return await self.http.post(path, json={} if body is None else body, **options)

    async def start(self, text: str, **fields: Any) -> str:
        """Start a run of the clerk; return its id."""
        answer = await self.post("/v1/runs", {"agent_id": "shop.clerk", "input": text, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()["run_id"]

    async def output(self, run_id: str) -> Any:
        """The outcome of a run that has ended."""
        answer = await self.http.get(f"/v1/runs/{run_id}/output", params={"wait": 30})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def waiting(self, text: str, **fields: Any) -> tuple[str, Any]:
        """Start a run, and wait until it has an open wait; return its id and the wait."""
        run_id = await self.start(text, **fields)
        status = await self.status_when(self.client.get_run(run_id), lambda status: status.awaits)
        return run_id, status.awaits[0]

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, after: str = "", **query: Any
    ) -> AsyncIterator[AsyncIterator[Frame]]:
        """Open a stream of events, as a browser that was at `after` does; yields its frames."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
        async with self.http.stream("GET", path, headers=headers, params=query) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            async with contextlib.aclosing(frames(answer.aiter_lines())) as found:
                yield found

    async def events(self, path: str, *, most: int = 100_000, **query: Any) -> list[Frame]:
        """Frames with events of a stream, to its end or the first `most`."""
        found = list[Frame]()
        async with self.stream(path, **query) as stream:
            async for frame in stream:
                assert frame.name == "", frame
                if frame.data is not None:
                    found.append(frame)
                if len(found) == most:
                    break
        return found


async def frames(lines: AsyncIterator[str]) -> AsyncIterator[Frame]:
    """The frames in the lines of a stream."""
    frame, is_empty = Frame(), True
    async for line in lines:
        name, _, value = line.partition(": ")
        match name:
            case "":
                if line:
                    yield Frame(comment=value)
                elif not is_empty:
                    yield frame
                frame, is_empty = Frame(), True
            case "id":
                frame.id, is_empty = value, False
            case "event":
                frame.name, is_empty = value, False
            case "data":
                frame.data, is_empty = json.loads(value), False
            case _:
                pass


@pytest.fixture
async def served(serve, shop, status_when) -> AsyncIterator[Shop]:
    """The shop's app on a worker, and its service."""
    client = await serve(shop.app)
    web = create_app(shop.app, client=client)
    async with listening(web) as url, http_client(base_url=url, timeout=60) as http:
        yield Shop(web, url, http, client, status_when)


@pytest.fixture(scope="session")
async def door(shop, temporal_address) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service without a worker, for requests that reach no run."""
    web = create_app(shop.app, client=await Client.connect(temporal_address))
    async with listening(web) as url, http_client(base_url=url, timeout=60) as http:
        yield http
