"""Pytest fixtures for a real Temporal server, its workers, and stand-ins.

The whole test session uses one server. Under pytest-xdist each worker process has its own: it starts in
less than a second, and the tests of one process cannot disturb those of another.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sojourn.authoring.app import App
    from sojourn.client.client import Client
    from sojourn.server import Server
    from sojourn.testing.providers import ProviderServer

__all__ = [
    "provider",
    "replay_histories",
    "serve",
    "temporal_address",
    "temporal_server",
    "use_mcp",
    "use_model",
]

_AT_ONCE = timedelta(0)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> "Generator[Server]":
    """Yield a tuned development server on free ports, without a UI."""
    from sojourn.server import Server  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("temporal")
    server = Server(
        db_filename=folder / "temporal.db",
        log_filename=folder / "temporal.log",
        port=0,
        ui=False,
        attach=False,
        on_progress=print,
    )
    _run(server.start())
    try:
        yield server
    finally:
        # The data is not used after the session, so the server need not shut down cleanly.
        _run(server.stop(grace=_AT_ONCE))


@pytest.fixture(scope="session")
def temporal_address(temporal_server: "Server") -> str:
    """Return `host:port` of the session's server."""
    return temporal_server.address


@pytest.fixture
async def serve(temporal_address: str) -> "AsyncGenerator[Callable[[App], Awaitable[Client]]]":
    """Yield a function that starts a worker until the test ends.

        client = await serve(app)

    It needs pytest-asyncio. Each call starts a worker on a task queue of its own, and returns the
    client of that queue. Other arguments are passed to `Client.connect`: `await serve(app,
    storage=..., codec=...)`.
    """
    import uuid  # noqa: PLC0415

    from sojourn.client.client import Client  # noqa: PLC0415
    from sojourn.worker import Worker  # noqa: PLC0415

    async with AsyncExitStack() as stack:

        async def start(app: "App", **connecting: Any) -> "Client":
            queue = f"test-{uuid.uuid4().hex}"
            client = await Client.connect(temporal_address, task_queue=queue, **connecting)
            await stack.enter_async_context(Worker(app, client, drain=_AT_ONCE))
            return client

        yield start


@pytest.fixture
async def provider() -> "AsyncGenerator[ProviderServer]":
    """Yield a stand-in for model providers until the test ends.

        provider.script = [fails("rate_limit", retry_after=1), calls(find.call(id=7)), "It is on its way."]
        use_model(app, provider.model("anthropic"))

    It needs `sojourn[http,models]` and pytest-asyncio. An exception of the script, or a request for
    which it has no answer, fails the test.
    """
    from sojourn.testing.providers import ProviderServer  # noqa: PLC0415

    async with ProviderServer() as server:
        yield server
    for error in server.errors:
        raise error


@pytest.fixture
def replay_histories() -> "Callable[..., Awaitable[None]]":
    """Return a function that fails if a deploy of an app would harm a recorded run.

        await replay_histories("histories", app)

    It needs pytest-asyncio, and no server. It finds what `sojourn replay` finds, in a file or in every
    `*.json` of a folder, and names all problems. Other arguments: `strict=True` fails for notes too, such as
    plans of planners in code that are others now; `plans=False` makes no plans again; `codec=...` decrypts.
    """
    from sojourn.testing.replay import fail_for_problems  # noqa: PLC0415

    return fail_for_problems


@pytest.fixture
def use_mcp() -> "Generator[Callable[..., Any]]":
    """Yield a function that replaces an MCP server until the test ends.

    Call it as `use_mcp(toolset, read, write)`. It needs `sojourn[mcp]`.
    """
    from sojourn.testing.mcp import use_mcp as using  # noqa: PLC0415

    with ExitStack() as stack:

        def use(toolset: Any, *tools: Any) -> Any:
            return stack.enter_context(using(toolset, *tools))

        yield use


@pytest.fixture
def use_model() -> "Generator[Callable[[Any, Any], Any]]":
    """Yield a function that replaces a model until the test ends.

    Call it as `use_model(app, TestModel())`. It needs `sojourn[models]`.
    """
    from sojourn.testing.models import use_model as using  # noqa: PLC0415

    with ExitStack() as stack:
        yield lambda of, model: stack.enter_context(using(of, model))


def _run(coroutine: "Coroutine[object, object, object]") -> None:
    import asyncio  # noqa: PLC0415

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(coroutine)
