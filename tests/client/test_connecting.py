"""A client is awaited or entered, and a closed one closes what it made."""

import asyncio

import pytest

from sojourn import Agent, App, Client, PlanResult
from sojourn.live import LocalTransport
from sojourn.testing.scripted import ScriptedPlanner


class Watched(LocalTransport):
    """A transport that counts how often it was closed."""

    closed = 0

    async def close(self) -> None:
        """Count."""
        self.closed += 1


async def test_a_client_is_entered(temporal_address):
    """`async with Client.connect()` gives a client, and closes the transport that the client made."""
    async with Client.connect(temporal_address) as client:
        assert isinstance(client, Client)
        client.live = watched = Watched()
        assert not watched.closed
    assert watched.closed == 1


async def test_a_transport_of_the_callers_own_stays_open(temporal_address):
    """A transport that was passed as an object is the caller's to close; a client itself can be entered."""
    watched = Watched()
    async with await Client.connect(temporal_address, live=watched) as client:
        assert client.live is watched
    assert not watched.closed


async def test_a_connection_is_a_coroutine(temporal_address):
    """A task, and so `asyncio.run`, takes it."""
    assert isinstance(await asyncio.create_task(Client.connect(temporal_address)), Client)


async def test_a_run_exists_once_it_was_started(serve):
    """`exists` is false for an unknown id, and true for a run, also after its end."""
    planner = ScriptedPlanner([PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=planner)]))
    assert not await client.get_run("nowhere").exists()
    output = await client.execute("test.agent", "go", labels={"a": "b"})
    assert await client.get_run(output.run_id).exists()


async def test_execute_refuses_an_unknown_argument(temporal_address):
    """`execute` states its arguments, so a misspelt one is an error."""
    client = await Client.connect(temporal_address)
    with pytest.raises(TypeError, match="sesion_id"):
        await client.execute("test.agent", "go", sesion_id="x")  # type: ignore[call-arg]
