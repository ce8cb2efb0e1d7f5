"""A worker is killed while its model speaks, and another goes on."""

import os
import uuid
from pathlib import Path

import pytest

from sojourn import Client
from tests.programs import Program


@pytest.fixture
def start_worker(tmp_path, temporal_address, redis):
    """Start a worker process of talker_app on a queue; none is left behind."""
    started = []

    def start(queue: str) -> Program:
        env = {
            **os.environ,
            "TEMPORAL_ADDRESS": temporal_address,
            "SOJOURN_TASK_QUEUE": queue,
            "SOJOURN_LIVE": redis.url,
            "TALKER_HOLD": str(tmp_path / "hold"),
        }
        log, here = tmp_path / f"worker-{len(started)}.log", Path(__file__).parent
        process = Program("-m", "sojourn", "worker", "talker_app:app", cwd=here, env=env, out=log, err=log)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


@pytest.mark.durability
async def test_the_text_is_told_anew_and_once(start_worker, tmp_path, temporal_address, redis):
    """Text, `stream_restarted`, the text from its beginning, the message: in one stream, over two processes."""
    hold = tmp_path / "hold"
    hold.touch()
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}", live=redis.url)
    run = await client.start("test.talker", "go", wait_for_worker=True)
    worker = start_worker(client.task_queue)
    told = []
    async for event in run.events(deltas=True):
        if event.type in ("text_delta", "stream_restarted", "assistant_message"):
            told.append(event)
        if event.type == "text_delta" and hold.exists():
            worker.kill()
            hold.unlink()
            start_worker(client.task_queue)
    restarts = [number for number, event in enumerate(told) if event.type == "stream_restarted"]
    assert restarts == [1]
    assert (told[0].text, told[1].attempt) == ("The site is ", 2)
    anew = "".join(event.text for event in told[2:-1])  # its end may come with the message alone
    assert anew.startswith("The site is ")
    assert "The site is dark.".startswith(anew)
    assert told[-1].message.text == "The site is dark."
