"""The server is killed and restarted on its database file: workers and clients continue."""

import asyncio

import pytest

from sojourn.server import Server


@pytest.fixture
async def server(tmp_path):
    """A server that a test may kill."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


@pytest.mark.essential
async def test_server_killed_in_the_middle_of_tools(stages, server):
    """Worker, `result()` and `events()` outlast a crash of the server; tools that end meanwhile are executed once."""
    stage = await stages(server.address)
    stage.hold("clerk.write-two")
    stage.hold("clerk.stamp-three")
    worker = await stage.worker()
    run = await stage.start()
    result = asyncio.create_task(run.result())

    async def followed() -> list[str]:
        return [event.event_id async for event in run.events()]

    events = asyncio.create_task(followed())
    await stage.reached("clerk.write-two")
    await stage.reached("clerk.stamp-three")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 4)

    server.kill()
    # One tool ends while the server is away, the other after its restart.
    stage.release("clerk.write-two")
    await stage.reached("clerk.write-two", event="end")
    await server.restart()
    stage.release("clerk.stamp-three")

    story = await stage.story(run)
    assert (await result).text == story.output.text
    assert worker.is_running
    story.assert_repeated()
    story.assert_same_as(await stage.story(await stage.start()))
    assert await events == [event.event_id for event in story.events]
