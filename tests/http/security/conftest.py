"""Fixtures: a small application behind the locks, served on the loopback interface."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.exceptions import HTTPException

from sojourn import Principal
from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of
from sojourn.http.security import audit
from sojourn.http.security.middleware import SecurityMiddleware
from sojourn.http.security.principals import Asking, require
from sojourn.network import http_client

ROUTES = ("viewer", "user", "approver", "operator")


async def as_problem(_request: Request, error: Exception) -> Response:
    """The answer to an error, as the service has it."""
    return problem_of(error).response()


def make_web(**locked: Any) -> FastAPI:
    """An application with a route for everything that a lock may have to do with."""
    web = FastAPI()
    for kind in (HTTPException, Problem, SojournError, Exception):
        web.add_exception_handler(kind, as_problem)
    web.add_middleware(SecurityMiddleware, **locked)

    @web.get("/who")
    async def who(asking: Asking) -> Principal:
        return asking

    @web.get("/as/{role}")
    async def as_role(role: str, asking: Asking) -> str:
        require(asking, role)
        return role

    @web.post("/echo")
    async def echo(asking: Asking, request: Request) -> dict[str, Any]:
        return {"for": asking.subject, "body": await request.json()}

    @web.post("/decide")
    async def decide(request: Request, _asking: Asking) -> str:
        audit.bind(await_id="w-1", approved=True, digest="d-1")
        return "done"

    @web.get("/events")
    async def events(_asking: Asking) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            while True:
                yield ": beat\n\n"
                await asyncio.sleep(0.05)

        return StreamingResponse(lines(), media_type="text/event-stream")

    @web.get("/boom")
    async def boom(_asking: Asking) -> None:
        raise RuntimeError("the secret is in line 7")

    @web.get("/html")
    async def html(_asking: Asking) -> HTMLResponse:
        return HTMLResponse("<script>alert(1)</script>")

    @web.get("/health")
    async def health() -> str:
        return "ok"

    return web


Serve = Callable[..., Awaitable[httpx2.AsyncClient]]


@pytest.fixture
async def serve_web() -> AsyncIterator[Serve]:
    """Serve an ASGI application on a free port of the loopback interface; return a client of it."""
    async with AsyncExitStack() as stack:

        async def start(
            web: Any = None, *, headers: dict[str, str] | None = None, **locked: Any
        ) -> httpx2.AsyncClient:
            port = await stack.enter_async_context(served(web or make_web(**locked)))
            client = http_client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60)
            return await stack.enter_async_context(client)

        yield start


@contextlib.asynccontextmanager
async def served(web: Any) -> AsyncIterator[int]:
    """Serve an application during the body; the value is its port."""
    settings = uvicorn.Config(web, port=0, log_config=None, ws="none", lifespan="off", http="h11")
    settings.load()
    server = uvicorn.Server(settings)
    server.lifespan = settings.lifespan_class(settings)
    with settings.bind_socket() as listening:
        await server.startup(sockets=[listening])
        await server.on_tick(0)
        try:
            yield listening.getsockname()[1]
        finally:
            await _stop(server)


async def _stop(server: uvicorn.Server) -> None:
    """Stop as soon as all connections are closed: uvicorn itself looks for that ten times a second."""
    state = server.server_state
    for each in server.servers:
        each.close()
    for connection in list(state.connections):
        connection.shutdown()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            while state.connections or state.tasks:
                await asyncio.sleep(0.002)
    for task in state.tasks:
        task.cancel()
    for each in server.servers:
        await each.wait_closed()
