"""One effect has one idempotency key: a bank that loses answers pays once, whoever plans."""

from collections import Counter
from datetime import timedelta

import pytest

from sojourn import (
    ApprovalPolicy,
    CallFailed,
    Case,
    PlanResult,
    Retry,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    flow,
    http_client,
    network_faults,
)
from sojourn.core.run import retry
from tests.bank import Bank


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Let a `Retry-After` of two seconds count as long."""
    monkeypatch.setattr(retry, "LONGEST_INTERVAL", timedelta(seconds=1))


def payments(bank: Bank, *, local: bool = False, **options) -> Toolset:
    """The toolset of the recipe: `pay`, with the call's key."""
    tools = Toolset("desk.bank")

    @tools.tool(retry=Retry(max_attempts=3, initial_interval=timedelta(seconds=0.05)), local=local, **options)
    async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
        """Pay."""
        with network_faults("The bank"):
            async with http_client(timeout=2) as client:
                response = await client.post(
                    f"{bank.url}/payments",
                    json={"payment": payment, "amount": amount},
                    headers={"Idempotency-Key": meta.idempotency_key},
                )
                response.raise_for_status()
                return response.json()["receipt"]

    return tools


def call(amount: object = 30, id: str = "") -> ToolRequest:
    return ToolRequest(name="desk.bank.pay", payload={"payment": "p", "amount": amount}, tool_call_id=id)


def written(text: str, id: str = "") -> ToolRequest:
    return ToolRequest(name="desk.bank.pay", raw=text, tool_call_id=id)


def results_of(messages):
    return [result for message in messages for result in message.tool_results]


ALONE = RunPolicy(approval=ApprovalPolicy.unattended())


@flow
def clerk(case: Case) -> str:
    """Pay."""
    return case.call("desk.bank.pay", payment="p", amount=30)


@pytest.mark.parametrize("lost", ["lost", "504", "hangs"])
async def test_a_flow_repeats_a_payment_whose_answer_was_lost_under_the_same_key(serve, traces, lost):
    """Paid, no answer, then 503 with a long Retry-After: the flow waits durably and calls again, and the bank pays once."""
    async with Bank.of(p=[lost, "503:2"]) as bank:
        client = await serve(planner=clerk, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        assert (await run.result()).text == "receipt-1"
        assert len(bank.requests["p"]) == 3
        assert len(set(bank.requests["p"])) == 1
        failed, paid = results_of(await run.transcript())
        assert failed.error.outcome_unknown
        assert failed.retry_hint.outcome_unknown
        assert failed.retry_hint.reason == "tool_unavailable"
        assert failed.retry_hint.retry_after == timedelta(seconds=2)
        assert "may have taken effect" in failed.retry_hint.message
        assert "may have taken effect" in failed.error.message
        assert paid.ok


@pytest.mark.parametrize("idempotent", [False, None])
async def test_a_flow_does_not_repeat_a_call_that_is_not_declared_idempotent(serve, idempotent):
    """After an unknown outcome the flow gets `CallFailed`, which says so; nothing is called again."""
    caught = []

    @flow
    def careful(case: Case) -> str:
        try:
            return case.call("desk.bank.pay", payment="p", amount=30)
        except CallFailed as failed:
            caught.append(failed.error)
            return "unknown"

    mishaps = ["lost", "503:2"] if idempotent is None else ["lost"]
    async with Bank.of(p=mishaps) as bank:
        client = await serve(planner=careful, uses=(payments(bank, idempotent=idempotent),), policy=ALONE)
        assert (await (await client.start("test.agent", "pay")).result()).text == "unknown"
        assert len(bank.requests["p"]) == len(mishaps)
        assert caught[0].outcome_unknown
        assert bank.counts == {"p": 1}


async def test_an_attempt_that_was_not_carried_out_leaves_nothing_unknown(serve):
    """A refused connection, 429 and 503 say that nothing was paid: the hint has no doubt, and a second call its own key."""
    async with Bank.of(p=["503", "429", "503:2"]) as bank:
        client = await serve(planner=clerk, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        assert (await run.result()).text == "receipt-1"
        failed, _ = results_of(await run.transcript())
        assert not failed.error.outcome_unknown
        assert not failed.retry_hint.outcome_unknown
        assert Counter(bank.requests["p"]).most_common()[0][1] == 3


class Inner:
    """A planner that makes its steps one after the other, and keeps its turns."""

    def __init__(self, *steps: ToolRequest) -> None:
        self.steps, self.turns = steps, []

    async def plan_start(self, turn) -> PlanResult:
        return PlanResult.calls(self.steps[0])

    async def plan_resume(self, turn) -> PlanResult:
        self.turns.append(turn)
        done = len([message for message in turn.messages if message.tool_results])
        if done < len(self.steps):
            return PlanResult.calls(self.steps[done])
        return PlanResult.final("done")


async def test_a_planner_that_makes_the_same_call_again_repeats_the_effect(serve):
    """Whatever its id and spelling, a call with equal arguments has the key of the one whose outcome is unknown."""
    planner = Inner(
        written('{"payment": "p", "amount": 30}', "call_1"),
        written('{"amount": 30.0, "payment": "p"}', "call_2"),
        written('{"payment": "p", "amount": 30}', "call_3"),
        call(30, "call_4"),
    )
    mishaps = ["lost", "503:2", "503:2", "ok"]
    async with Bank.of(p=mishaps) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        keys = bank.requests["p"]
        assert len(set(keys[:4])) == 1  # lost, 503 | 503 | ok: the third call settles it
        assert keys[4] != keys[0]  # the fourth is another payment, as its planner wanted
        unknown = [bool(r.error and r.error.outcome_unknown) for r in results_of(await run.transcript())]
        assert unknown == [True, True, False, False]


async def test_a_call_with_other_arguments_is_another_effect(serve):
    """A call of the same tool with another amount has a key of its own, and the first stays unsettled."""
    planner = Inner(call(30, "a"), call(31, "b"), call(30, "c"))
    async with Bank.of(p=["lost", "503:2"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        await (await client.start("test.agent", "pay")).result()
        first, same, other, again = bank.requests["p"]
        assert first == same == again != other


async def test_a_local_tool_keeps_the_fact_too(serve):
    """A local call whose attempt may have taken effect goes on as an ordinary one, which knows of it."""
    planner = Inner(call(30, "a"), call(30, "b"))
    tools = {"idempotent": True, "local": True}
    async with Bank.of(p=["lost", "503:2"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, **tools),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        assert len(set(bank.requests["p"])) == 1
        assert bank.counts == {"p": 1}
        assert [r.ok for r in results_of(await run.transcript())] == [False, True]


async def test_a_person_who_is_asked_again_is_told(serve, status_when):
    """The question about a call that repeats one whose outcome is unknown says so first."""
    planner = Inner(call(30, "a"), call(30, "b"))
    async with Bank.of(p=["lost", "503:2"]) as bank:
        tools = payments(bank, idempotent=True, confirmation="Pay {amount}?")
        client = await serve(planner=planner, uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
        run = await client.start("test.agent", "pay")
        first = (await status_when(run, lambda status: status.awaits)).awaits[0]
        assert first.prompt == "Pay 30?"
        assert not first.outcome_unknown
        await run.approve(first.id)
        second = (
            await status_when(run, lambda status: status.awaits and status.awaits[0].id != first.id)
        ).awaits[0]
        assert second.prompt.startswith("An earlier attempt of this call may have taken effect")
        assert second.outcome_unknown
        await run.approve(second.id)
        await run.result()
        assert len(set(bank.requests["p"])) == 1


class Persistent:
    """A planner that pays until it is paid."""

    async def plan_start(self, turn) -> PlanResult:
        return PlanResult.calls(call(30))

    async def plan_resume(self, turn) -> PlanResult:
        paid = [r for message in turn.messages for r in message.tool_results if r.ok]
        return PlanResult.final(paid[0].result) if paid else PlanResult.calls(call(30))


async def event_of(run, type: str) -> str:
    return next(event.event_id for event in [e async for e in run.events()] if event.type == type)


async def test_a_fork_keeps_the_key(serve):
    """Whatever point it begins at, a fork carries out a step of its origin under the origin's key; so does its own fork."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True)
        client = await serve(planner=Persistent(), uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        fork = await client.fork(run.id, at=await event_of(run, "tool_start"))
        assert (await fork.result()).text == "receipt-1"
        second = await client.fork(fork.id, at=await event_of(fork, "tool_start"))
        assert (await second.result()).text == "receipt-1"
        assert len(bank.requests["p"]) == 3
        assert bank.counts == {"p": 1}


async def test_a_fork_with_other_arguments_has_another_effect(serve):
    """A call whose arguments are edited is another payment."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True)
        client = await serve(planner=Inner(call(30, "a")), uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        fork = await client.fork(run.id, arguments={"payment": "p", "amount": 31})
        await fork.result()
        same = await client.fork(run.id, arguments={"payment": "p", "amount": 30})
        await same.result()
        first, edited, again = bank.requests["p"]
        assert first == again != edited
