"""The flows of flows.md work as written, and a killed worker repeats no step."""

import os
import uuid

import pytest

from sojourn import Client, Principal
from tests.programs import Program


@pytest.fixture
def desk(module_of):
    """The page's module, `desk.py` in the test's folder."""
    return module_of("flows.md", "desk")


async def test_calls_begun_together_run_together(serve, desk):
    """Calls that are begun before the first result make one step; a failure that is caught is left out."""
    client = await serve(desk.app)
    output = await client.execute("shop.compare", "A-1 B-2 A-3")
    assert output.text == "Left out: there is no order B-2.\nTogether 60."
    assert (output.rounds, output.tool_calls) == (1, 3)


@pytest.mark.usefixtures("campaigns")
async def test_a_killed_worker_repeats_no_step(temporal_address, desk, tmp_path):
    """The worker is killed while the flow waits for a person; another one goes on, and each call was made once."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    env = {**os.environ, "TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}

    def worker() -> Program:
        log = tmp_path / "worker.log"
        return Program("-m", "sojourn", "worker", "desk:app", cwd=tmp_path, env=env, out=log, err=log)

    first = worker()
    run = await client.start("shop.desk", "A-7", wait_for_worker=True)
    called = []
    async for event in run.events():
        if event.type == "tool_start":
            called.append(event.tool_name)
        elif event.type == "await_confirmation":
            assert event.confirmation.prompt == "Refund 30 for A-7?"
            break
    first.kill()
    second = worker()
    try:
        fin = Principal(subject="fin", roles=["finance"])
        await run.approve(event.confirmation, principal=fin)
        output = await run.result()
    finally:
        second.kill()
    assert called == ["shop.orders.find"]
    assert output.text == "Refunded 30, approved by fin: receipt-A-7."
    asked = "sojourn.approvals.approve"
    assert [e.tool_name async for e in run.events() if e.type == "tool_start"] == [
        *called,
        asked,
        desk.refund.id,
    ]
