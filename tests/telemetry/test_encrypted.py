"""Encrypted and traced: an attempt that fails says why, with each of the two and with both."""

import asyncio

import pytest
from cryptography.fernet import Fernet

from sojourn import Client
from tests.telemetry.bank_app import WHY, Sealed

BANK = ("-m", "sojourn", "worker", "bank_app:app")


@pytest.mark.parametrize("is_encrypted", [True, False])
async def test_an_attempt_that_fails_says_why(desk, temporal_address, is_encrypted):
    """`tool_retry` has the tool's message, and Temporal's description of the run a failure that it holds whole."""
    key = Fernet.generate_key().decode()
    await desk.worker(*BANK, **({"KEY": key, "SOJOURN_CODEC": "bank_app:codec"} if is_encrypted else {}))
    codec = Sealed(key) if is_encrypted else None
    client = await Client.connect(temporal_address, task_queue=desk.client.task_queue, codec=codec)
    run = await client.start("desk.payer", "pay")
    async with asyncio.timeout(60):
        async for event in run.events():
            if event.type == "tool_retry":
                break
    assert WHY.strip() in event.error
    assert "exceeds size" not in event.error
    described = await run._handle.describe()
    (failed,) = [one.last_failure for one in described.raw_description.pending_activities]
    assert failed.message == "Encoded failure" if is_encrypted else WHY.strip() in failed.message
    decoded = await client.temporal.data_converter.decode_failure(failed)
    assert WHY.strip() in str(decoded)
    await run.cancel()
    await desk.until(desk.spans)
