"""What a fork knows of its origin's payments: large ones, those in flight at its point, and those with keys of their own."""

import asyncio
from decimal import Decimal

import pytest

from sojourn import (
    PlanResult,
    RunFailed,
    ToolCallMeta,
    ToolError,
    ToolRequest,
    Toolset,
)
from tests.bank import Bank, receipt_of
from tests.workflows.test_effects import (
    ALONE,
    ASKING,
    Newly,
    call,
    event_of,
    forked_before,
    impatient,  # noqa: F401 - a fixture of every test here
    payments,
    results_of,
    written,
)

# Large arguments.

LARGE = {
    "defaults": ('"amount": 30, "currency": "EUR"', '"amount": 30, "priority": "normal"'),
    "decimals": ('"amount": "30"', '"amount": "30.00"'),
    "an injected field": ('"amount": 30, "desk": "made up"', '"amount": 30, "desk": "made up"'),
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_fork_knows_a_payment_with_long_arguments_however_they_are_spelled(serve, name):
    """Long arguments are compared like short ones: decoded, with defaults, and without injected fields."""
    tools, keys = Toolset("desk.bank"), []

    @tools.tool(idempotent=True, inject={"desk": lambda meta: meta.run_id})
    async def pay(
        payment: str,
        amount: Decimal,
        meta: ToolCallMeta,
        purpose: str = "",
        currency: str = "EUR",
        priority: str = "normal",
        desk: str = "",
    ) -> str:
        """Pay."""
        del payment, amount, purpose, currency, priority, desk
        keys.append(meta.idempotency_key)
        return "paid"

    purpose = "lunch " * 500
    texts = [f'{{"payment": "p", "purpose": "{purpose}", {fields}}}' for fields in LARGE[name]]
    planner = Newly(*(written(text) for text in texts))
    client = await serve(planner=planner, uses=(tools,), policy=ALONE)
    await forked_before(client)
    assert len(keys) == 2
    assert len(set(keys)) == 1


# Two equal calls in one plan.


class Twice:
    """A planner that makes two equal calls in one plan, once a first one has failed, and then a last one."""

    async def plan_start(self, turn) -> PlanResult:
        return PlanResult.calls(call(30, "a"))

    async def plan_resume(self, turn) -> PlanResult:
        results = results_of(turn.messages)
        if len(results) == 1:
            return PlanResult.calls(call(30, "b"), call(30, "c"))
        if len(results) == 3 and results[1].ok:
            return PlanResult.calls(call(30, "d"))
        return PlanResult.final(" ".join("ok" if each.ok else each.error.code for each in results))


@pytest.mark.parametrize("policy", [ALONE, ASKING], ids=["alone", "asking"])
async def test_neither_of_two_equal_calls_is_made_unasked_by_a_tool_that_must_not_repeat(
    serve, status_when, policy
):
    """After an unknown outcome nobody knows which of them is the repetition: a person decides on both, or neither is made."""
    async with Bank.of(p=["lost"]) as bank:
        client = await serve(planner=Twice(), uses=(payments(bank, idempotent=False),), policy=policy)
        run = await client.start("test.agent", "pay")
        if policy is ASKING:
            status = await status_when(run, lambda status: len(status.awaits) == 2)
            assert all(wait.outcome_unknown for wait in status.awaits)
            for wait in status.awaits:
                await run.deny(wait.id)
        await run.result()
        assert len(bank.requests["p"]) == 1


async def test_of_two_equal_calls_one_repeats_and_the_other_waits_for_its_outcome(serve):
    """The first has the key of the call in doubt; the second is not made beside it, and a call after its success is another payment."""
    async with Bank.of(p=["lost", "503:7200"]) as bank:
        client = await serve(planner=Twice(), uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        assert (await run.result()).text == "tool_unavailable ok not_repeated ok"
        lost, unavailable, repeated, other = bank.requests["p"]
        assert lost == unavailable == repeated != other
        (refused,) = [each for each in results_of(await run.transcript()) if each.tool_call_id == "c"]
        assert "another call of this plan" in refused.error.message


# In flight at the point.


def beside(bank: Bank, paid: asyncio.Event, **options) -> Toolset:
    """The toolset of a bank, whose calls with ids that begin with `slow` end once the event is set, and a note."""
    tools = Toolset("desk.bank")

    @tools.tool(**options)
    async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
        """Pay."""
        receipt = await receipt_of(bank.url, payment, amount, meta.idempotency_key)
        if meta.tool_call_id.startswith("slow"):
            await paid.wait()
        return receipt

    @tools.tool(read_only=True)
    async def note() -> str:
        """Note."""
        return "noted"

    return tools


NOTE = ToolRequest(name="desk.bank.note", tool_call_id="note")


async def noted(run) -> str | None:
    """The event at which the note is there."""
    ended = [each async for each in run.events(follow=False) if each.type == "tool_end"]
    return next((each.event_id for each in ended if each.tool_call_id == "note"), None)


class Scripted:
    """A planner that makes the steps of a list, one after the other, from wherever its run has come to."""

    def __init__(self, *steps: PlanResult) -> None:
        self.steps = list(steps)

    async def plan_start(self, turn) -> PlanResult:
        return self.steps.pop(0)

    async def plan_resume(self, turn) -> PlanResult:
        return self.steps.pop(0)


@pytest.mark.parametrize("policy", [ALONE, ASKING], ids=["alone", "asking"])
async def test_a_fork_knows_a_repetition_that_was_in_flight_at_its_point(serve, until, status_when, policy):
    """A call that was refused as not carried out is repeated, and pays beside a quick one: the fork does not pay again unasked."""
    planner = Scripted(
        PlanResult.calls(call(30, "first")),
        PlanResult.calls(call(30, "slow"), NOTE),
        PlanResult.calls(call(30, "again")),
        PlanResult.final("done"),
    )
    paid = asyncio.Event()
    async with Bank.of(p=["503:7200"]) as bank:
        client = await serve(planner=planner, uses=(beside(bank, paid, idempotent=False),), policy=policy)
        run = await client.start("test.agent", "pay")
        await until(lambda: len(bank.paid) == 1)
        at = await until(lambda: noted(run))
        fork = await client.fork(run.id, at=at)
        if policy is ASKING:
            (wait,) = (await status_when(fork, lambda status: status.awaits)).awaits
            assert wait.outcome_unknown
            await fork.deny(wait.id)
        assert (await fork.result()).text == "done"
        assert len(bank.requests["p"]) == 2
        paid.set()
        await run.cancel()


# Keys of a fork's own.


async def test_a_fork_of_a_fork_knows_the_key_of_a_call_in_flight_that_has_one_of_its_own(serve, until):
    """The origin pays by one id; its fork by another, and then by the first: two payments, of which the next fork repeats one."""
    planner = Scripted(
        PlanResult.calls(call(30, "slow")),
        PlanResult.final("done"),
        PlanResult.calls(call(30, "other")),
        PlanResult.calls(call(30, "slow"), NOTE),
        PlanResult.calls(call(30, "last")),
        PlanResult.final("done"),
    )
    paid = asyncio.Event()
    paid.set()
    async with Bank.of() as bank:
        client = await serve(planner=planner, uses=(beside(bank, paid, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        paid.clear()
        fork = await client.fork(run.id, at=await event_of(run, "run_started"))
        await until(lambda: bank.counts == {"p": 2})
        second = await client.fork(fork.id, at=await until(lambda: noted(fork)))
        await second.result()
        first, same, own, again = bank.requests["p"]
        assert first == same != own == again
        paid.set()
        await fork.cancel()


async def test_a_retry_of_a_fork_knows_the_key_of_a_call_in_doubt_that_has_one_of_its_own(serve):
    """The answer to a fork's second payment is lost, and the fork fails: its retry has the key of that payment."""
    planner = Scripted(
        PlanResult.calls(call(30, "first")),
        PlanResult.final("done"),
        PlanResult.calls(call(30, "other")),
        PlanResult.calls(call(30, "first")),
        PlanResult.fail(ToolError(message="the provider is away")),
        PlanResult.calls(call(30, "last")),
        PlanResult.final("done"),
    )
    async with Bank.of(p=["ok", "ok", "lost", "503:7200"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        fork = await client.fork(run.id, at=await event_of(run, "run_started"))
        with pytest.raises(RunFailed):
            await fork.result()
        await (await client.retry(fork.id)).result()
        first, same, *own = bank.requests["p"]
        assert first == same
        assert len(own) == 3
        assert len(set(own)) == 1
        assert bank.counts == {"p": 2}
