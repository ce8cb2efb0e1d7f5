"""One effect has one idempotency key: a bank that loses answers pays once, whoever plans."""

import asyncio
from datetime import timedelta

import httpx2
import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    CallFailed,
    Case,
    PlanResult,
    RateLimited,
    Retry,
    RunFailed,
    RunNotFound,
    RunPolicy,
    ToolCallMeta,
    ToolFailed,
    ToolRequest,
    Toolset,
    ToolUnavailable,
    flow,
)
from sojourn.core.run import retry
from sojourn.network import http_client, network_faults
from tests.bank import Bank, receipt_of


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Let a `Retry-After` of two seconds count as long."""
    monkeypatch.setattr(retry, "LONGEST_INTERVAL", timedelta(seconds=1))


def payments(bank: Bank, *, local: bool = False, **options) -> Toolset:
    """The toolset of the recipe: `pay`, with the call's key."""
    tools = Toolset("desk.bank")

    @tools.tool(retry=Retry(max_attempts=3, initial_interval=timedelta(seconds=0.05)), local=local, **options)
    async def pay(payment: str, amount: float, meta: ToolCallMeta, purpose: str = "") -> str:
        """Pay."""
        return await receipt_of(bank.url, payment, amount, meta.idempotency_key)

    return tools


def call(amount: object = 30, id: str = "") -> ToolRequest:
    return ToolRequest(name="desk.bank.pay", payload={"payment": "p", "amount": amount}, tool_call_id=id)


def written(text: str, id: str = "") -> ToolRequest:
    return ToolRequest(name="desk.bank.pay", raw=text, tool_call_id=id)


def results_of(messages):
    return [result for message in messages for result in message.tool_results]


ALONE = RunPolicy(approval=ApprovalPolicy.unattended())
ASKING = RunPolicy(approval=ApprovalPolicy.unattended(), interrupts_allowed=True)


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
    """A refused connection, 429 and 503 say that nothing was paid: the hint has no doubt; the call after it has the same key."""
    async with Bank.of(p=["503", "429", "503:2"]) as bank:
        client = await serve(planner=clerk, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        assert (await run.result()).text == "receipt-1"
        failed, _ = results_of(await run.transcript())
        assert not failed.error.outcome_unknown
        assert not failed.retry_hint.outcome_unknown
        assert len(bank.requests["p"]) == 4
        assert len(set(bank.requests["p"])) == 1


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


class Newly(Persistent):
    """A planner whose calls have another id each time, as a model's have; it pays until it is paid."""

    def __init__(self, *asked: ToolRequest) -> None:
        self.asked, self.number = asked or (call(30),), 0

    async def plan_start(self, turn) -> PlanResult:
        return self.pay()

    async def plan_resume(self, turn) -> PlanResult:
        paid = [r for message in turn.messages for r in message.tool_results if r.ok]
        return PlanResult.final(paid[0].result) if paid else self.pay()

    def pay(self) -> PlanResult:
        self.number += 1
        request = self.asked[(self.number - 1) % len(self.asked)]
        return PlanResult.calls(request.model_copy(update={"tool_call_id": f"call_{self.number}"}))


async def forked_before(client, *, at: str = "run_started", **change):
    """A run that has ended, and the end of its fork from before all that it did."""
    run = await client.start("test.agent", "pay")
    await run.result()
    fork = await client.fork(run.id, at=await event_of(run, at), **change)
    await fork.result()
    return run, fork


LONG = "lunch " * 200


@pytest.mark.parametrize("change", [{}, {"message": "Go on."}])
@pytest.mark.parametrize(
    "asked",
    [
        (call(30),),
        (written('{"payment": "p", "amount": 30}'), written('{"amount": 30.0, "payment": "p"}')),
        tuple(
            ToolRequest(name="desk.bank.pay", payload={"payment": "p", "amount": amount, "purpose": LONG})
            for amount in (30, 30.0)
        ),
    ],
    ids=["by code", "by a model", "large"],
)
async def test_a_fork_from_before_a_payment_knows_that_its_origin_made_it(serve, asked, change):
    """Whatever id and spelling the call has in the fork, it has the origin's key; so it has in a fork of that fork."""
    async with Bank.of() as bank:
        client = await serve(planner=Newly(*asked), uses=(payments(bank, idempotent=True),), policy=ALONE)
        _, fork = await forked_before(client, **change)
        third = await client.fork(fork.id, at=await event_of(fork, "run_started"), message="Again.")
        assert (await third.result()).text == "receipt-1"
        assert len(bank.requests["p"]) == 3
        assert bank.counts == {"p": 1}


async def test_a_fork_pays_again_what_its_origin_paid_twice(serve):
    """Each effect of the origin is one of the fork: two payments stay two, and a third is a new one."""
    planner = Newly()

    async def thrice(turn):
        done = len([message for message in turn.messages if message.tool_results])
        return planner.pay() if done < (2 if planner.number < 3 else 3) else PlanResult.final("done")

    planner.plan_resume = thrice
    async with Bank.of() as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        await forked_before(client)
        keys = bank.requests["p"]
        assert keys[:2] == keys[2:4]
        assert len(set(keys)) == bank.counts["p"] == 3


class Later(Persistent):
    """A planner in code that first asks for a note, unless somebody has told it not to."""

    async def plan_start(self, turn) -> PlanResult:
        if len([message for message in turn.messages if message.role == "user"]) > 1:
            return PlanResult.calls(call(30))
        return PlanResult.calls(ToolRequest(name="desk.bank.note", payload={}))

    async def plan_resume(self, turn) -> PlanResult:
        paid = [
            r for message in turn.messages for r in message.tool_results if r.ok and r.name.endswith("pay")
        ]
        return PlanResult.final(paid[0].result) if paid else PlanResult.calls(call(30))


async def test_a_planner_in_code_comes_to_the_payment_in_another_plan(serve):
    """A payment that the origin made in its second plan, and the fork in its first, is one payment."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True)

        @tools.tool(read_only=True)
        async def note() -> str:
            """Note."""
            return "noted"

        client = await serve(planner=Later(), uses=(tools,), policy=ALONE)
        _, fork = await forked_before(client, message="Pay at once.")
        assert results_of(await fork.transcript())[0].result == "receipt-1"
        assert len(bank.requests["p"]) == 2
        assert bank.counts == {"p": 1}


async def test_a_fork_finds_the_repair_that_paid(serve):
    """Of a call that was refused for certain and of the repair that paid, a fork repeats the second."""
    async with Bank.of(p=["503", "429", "503:2"]) as bank:
        client = await serve(planner=clerk, uses=(payments(bank, idempotent=True),), policy=ALONE)
        await forked_before(client)
        assert len(bank.requests["p"]) == 5
        assert bank.counts == {"p": 1}


async def test_a_fork_from_within_the_step_knows_what_its_call_came_to(serve):
    """A call that was open at the point, and refused later, is not what a fork repeats: its repair is."""
    async with Bank.of(p=["503", "503", "503:2"]) as bank:
        tools, planner = payments(bank, idempotent=True), Newly()

        @tools.tool
        async def first() -> str:
            """End at once."""
            return "first"

        planner.pay_alone = planner.pay

        def both() -> PlanResult:
            plan = planner.pay_alone()
            if planner.number > 1:
                return plan
            return PlanResult.calls(ToolRequest(name="desk.bank.first"), *plan.tool_calls)

        async def until_paid(turn):
            paid = [r for r in results_of(turn.messages) if r.ok and r.name.endswith("pay")]
            return PlanResult.final(paid[0].result) if paid else planner.pay()

        planner.pay, planner.plan_resume = both, until_paid
        client = await serve(planner=planner, uses=(tools,), policy=ALONE)
        _, fork = await forked_before(client, at="tool_end")
        assert (await fork.result()).text == "receipt-1"
        assert len(bank.requests["p"]) == 5
        assert bank.counts == {"p": 1}


def reworded(name: str | None, words: list[str]):
    """A flow that pays, each time that it is run from the start with the next word as the purpose."""

    @flow
    def paying(case: Case) -> str:
        case.call("desk.bank.note")
        return case.call("desk.bank.pay", payment="p", amount=30, purpose=words[0], step=name)

    return paying


@pytest.mark.parametrize(
    ("name", "change", "count"), [("pay", {}, 1), (None, {}, 2), ("pay", {"result": "other"}, 2)]
)
async def test_a_reworded_flow_comes_to_the_step(serve, name, change, count):
    """A named step keeps its payment in a fork, whatever its arguments are by then, unless the fork was told something else."""
    words = ["lunch"]
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True)

        @tools.tool
        async def note() -> str:
            """Note."""
            return "noted"

        client = await serve(planner=reworded(name, words), uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        words[0] = "Lunch"
        fork = await client.fork(run.id, at=await event_of(run, "tool_end"), **change)
        await fork.result()
        assert len(bank.requests["p"]) == 2
        assert bank.counts["p"] == count


async def test_a_step_that_a_person_answered_otherwise_is_another_effect(serve, status_when):
    """A fork from before a question may be told another amount: then its step is another payment."""

    @flow
    def asking(case: Case) -> str:
        amount = case.ask("How much?")
        return case.call("desk.bank.pay", payment="p", amount=int(amount), step="pay")

    async with Bank.of() as bank:
        client = await serve(planner=asking, uses=(payments(bank, idempotent=True),), policy=ASKING)
        answers = iter(("30", "31", "30"))

        async def answered(run):
            open_wait = (await status_when(run, lambda status: status.awaits)).awaits[0]
            await run.answer(open_wait.id, next(answers))
            await run.result()
            return run

        run = await answered(await client.start("test.agent", "pay"))
        at = await event_of(run, "await_clarification")
        await answered(await client.fork(run.id, at=at))
        await answered(await client.fork(run.id, at=at))
        first, other, same = bank.requests["p"]
        assert first == same != other


async def test_a_fork_asks_first_and_says_that_its_origin_may_have_paid(serve, status_when):
    """Who is asked about a payment of the origin reads so first, and approves the same effect."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True, confirmation="Pay {amount}?")
        client = await serve(planner=Newly(), uses=(tools,), policy=RunPolicy(interrupts_allowed=True))

        async def approved(run):
            wait = (await status_when(run, lambda status: status.awaits)).awaits[0]
            await run.approve(wait.id)
            await run.result()
            return wait

        run = await client.start("test.agent", "pay")
        assert (await approved(run)).prompt == "Pay 30?"
        fork = await client.fork(run.id, at=await event_of(run, "run_started"))
        wait = await approved(fork)
        assert (
            wait.prompt
            == "The run from which this one was forked may have carried out this call already. Pay 30?"
        )
        assert wait.outcome_unknown
        assert bank.counts == {"p": 1}


async def test_a_fork_that_pays_otherwise_says_that_its_origin_may_have_paid(serve, status_when):
    """Who forks, and who is asked about the other payment, reads first what the origin paid."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True, confirmation="Pay {amount}?")
        client = await serve(planner=Newly(), uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
        run = await client.start("test.agent", "pay")
        wait = (await status_when(run, lambda status: status.awaits)).awaits[0]
        told = []

        async def review(fork) -> None:
            told.append(fork.warning)

        other = {"arguments": {"payment": "p", "amount": 31}, "review": review}
        await (await client.fork(run.id, **other)).cancel()
        await run.approve(wait.id)
        await run.result()
        fork = await client.fork(run.id, at=await event_of(run, "tool_end"), **other)
        asked = (await status_when(fork, lambda status: status.awaits)).awaits[0]
        paid = 'carried out, or may have carried out, desk.bank.pay with {"payment": "p", "amount": 30}'
        another = "With other arguments it is another call, which takes effect too."
        assert told == ["", f"Run {run.id} {paid}. {another}"]
        assert asked.other_call == f"The run from which this one was forked {paid}. {another}"
        assert asked.prompt == f"{asked.other_call} Pay 31?"
        assert not asked.outcome_unknown

        async def refuse(fork) -> None:
            raise ValueError(fork.warning)

        with pytest.raises(ValueError, match="another call"):
            await client.fork(run.id, arguments={"amount": 32}, new_run_id=f"{run.id}-2", review=refuse)
        with pytest.raises(RunNotFound):
            await client.get_run(f"{run.id}-2").status()
        await fork.cancel()


async def test_a_retry_of_a_failed_run_knows_of_its_payments(serve):
    """A fork from before a payment that is still open, or that failed with its run, has its key."""
    planner = Newly()

    async def fails(turn):
        raise TypeError("broken")

    later, planner.plan_resume = planner.plan_resume, fails
    async with Bank.of(p=["lost", "503:2"]) as bank:
        client = await serve(planner=planner, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        with pytest.raises(RunFailed):
            await run.result()
        planner.plan_resume = later
        fork = await client.fork(run.id, at=await event_of(run, "run_started"))
        again = await client.retry(run.id)
        assert (await fork.result()).text == (await again.result()).text == "receipt-1"
        assert bank.counts == {"p": 1}


async def test_an_exception_that_says_nothing_leaves_the_outcome_unknown(serve):
    """The bank pays and answers with a page: the tool raises, and an equal call repeats the payment under the same key."""
    caught = []

    @flow
    def twice(case: Case) -> str:
        try:
            return case.call("desk.bank.pay", payment="p", amount=30)
        except CallFailed as failed:
            caught.append((failed.outcome_unknown, failed.error))
        return case.call("desk.bank.pay", payment="p", amount=30)

    async with Bank.of(p=["html"]) as bank:
        client = await serve(planner=twice, uses=(payments(bank, idempotent=True),), policy=ALONE)
        assert (await (await client.start("test.agent", "pay")).result()).text == "receipt-1"
        assert len(set(bank.requests["p"])) == 1
        assert len(bank.requests["p"]) == 2
        assert bank.counts == {"p": 1}
    unknown, error = caught[0]
    assert unknown
    assert error.outcome_unknown
    assert error.code == "JSONDecodeError"


async def test_what_a_tool_raises_says_whether_it_may_have_acted(serve):
    """A tool's own mistake may follow its effect; a refused connection, a definite answer and a read-only tool had none."""
    tools = Toolset("desk.bank")
    told = {}

    @tools.tool
    async def slips() -> str:
        raise KeyError("receipt")

    @tools.tool(read_only=True)
    async def reads() -> str:
        raise KeyError("receipt")

    @tools.tool(retry=Retry(max_attempts=1))
    async def refused() -> str:
        raise ConnectionRefusedError

    @tools.tool
    async def decides() -> str:
        raise ToolFailed("no money")

    @tools.tool
    async def misfits() -> int:
        return "no number"

    @flow
    def each(case: Case) -> str:
        names = ("slips", "reads", "refused", "decides", "misfits")
        for name, begun in [(name, case.begin(f"desk.bank.{name}")) for name in names]:
            try:
                begun.result()
            except CallFailed as failed:
                told[name] = failed.outcome_unknown
        return "done"

    client = await serve(planner=each, uses=(tools,), policy=ALONE)
    assert (await client.execute("test.agent", "go")).text == "done"
    assert told == {"slips": True, "reads": False, "refused": False, "decides": False, "misfits": True}


def _raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


NO_ANSWER = httpx2.ReadTimeout("")
REFUSED = httpx2.ConnectError("")
RAISED = {
    "a group with what the tool denies": (
        ExceptionGroup("", [ToolFailed("no money", code="broke")]),
        "broke",
        True,
    ),
    "a group of groups with that": (
        ExceptionGroup("", [ExceptionGroup("", [ToolFailed("no money", code="broke")])]),
        "broke",
        True,
    ),
    "a group with something else too": (
        ExceptionGroup("", [ToolFailed("no money"), KeyError("x")]),
        "ExceptionGroup",
        True,
    ),
    "a group with an open request": (ExceptionGroup("", [NO_ANSWER]), "ExceptionGroup", True),
    "a group with a refusal for now": (
        ExceptionGroup("", [ToolUnavailable("busy")]),
        "tool_unavailable",
        True,
    ),
    "unavailable": (ToolUnavailable("busy"), "tool_unavailable", False),
    "unavailable, from no answer": (
        _raised_from(ToolUnavailable("busy"), NO_ANSWER),
        "tool_unavailable",
        True,
    ),
    "unavailable, from no connection": (
        _raised_from(ToolUnavailable("busy"), REFUSED),
        "tool_unavailable",
        False,
    ),
    "unavailable, from a group with no answer": (
        _raised_from(ToolUnavailable("busy"), ExceptionGroup("", [NO_ANSWER])),
        "tool_unavailable",
        True,
    ),
    "unavailable, as its author knows": (
        _raised_from(ToolUnavailable("busy", outcome_unknown=False), NO_ANSWER),
        "tool_unavailable",
        False,
    ),
    "a rate limit, from no answer": (_raised_from(RateLimited(), NO_ANSWER), "rate_limited", True),
    "denied, from no answer": (_raised_from(ToolFailed("no money", code="broke"), NO_ANSWER), "broke", False),
    "a refused connection after no answer": (
        _raised_from(ConnectionRefusedError(), NO_ANSWER),
        "tool_unavailable",
        True,
    ),
    "its own cancellation": (asyncio.CancelledError("mine"), "RuntimeError", True),
    "a group with its own cancellation": (
        BaseExceptionGroup("", [asyncio.CancelledError()]),
        "RuntimeError",
        True,
    ),
}


async def test_groups_causes_and_a_tools_own_cancellation_say_whether_it_may_have_acted(serve):
    """What the tool denies by itself is definite; a group, whose other tasks were cancelled, and a request without an answer are not; in a thread too."""
    tools = Toolset("desk.bank")

    @tools.tool(retry=Retry(max_attempts=1))
    async def fail(how: str) -> str:
        raise RAISED[how][0]

    @tools.tool(retry=Retry(max_attempts=1))
    def fail_in_thread(how: str) -> str:
        raise RAISED[how][0]

    @tools.tool(read_only=True, retry=Retry(max_attempts=1))
    async def read(how: str) -> str:
        raise RAISED[how][0]

    def id_of(tool, how: str) -> str:
        return f"{tool.id.tool}-{list(RAISED).index(how)}"

    class Each:
        """A planner that makes all calls at once."""

        async def plan_start(self, turn) -> PlanResult:
            made = [(tool, how) for how in RAISED for tool in (fail, fail_in_thread, read)]
            return PlanResult.calls(
                *(
                    ToolRequest(name=tool.id, payload={"how": how}, tool_call_id=id_of(tool, how))
                    for tool, how in made
                )
            )

        async def plan_resume(self, turn) -> PlanResult:
            return PlanResult.final("done")

    client = await serve(planner=Each(), uses=(tools,), policy=ALONE)
    run = await client.start("test.agent", "go")
    await run.result()
    told = {result.tool_call_id: result.error for result in results_of(await run.transcript())}
    for how, (_, code, unknown) in RAISED.items():
        for tool, is_open in ((fail, unknown), (fail_in_thread, unknown), (read, False)):
            error = told[id_of(tool, how)]
            assert (how, tool.id, error.outcome_unknown) == (how, tool.id, is_open)
        assert (how, told[id_of(fail, how)].code) == (how, code)


async def test_a_payment_that_a_refusing_task_cut_off_is_not_made_twice(serve, until):
    """In a `TaskGroup` a check refuses while a sibling pays: the bank may have paid, so the next equal call has the same key."""
    tools, checked = Toolset("desk.bank"), []
    async with Bank.of(p=["hangs"]) as bank:

        @tools.tool(idempotent=True, retry=Retry(max_attempts=1))
        async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
            async def send() -> str:
                with network_faults("The bank"):
                    async with http_client(timeout=10) as client:
                        key = {"Idempotency-Key": meta.idempotency_key}
                        of = {"payment": payment, "amount": amount}
                        response = await client.post(f"{bank.url}/payments", json=of, headers=key)
                        response.raise_for_status()
                        return response.json()["receipt"]

            async def check() -> None:
                checked.append(meta.idempotency_key)
                if len(checked) == 1:
                    await until(lambda: bank.counts)
                    raise ToolFailed("the limit is used up", code="limit")

            async with asyncio.TaskGroup() as group:
                paid = group.create_task(send())
                group.create_task(check())
            return paid.result()

        planner = Inner(call(id="a1"), call(id="a2"))
        client = await serve(planner=planner, uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await run.result()
        first, second = results_of(await run.transcript())
        assert (first.error.code, first.error.outcome_unknown, second.result) == ("limit", True, "receipt-1")
        assert (bank.counts, len(set(checked))) == ({"p": 1}, 1)


class Amount(BaseModel):
    """What the desk pays."""

    amount: float


class Desk(Inner):
    """A planner that has an agent pay, twice."""

    def __init__(self) -> None:
        super().__init__(*(ToolRequest(name="pay.desk.pay", payload={"amount": 30}) for _ in range(2)))


@pytest.mark.parametrize("policy", [ALONE, ASKING], ids=["alone", "asking"])
async def test_an_agent_that_may_have_paid_is_not_called_again_unasked(serve, until, policy):
    """Its child run was terminated after it paid: an equal call has its own keys, so a person is asked, or it is not made."""
    async with Bank.of(p=["hangs"]) as bank:
        tools, payer = payments(bank, idempotent=True), Inner(call(id="c1"))
        agent = Agent("pay.agent", planner=payer, uses=[tools], policy=ALONE)
        desk = agent.export("pay.desk", tools=[AgentTool("pay", args=Amount, user=lambda a: f"{a.amount}")])
        client = await serve(
            App(agents=[Agent("test.agent", planner=Desk(), uses=[desk], policy=policy), agent])
        )
        run = await client.start("test.agent", "pay")
        await until(lambda: bank.counts)
        (link,) = [each.run_link for each in (await run.status()).calls]
        await client.temporal.get_workflow_handle(link.run_id).terminate()
        if policy is ASKING:
            (wait,) = await run.until_waiting()
            assert "may have taken effect" in wait.prompt
            await run.deny(wait, "look it up")
        await run.result()
        first, second = results_of(await run.transcript())
        assert first.error.outcome_unknown
        assert second.error.code == ("denied" if policy is ASKING else "not_repeated")
        assert bank.counts == {"p": 1}


@pytest.mark.parametrize("reads", [True, False])
async def test_an_agent_that_has_not_paid_is_called_again(serve, reads):
    """A child run that fails before any effect leaves nothing in doubt: the planner's next equal call is made."""
    fails = [True]
    tools = Toolset("desk.bank")

    @tools.tool(read_only=True)
    async def pay(payment: str, amount: float) -> str:
        return "looked"

    class Payer(Inner):
        async def plan_start(self, turn) -> PlanResult:
            if fails and not reads:
                fails.pop()
                raise ApplicationError("no", non_retryable=True)
            return await super().plan_start(turn)

        async def plan_resume(self, turn) -> PlanResult:
            if fails:
                fails.pop()
                raise ApplicationError("no", non_retryable=True)
            return await super().plan_resume(turn)

    agent = Agent("pay.agent", planner=Payer(call(id="c1")), uses=[tools], policy=ALONE)
    desk = agent.export("pay.desk", tools=[AgentTool("pay", args=Amount, user=lambda a: f"{a.amount}")])
    client = await serve(App(agents=[Agent("test.agent", planner=Desk(), uses=[desk], policy=ALONE), agent]))
    run = await client.start("test.agent", "pay")
    await run.result()
    first, second = results_of(await run.transcript())
    assert (first.ok, first.error.outcome_unknown, second.result) == (False, False, "done")


async def test_a_flow_knows_that_a_call_that_was_cut_off_may_have_taken_effect(serve):
    """The time budget ends while the tool works: the flow gets `CallFailed` with `outcome_unknown`."""
    tools = Toolset("desk.bank")

    @tools.tool
    async def pay() -> str:
        await asyncio.sleep(60)
        return "paid"

    @flow
    def careful(case: Case) -> str:
        try:
            return case.call(pay)
        except CallFailed as failed:
            return f"{failed.error.code}: {failed.outcome_unknown}"

    policy = RunPolicy(approval=ApprovalPolicy.unattended(), time_budget=timedelta(seconds=1))
    client = await serve(planner=careful, uses=(tools,), policy=policy)
    assert (await client.execute("test.agent", "pay")).text.endswith("time_budget: True")
