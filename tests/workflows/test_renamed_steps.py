"""A deploy renames the tool of a payment that is being made: what the run says, and the way on."""

import asyncio
import uuid

import pytest

from sojourn import Agent, App, CallFailed, Case, Client, RunFailed, Worker, flow
from tests.bank import Bank
from tests.workflows.test_effects import (
    ALONE,
    event_of,
    impatient,  # noqa: F401 - a fixture of every test here
    payments,
)


@pytest.mark.parametrize("words", ["lunch", "Lunch"])
@pytest.mark.parametrize("step", ["pay", "desk.bank.pay#1"])
async def test_a_payment_whose_tool_was_renamed_has_a_way_on(temporal_address, step, words):
    """The run and its retry fail without a second payment and name the fork, which pays under the first key."""
    makes = {"tool": "pay", "purpose": "lunch", "step": "pay" if step == "pay" else None}

    @flow
    def paying(case: Case) -> str:
        tool = f"desk.bank.{makes['tool']}"
        return case.call(tool, payment="p", amount=30, purpose=makes["purpose"], step=makes["step"])

    async with Bank.of(p=["lost", "503:2"]) as bank:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")

        def deployed() -> Worker:
            uses = [payments(bank, idempotent=True, name=makes["tool"])]
            return Worker(App(agents=[Agent("test.agent", planner=paying, uses=uses, policy=ALONE)]), client)

        async with deployed():
            run = await client.start("test.agent", "pay")
            while len(bank.requests["p"]) < 2 or (await run.status()).phase != "waiting":
                await asyncio.sleep(0.05)
        makes |= {"tool": "transfer", "purpose": words, "step": step}
        async with deployed():
            with pytest.raises(RunFailed) as failed:
                await run.result()
            again = await client.retry(run.id)
            with pytest.raises(RunFailed) as failed_again:
                await again.result()
            for error in (failed, failed_again):
                assert "fork the run that made it" in str(error.value)
                assert "tool_start of desk.bank.pay" in str(error.value)
            fork = await client.fork(run.id, at=await event_of(run, "tool_start"))
            assert (await fork.result()).text == "receipt-1"
            assert len(bank.requests["p"]) == 3
            assert bank.counts == {"p": 1}


async def test_a_flow_that_catches_the_failure_of_a_renamed_payment_gets_the_way_on(temporal_address):
    """The error that the flow catches and a note on the run name the fork, which pays by the new name, under the first key."""
    makes = {"tool": "pay"}
    told: list[str] = []

    @flow
    def paying(case: Case) -> str:
        try:
            return case.call(
                f"desk.bank.{makes['tool']}", payment="p", amount=30, purpose="lunch", step="pay"
            )
        except CallFailed as failed:
            told.append(failed.error.message)
            return "not paid"

    async with Bank.of(p=["429:2"]) as bank:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")

        def deployed() -> Worker:
            uses = [payments(bank, idempotent=True, name=makes["tool"])]
            return Worker(App(agents=[Agent("test.agent", planner=paying, uses=uses, policy=ALONE)]), client)

        async with deployed():
            run = await client.start("test.agent", "pay")
            while not bank.requests["p"] or (await run.status()).phase != "waiting":
                await asyncio.sleep(0.05)
        makes["tool"] = "disburse"
        async with deployed():
            output = await run.result()
            assert output.text == "not paid"
            assert "tool_start of desk.bank.pay" in told[-1]
            assert any("tool_start of desk.bank.pay" in note for note in output.notes)
            fork = await client.fork(run.id, at=await event_of(run, "tool_start"))
            assert (await fork.result()).text == "receipt-1"
            assert len(set(bank.requests["p"])) == 1
            assert bank.counts == {"p": 1}
