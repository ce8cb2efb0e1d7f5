"""The core of Temporal's SDK: its lines are lines like any other, not colours on standard output."""

import json

import pytest

from sojourn import Client
from sojourn.server import Server


@pytest.mark.parametrize(
    "command", [["-m", "sojourn", "worker", "logging_app:app"], ["serving.py"]], ids=["worker", "serve"]
)
async def test_a_server_that_goes_away_is_told_in_one_format(command, worker_of, until, tmp_path):
    """The worker notices, says so as JSON on standard error, and still ends well; of `app.serve()` too."""
    async with Server(port=0, ui=False, attach=False) as server:
        process = worker_of(command, TEMPORAL_ADDRESS=server.address, MEETING=str(tmp_path))
        await until(lambda: "worker_ready" in process.err)
        client = await Client.connect(server.address, task_queue="sojourn")
        await client.execute("shop.agent", "nothing")
    core = await until(lambda: [line for line in process.lines if line["logger"] == "temporalio.core"])
    assert core[0]["level"] == "warning"
    assert "retried" in core[0]["event"]
    assert "\x1b" not in json.dumps(core)
    assert process.stop() == 0
    assert process.out == ""
