"""A worker is killed while its planner writes deltas, and another worker continues the run."""

import os
import uuid
from pathlib import Path

import pytest

from sojourn import Client
from tests.programs import Program


@pytest.fixture
def start_worker(tmp_path, temporal_address, redis):
    """Start worker processes of talker_app on a task queue; all are killed at the end."""
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


@pytest.mark.usefixtures("campaigns")
async def test_the_text_begins_again_on_another_worker(start_worker, tmp_path, temporal_address, redis):
    """One stream has the text, `stream_restarted`, the text from its beginning, and the message, over two processes."""
    hold = tmp_path / "hold"
    hold.touch()
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}", live=redis.url)
    run = await client.start("test.talker", "go", wait_for_worker=True)
    worker = start_worker(client.task_queue)
    events, killed = [], False
    async for event in run.events(deltas=True):
        if event.type in ("text_delta", "stream_restarted", "assistant_message"):
            events.append(event)
        if event.type == "text_delta" and not killed:
            worker.kill()
            killed = True
            start_worker(client.task_queue)
        if event.type == "stream_restarted":  # the message may overtake what is written after this
            hold.unlink()
    restarts = [number for number, event in enumerate(events) if event.type == "stream_restarted"]
    assert restarts == [1]
    assert (events[0].text, events[1].attempt) == ("The site is ", 2)
    again = "".join(event.text for event in events[2:-1])  # the last piece may come only with the message
    assert again.startswith("The site is ")
    assert "The site is dark.".startswith(again)
    assert events[-1].message.text == "The site is dark."
