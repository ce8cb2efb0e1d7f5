"""Which key a call has: that of the first equal call which a service may know, however it is spelled and whoever plans it."""

from datetime import datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel

from sojourn import (
    CallFailed,
    Case,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    flow,
)
from tests.bank import Bank, receipt_of
from tests.workflows.test_effects import (
    ALONE,
    ASKING,
    Inner,
    Newly,
    call,
    clerk,
    event_of,
    forked_before,
    impatient,  # noqa: F401 - a fixture of every test here
    payments,
    results_of,
    written,
)


@flow
def insists(case: Case) -> str:
    """Pay, and pay again in another step if it failed."""
    try:
        return case.call("desk.bank.pay", payment="p", amount=30)
    except CallFailed as failed:
        amount = 99 if failed.outcome_unknown else 30
        return case.call("desk.bank.pay", payment="p", amount=amount)


PLANNERS = {
    "the repair of a flow": (lambda: clerk, ["paid-503:2"]),
    "a second step of a flow": (lambda: insists, ["paid-503:7200"]),
    "code": (lambda: Inner(call(30), call(30)), ["paid-503:7200"]),
    "a model": (
        lambda: Inner(
            written('{"payment": "p", "amount": 30}', "c1"), written('{"amount": 30.0, "payment": "p"}', "c2")
        ),
        ["paid-503:7200"],
    ),
    "after another refusal": (
        lambda: Inner(call(30, "a"), call(30, "b"), call(30, "c")),
        ["paid-429:7200", "503:7200"],
    ),
}


@pytest.mark.parametrize("name", PLANNERS)
async def test_a_call_after_one_that_was_not_carried_out_has_its_key(serve, name):
    """A bank that pays and says 503 with a long `Retry-After` pays once, whoever calls again; nothing is told to be in doubt."""
    planner, mishaps = PLANNERS[name]
    async with Bank.of(p=mishaps) as bank:
        client = await serve(planner=planner(), uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        assert len(bank.requests["p"]) == len(mishaps) + 1
        assert len(set(bank.requests["p"])) == 1
        assert bank.counts == {"p": 1}
        *failed, paid = results_of(await run.transcript())
        assert paid.ok
        assert not any(result.error.outcome_unknown for result in failed)


async def test_a_call_with_other_arguments_or_after_a_success_has_a_key_of_its_own(serve):
    """What was not carried out lends its key to equal calls only, and until one of them is done."""
    planner = Inner(call(30, "a"), call(31, "b"), call(30, "c"), call(30, "d"))
    async with Bank.of(p=["503:7200"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        await (await client.start("test.agent", "pay")).result()
        refused, other, again, later = bank.requests["p"]
        assert refused == again
        assert len({refused, other, later}) == 3


async def test_a_call_whose_repetition_is_in_doubt_is_in_doubt(serve):
    """Refused, then lost: from then on the outcome is unknown, under the one key."""
    planner = Inner(call(30, "a"), call(30, "b"), call(30, "c"))
    async with Bank.of(p=["503:7200", "lost", "503:7200"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        assert len(set(bank.requests["p"])) == 1
        unknown = [bool(r.error and r.error.outcome_unknown) for r in results_of(await run.transcript())]
        assert unknown == [False, True, False]


async def test_a_fork_has_the_key_of_a_call_that_was_not_carried_out(serve):
    """A fork from before a refused payment makes it with another id, and the bank that had paid all the same pays once."""
    planner = Newly()

    async def gives_up(turn):
        return PlanResult.final("not paid")

    planner.plan_resume = gives_up
    async with Bank.of(p=["paid-503:7200"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        _, fork = await forked_before(client)
        (paid,) = results_of(await fork.transcript())
        assert paid.ok
        assert len(set(bank.requests["p"])) == 1
        assert len(bank.requests["p"]) == 2


async def test_a_named_step_that_was_not_carried_out_keeps_its_key_in_a_fork(serve):
    """With reworded arguments too: a bank that had paid all the same pays once, and nobody is warned."""
    words = ["lunch", "Lunch"]

    @flow
    def paying(case: Case) -> str:
        case.call("desk.bank.note")
        try:
            return case.call("desk.bank.pay", payment="p", amount=30, purpose=words[0], step="pay")
        except CallFailed:
            return "not paid"

    async with Bank.of(p=["paid-503:7200"]) as bank:
        tools = payments(bank, idempotent=True)

        @tools.tool(read_only=True)
        async def note() -> str:
            """Note."""
            return "noted"

        client = await serve(planner=paying, uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        assert (await run.result()).text == "not paid"
        words.pop(0)
        fork = await client.fork(run.id, at=await event_of(run, "tool_end"))
        assert (await fork.result()).text == "receipt-1"
        assert len(bank.requests["p"]) == 2
        assert bank.counts == {"p": 1}


# Must not be repeated.


class Stubborn:
    """A planner that makes the same call until it is told something else, with another id each time."""

    def __init__(self, times: int = 2) -> None:
        self.times = times

    async def plan_start(self, turn) -> PlanResult:
        return PlanResult.calls(call(30, "c1"))

    async def plan_resume(self, turn) -> PlanResult:
        results = results_of(turn.messages)
        if len(results) < self.times and not results[-1].ok:
            return PlanResult.calls(call(30, f"c{len(results) + 1}"))
        return PlanResult.final(str(results[-1].result or results[-1].error.code))


@flow
def again(case: Case) -> str:
    """Pay, and again in another step if that failed."""
    for _ in range(2):
        try:
            return case.call("desk.bank.pay", payment="p", amount=30)
        except CallFailed as failed:
            last = failed
    return last.error.code


@pytest.mark.parametrize("planner", [again, Stubborn()], ids=["flow", "code"])
async def test_what_must_not_be_repeated_is_not_called_again(serve, planner):
    """In a run that may ask nobody, an equal call after an unknown outcome is answered, and says what to do."""
    async with Bank.of(p=["lost"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=False),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        assert (await run.result()).text == "not_repeated"
        assert len(bank.requests["p"]) == 1
        result = results_of(await run.transcript())[-1]
        assert result.error.outcome_unknown
        assert result.retry_hint is None
        assert "was not called" in result.error.message
        assert "Find out whether it happened" in result.error.message


@pytest.mark.parametrize("planner", [again, Stubborn()], ids=["flow", "code"])
@pytest.mark.parametrize("approves", [True, False])
async def test_a_person_decides_whether_it_is_repeated(serve, status_when, planner, approves):
    """In a run that may ask, a person reads first that the first attempt may have taken effect; the call has its key."""
    async with Bank.of(p=["lost"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=False),), policy=ASKING)
        run = await client.start("test.agent", "pay")
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
        assert wait.prompt.startswith("An earlier attempt of this call may have taken effect")
        assert wait.outcome_unknown
        await (run.approve(wait.id) if approves else run.deny(wait.id))
        assert (await run.result()).text == ("receipt-1" if approves else "denied")
        assert len(bank.requests["p"]) == 1 + approves
        assert len(set(bank.requests["p"])) == 1


@pytest.mark.parametrize("at", ["run_started", "tool_start"])
async def test_a_fork_does_not_repeat_it_unasked(serve, status_when, at):
    """A fork from before such a payment, or from its start, asks a person, who reads that the origin may have made it."""
    async with Bank.of() as bank:
        client = await serve(planner=Newly(), uses=(payments(bank, idempotent=False),), policy=ASKING)
        run = await client.start("test.agent", "pay")
        await run.result()
        fork = await client.fork(run.id, at=await event_of(run, at))
        (wait,) = (await status_when(fork, lambda status: status.awaits)).awaits
        assert wait.outcome_unknown
        assert len(bank.requests["p"]) == 1
        await run_to_end(fork, wait)
        assert len(set(bank.requests["p"])) == 1
        assert len(bank.requests["p"]) == 2


async def run_to_end(run, wait) -> None:
    await run.approve(wait.id)
    await run.result()


async def test_a_fork_that_may_ask_nobody_does_not_repeat_it(serve):
    """The call is answered, and its planner is told that the origin may have made it."""
    async with Bank.of() as bank:
        client = await serve(planner=Stubborn(1), uses=(payments(bank, idempotent=False),), policy=ALONE)
        _, fork = await forked_before(client)
        assert (await fork.result()).text == "not_repeated"
        (result,) = results_of(await fork.transcript())
        assert "the run from which this one was forked may have carried out this call" in result.error.message
        assert len(bank.requests["p"]) == 1


async def test_who_decides_again_in_a_fork_reads_that_the_origin_may_have_paid(serve, status_when):
    """A fork that approves a call which the origin carried out leaves the decision to somebody who reads so."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=False, confirmation="Pay {amount}?")
        client = await serve(planner=Newly(), uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
        run = await client.start("test.agent", "pay")
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
        await run_to_end(run, wait)
        fork = await client.fork(run.id, at=await event_of(run, "await_confirmation"), approve=True)
        (shown,) = (await fork.status()).awaits
        assert shown.prompt.startswith(
            "The run from which this one was forked may have carried out this call"
        )
        assert shown.outcome_unknown
        assert len(bank.requests["p"]) == 1
        await run_to_end(fork, shown)
        assert len(bank.requests["p"]) == 2
        assert bank.counts == {"p": 1}


# Spelling.


class Fee(BaseModel):
    currency: str = "EUR"
    note: str | None = None


def spelled(bank: Bank) -> Toolset:
    """A tool with fields whose values have several spellings, and with defaults at two levels."""
    tools = Toolset("desk.bank")

    @tools.tool(idempotent=True)
    async def pay(
        payment: str,
        amount: Decimal,
        meta: ToolCallMeta,
        due: datetime | None = None,
        fee: Fee | None = None,
        purpose: str = "",
    ) -> str:
        """Pay."""
        del due, fee, purpose
        return await receipt_of(bank.url, payment, float(amount), meta.idempotency_key)

    return tools


FIRST = '{"payment": "p\\u00fc", "amount": 30, "due": "2027-01-01T00:00:00Z", "fee": {}}'
SAME = [
    '{"fee": {}, "amount": 30.0, "payment": "pü", "due": "2027-01-01T00:00:00Z"}',
    '{"payment": "pü", "amount": 30, "due": "2027-01-01T00:00:00Z", "fee": {}, "purpose": ""}',
    '{"payment": "pü", "amount": 30, "due": "2027-01-01T00:00:00Z", "fee": {"note": null, "currency": "EUR"}}',
    '{"payment": "pü", "amount": "30.00", "due": "2027-01-01T01:00:00+01:00", "fee": {}}',
]
OTHER = '{"payment": "pü", "amount": 30, "due": "2027-01-01T00:00:00Z"}'


@pytest.mark.parametrize("text", [*SAME, OTHER])
async def test_the_spelling_of_arguments_makes_no_other_effect(serve, text):
    """Order, escapes, equal numbers and times, and defaults that are spelled out: one key; a field less is another effect."""
    planner = Inner(written(FIRST, "c1"), written(text, "c2"))
    async with Bank.of(pü=["html"]) as bank:
        client = await serve(planner=planner, uses=(spelled(bank),), policy=ALONE)
        await (await client.start("test.agent", "pay")).result()
        first, second = bank.requests["pü"]
        assert (first == second) is (text != OTHER)


async def test_a_fork_knows_a_large_call_by_other_spellings(serve):
    """Arguments that a fork carries by their digest only are the same with defaults left out, or spelled out."""
    large = {"payment": "p", "amount": 30, "memo": "lunch " * 200}
    tools = Toolset("desk.bank")
    keys = []

    @tools.tool(idempotent=True)
    async def pay(payment: str, amount: float, memo: str, meta: ToolCallMeta, purpose: str = "") -> str:
        """Pay."""
        del payment, amount, memo, purpose
        keys.append(meta.idempotency_key)
        return "paid"

    spelled_out = ToolRequest(name="desk.bank.pay", payload={**large, "purpose": ""})
    bare = ToolRequest(name="desk.bank.pay", payload=large)
    client = await serve(planner=Newly(spelled_out, bare, bare, spelled_out), uses=(tools,), policy=ALONE)
    await forked_before(client)
    await forked_before(client)
    assert keys[0] == keys[1] != keys[2] == keys[3]


# A fork in another order.


async def test_a_fork_that_pays_more_often_in_another_order_pays_each(serve):
    """A payment that takes the key of the origin's second step leaves that step, made anew, a key that nothing has had."""
    order = [[20, 30], [30, 30, 20]]

    @flow
    def paying(case: Case) -> str:
        case.call("desk.bank.note")
        for amount in order[0]:
            case.call("desk.bank.pay", payment="p", amount=amount)
        return "done"

    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True)

        @tools.tool(read_only=True)
        async def note() -> str:
            """Note."""
            return "noted"

        client = await serve(planner=paying, uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        order.pop(0)
        fork = await client.fork(run.id, at=await event_of(run, "tool_end"))
        await fork.result()
        twenty, thirty, first, second, last = bank.requests["p"]
        assert (first, last) == (thirty, twenty)
        assert second not in (twenty, thirty)
        assert bank.counts == {"p": 3}


async def test_equal_calls_of_one_step_keep_their_own_keys(serve):
    """Two equal payments in one step of a fork, one of which the origin made: each has a key of its own."""

    class Both:
        many = 1

        async def plan_start(self, turn) -> PlanResult:
            ids = ["x", "own"][-self.many :]
            return PlanResult.calls(*(call(30, id) for id in ids))

        async def plan_resume(self, turn) -> PlanResult:
            return PlanResult.final("done")

    async with Bank.of() as bank:
        planner = Both()
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        planner.many = 2
        await (await client.fork(run.id, at=await event_of(run, "run_started"))).result()
        assert bank.counts == {"p": 2}
