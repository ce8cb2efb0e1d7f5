"""The records of the SDK's core are lines of the log, not colored text on standard output."""

import asyncio
import json

import pytest

from sojourn import Client
from sojourn.server import Server


@pytest.mark.parametrize(
    "command", [["-m", "sojourn", "worker", "logging_app:app"], ["serving.py"]], ids=["worker", "serve"]
)
async def test_a_lost_server_is_logged_in_the_same_format(command, worker_of, until, tmp_path):
    """A worker whose server stops logs that as JSON on standard error and ends with status 0, under `app.serve()` too."""
    async with Server(port=0, ui=False, attach=False) as server:
        process = worker_of(command, TEMPORAL_ADDRESS=server.address, MEETING=str(tmp_path))
        await until(lambda: "worker_ready" in process.err)
        client = await Client.connect(server.address)
        await client.execute("shop.agent", "nothing")
    core = await until(lambda: [line for line in process.lines if line["logger"] == "temporalio.core"])
    assert core[0]["level"] == "warning"
    assert core[0]["event"].startswith(
        "the Temporal server does not answer; what waits for it goes on by itself"
    )
    await asyncio.sleep(2)  # the core tries again several times a second
    assert len([line for line in process.lines if line["logger"] == "temporalio.core"]) == 1
    assert "\x1b" not in json.dumps(core)
    assert process.stop() == 0
    assert process.out == ""
