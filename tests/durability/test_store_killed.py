"""A worker is killed while it writes to external storage: the run goes on once its heartbeats are missed."""

import asyncio

import pytest

from sojourn.storage import FolderStorage

PROMPTLY = 45
"""Most seconds until the messages are answered: the heartbeat time-out of 15 s, and the start of a worker."""


@pytest.mark.parametrize("activity", ["StoreTranscriptActivity", "ArchiveEventsActivity"])
async def test_a_worker_dies_while_it_stores(stage, activity):
    """Another worker stores the transcript, or the events, and all messages that wait are answered."""
    stage.hold(activity)
    worker = await stage.worker("storing_app:app")
    stage.client.storage = FolderStorage(stage.folder / "storage")
    session = stage.client.session("storing.agent", f"desk-{activity}")
    turns = [await session.send(f"message {number}") for number in range(8)]
    await stage.reached(activity)
    worker.kill()
    stage.release(activity)
    async with asyncio.timeout(PROMPTLY):
        await stage.worker("storing_app:app")
        assert [(await turn.result()).text for turn in turns] == list("12345678")
