"""pytest fixtures: a real Temporal server for the whole test session; another model in an agent's place.

Under pytest-xdist each worker process has a server of its own: it starts in
under a second, and tests of one process cannot disturb another's.
"""

from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sojourn.server import Server

__all__ = ["temporal_address", "temporal_server", "use_model"]

_AT_ONCE = timedelta(0)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> "Generator[Server]":
    """Yield a tuned development server on free ports, with its data in a file and without UI."""
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
        # Its data goes with the session: nothing is left to end in good order.
        _run(server.stop(grace=_AT_ONCE))


@pytest.fixture(scope="session")
def temporal_address(temporal_server: "Server") -> str:
    """Return `host:port` of the session's server."""
    return temporal_server.address


@pytest.fixture
def use_model() -> "Generator[Callable[[Any, Any], Any]]":
    """Let another model plan until the test ends, `use_model(app, TestModel())`; needs `sojourn[models]`."""
    from sojourn.testing.models import use_model as using  # noqa: PLC0415

    with ExitStack() as stack:
        yield lambda of, model: stack.enter_context(using(of, model))


def _run(step: "Coroutine[object, object, object]") -> None:
    """Run a step in a loop of its own, leaving alone whatever loop the tests run in."""
    import asyncio  # noqa: PLC0415

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(step)
