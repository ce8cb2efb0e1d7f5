"""A call that is cut off says whether it may have taken effect, and what repeats it has its key."""

import asyncio
import contextlib
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    CallFailed,
    Case,
    PlanResult,
    Retry,
    RunFailed,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    ToolFailed,
    ToolRequest,
    Toolset,
    ToolUnavailable,
    flow,
)
from sojourn.errors import RunCanceled, RunError
from tests.bank import Bank, receipt_of
from tests.docs.text_model import TextModel


@pytest.fixture(autouse=True)
def prompt(monkeypatch):
    """Let a call learn quickly that it is cancelled."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)


ALONE = RunPolicy(approval=ApprovalPolicy.unattended())


def payments(bank: Bank, **options) -> Toolset:
    """A tool that pays, and waits for an answer for long."""
    tools = Toolset("desk.bank")

    @tools.tool(retry=Retry(max_attempts=1), **options)
    async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
        """Pay."""
        return await receipt_of(bank.url, payment, amount, meta.idempotency_key, timeout=60)

    return tools


def pay(id: str = "") -> ToolRequest:
    return ToolRequest(name="desk.bank.pay", payload={"payment": "p", "amount": 30}, tool_call_id=id)


def results_of(messages):
    return [result for message in messages for result in message.tool_results]


class Code:
    """A planner in code that pays in each turn, until it is paid."""

    async def plan_start(self, turn) -> PlanResult:
        return self.pay(turn)

    async def plan_resume(self, turn) -> PlanResult:
        paid = [result for result in turn.tool_results if result.ok]
        return PlanResult.final(paid[0].result) if paid else self.pay(turn)

    def pay(self, turn) -> PlanResult:
        return PlanResult.calls(pay())


class Model(Code):
    """As a model decides: each of its calls has another id."""

    def __init__(self) -> None:
        self.number = 0

    def pay(self, turn) -> PlanResult:
        self.number += 1
        return PlanResult.calls(pay(f"call_{self.number}"))


@flow
def clerk(case: Case) -> str:
    """Pay."""
    return case.call("desk.bank.pay", payment="p", amount=30)


async def booked(bank: Bank) -> None:
    """Wait until the bank has booked the payment."""
    while not bank.paid:
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("planner", "local"), [("code", False), ("flow", False), ("model", False), ("model", True)]
)
async def test_a_payment_that_is_interrupted_is_not_made_twice(serve, planner, local):
    """The bank has booked when the turn is interrupted: the call says so, and the next turn's call has its key."""
    made = {"code": Code(), "flow": clerk, "model": TextModel(Model())}[planner]
    async with Bank.of(p=["hangs"]) as bank:
        tools = payments(bank, idempotent=True, local=local)
        client = await serve(planner=made, uses=(tools,), policy=ALONE)
        session = client.session("test.agent", f"cut-off-{planner}-{local}")
        turn = await session.send("pay")
        await booked(bank)
        again = await session.send("pay, I say", mode="interrupt")
        assert (await again.result()).text == "receipt-1"
        with pytest.raises(RunFailed, match="interrupted"):
            await turn.result()
        assert bank.counts == {"p": 1}
        assert len(bank.requests["p"]) == 2
        first, second = results_of(await session.run.transcript())
        assert first.error.code == "canceled"
        assert first.error.outcome_unknown
        assert "may have taken effect" in first.error.message
        assert second.ok
        ends = [event.result async for event in session.run.events(follow=False) if event.type == "tool_end"]
        assert ends[0].error == first.error


async def test_a_person_is_told_before_an_interrupted_payment_is_repeated(serve, until):
    """Whoever is asked about the same call in the next turn reads that an earlier one may have taken effect."""
    async with Bank.of(p=["hangs"]) as bank:
        tools = payments(bank, idempotent=True, confirmation="Pay {amount}?")
        policy = RunPolicy(interrupts_allowed=True)
        client = await serve(planner=Code(), uses=(tools,), policy=policy)
        session = client.session("test.agent", "told")
        await session.send("pay")
        await until(lambda: asked(session))
        await session.run.approve((await asked(session)).id)
        await booked(bank)
        again = await session.send("pay, I say", mode="interrupt")
        await until(lambda: asked(session))
        wait = await asked(session)
        assert wait.outcome_unknown
        assert wait.prompt.startswith("An earlier attempt of this call may have taken effect")
        await session.run.approve(wait.id)
        await again.result()
        assert bank.counts == {"p": 1}


async def asked(session):
    """The open wait, or None."""
    return next(iter((await session.status()).awaits), None)


async def test_a_call_that_was_cut_off_before_it_began_says_that_it_had_no_effect(serve, until):
    """A turn is interrupted while a person is asked: nothing is open, and the next question has no warning."""
    async with Bank.of() as bank:
        tools = payments(bank, idempotent=True, confirmation="Pay {amount}?")
        client = await serve(planner=Code(), uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
        session = client.session("test.agent", "not-begun")
        await session.send("pay")
        await until(lambda: asked(session))
        again = await session.send("pay, I say", mode="interrupt")
        await until(lambda: asked(session))
        wait = await asked(session)
        assert not wait.outcome_unknown
        assert wait.prompt == "Pay 30?"
        await session.run.approve(wait.id)
        await again.result()
        first, second = results_of(await session.run.transcript())
        assert first.error.without_effect
        assert not first.error.outcome_unknown
        assert first.error.message.endswith("; the call had no effect")
        assert second.ok
        assert bank.counts == {"p": 1}


@pytest.mark.parametrize("read_only", [False, True])
async def test_what_the_time_budget_cuts_off_says_whether_it_may_have_acted(serve, read_only):
    """The budget ends while the tool works: the planner of the last turn reads it, unless the tool only reads."""
    tools, told = Toolset("desk.bank"), []

    @tools.tool(read_only=read_only)
    async def work() -> str:
        await asyncio.sleep(60)
        return "done"

    @flow
    def careful(case: Case) -> str:
        try:
            return case.call(work)
        except CallFailed as failed:
            told.append((failed.outcome_unknown, failed.error))
            return "cut off"

    policy = ALONE.model_copy(update={"time_budget": timedelta(seconds=1)})
    client = await serve(planner=careful, uses=(tools,), policy=policy)
    run = await client.start("test.agent", "work")
    await run.result()
    (unknown, error), *_ = told
    assert error.code == "time_budget"
    assert unknown is error.outcome_unknown is not read_only
    assert ("may have taken effect" in error.message) is not read_only
    assert results_of(await run.transcript())[0].error == error


async def test_a_run_that_is_canceled_says_what_may_have_happened(serve):
    """The event of a call under way says that its outcome is unknown."""
    async with Bank.of(p=["hangs"]) as bank:
        client = await serve(planner=Code(), uses=(payments(bank),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await booked(bank)
        await run.cancel("enough")
        ends = [event.result async for event in run.events() if event.type == "tool_end"]
        assert [end.error.outcome_unknown for end in ends] == [True]


@pytest.mark.parametrize("is_unknown", [True, False])
async def test_an_attempt_that_fails_after_the_interruption_says_whether_it_may_have_acted(
    serve, traces, until, monkeypatch, is_unknown
):
    """It would be made again, but for the interruption: what is known of it stays, and so does the key if it may have paid."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 60)
    tools, release, keys = Toolset("desk.bank"), asyncio.Event(), []

    @tools.tool
    async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
        keys.append(meta.idempotency_key)
        if len(keys) == 1:
            await release.wait()
            raise ToolUnavailable("the bank is away", outcome_unknown=is_unknown)
        return "receipt"

    client = await serve(planner=Model(), uses=(tools,), policy=ALONE)
    session = client.session("test.agent", f"fails-{is_unknown}")
    await session.send("pay")
    await until(lambda: keys)
    again = await session.send("pay, I say", mode="interrupt")
    await until(lambda: traces(session.run).count(EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED))
    release.set()
    assert (await again.result()).text == "receipt"
    first, _ = results_of(await session.run.transcript())
    assert first.error.outcome_unknown is is_unknown
    assert "the bank is away" in first.error.message
    assert (len(set(keys)) == 1) is is_unknown
    ends = [event.result async for event in session.run.events(follow=False) if event.type == "tool_end"]
    assert ends[0].error == first.error


class Question(BaseModel):
    text: str


class Parent:
    """A planner that has its child pay, and answers what became of it."""

    async def plan_start(self, turn) -> PlanResult:
        return PlanResult.calls(
            ToolRequest(name="desk.child.ask", payload={"text": "pay"}, tool_call_id="c1")
        )

    async def plan_resume(self, turn) -> PlanResult:
        return PlanResult.final("answered" if turn.tool_results[0].ok else "failed")


class Child(Code):
    """A planner that calls a tool once, and then ends as it is told."""

    def __init__(self, tool: str, end: str) -> None:
        self.tool, self.end = tool, end

    async def plan_start(self, turn) -> PlanResult:
        return PlanResult.calls(ToolRequest(name=f"desk.work.{self.tool}", payload={}))

    async def plan_resume(self, turn) -> PlanResult:
        if self.end == "fails":
            return PlanResult.fail("no idea")
        if self.end == "gives up" and not turn.finalize:
            return PlanResult.calls(ToolRequest(name="desk.work.read", payload={}))
        if self.end in ("terminated", "canceled"):
            return PlanResult.calls(ToolRequest(name="desk.work.wait", payload={}))
        return PlanResult.final("done")


work = Toolset("desk.work")


@work.tool
async def act() -> str:
    """Act."""
    return "done"


@work.tool
async def slip() -> str:
    """Act, and raise."""
    raise KeyError("receipt")


@work.tool
async def refuse() -> str:
    """Refuse for certain."""
    raise ToolFailed("no money")


@work.tool(read_only=True)
async def read() -> str:
    """Read."""
    return "read"


@work.tool(read_only=True)
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


@pytest.mark.parametrize(
    ("tool", "end", "is_unknown"),
    [
        ("act", "fails", True),
        ("slip", "fails", True),
        ("refuse", "fails", False),
        ("read", "fails", False),
        ("act", "gives up", True),
        ("read", "gives up", False),
        ("act", "canceled", True),
        ("read", "canceled", False),
        ("read", "terminated", True),
    ],
)
async def test_a_child_run_that_fails_says_whether_it_may_have_acted(serve, until, tool, end, is_unknown):
    """The parent's call is unknown after a child that acted, or may have, or could not say; else it is not."""
    limit = RunPolicyOverride(max_tool_rounds=2) if end == "gives up" else None
    child = Agent("desk.child", planner=Child(tool, end), uses=[work], policy=ALONE)
    asking = child.export("desk.child", tools=[AgentTool("ask", args=Question, user="{text}")])
    parent = Agent("test.agent", planner=Parent(), uses=[asking], policy=ALONE)
    client = await serve(App(agents=[parent, child]))
    run = await client.start("test.agent", "go", policy=limit)
    if end in ("terminated", "canceled"):
        below = client.get_run(f"{run.id}/c1")
        await until(lambda: works(below))
        await (
            below.cancel("enough")
            if end == "canceled"
            else below.client.temporal.get_workflow_handle(below.id).terminate()
        )
    assert (await run.result()).text == "failed"
    (result,) = results_of(await run.transcript())
    assert result.error.outcome_unknown is is_unknown
    assert ("may have taken effect" in result.error.message) is is_unknown
    ends = [event.result async for event in run.events() if event.type == "tool_end"]
    assert ends[0].error == result.error


async def works(run) -> bool:
    """Whether the child run waits in its last call."""
    try:
        calls = (await run.status()).calls
    except RunError:
        return False
    return any(call.name == "desk.work.wait" for call in calls)


async def ends_of(run, type):
    return [event async for event in run.events(follow=False) if event.type == type]


@pytest.mark.parametrize("catches", [False, True])
async def test_a_run_that_fails_after_a_call_in_doubt_says_so(serve, catches):
    """The error of the run and of its event says that a call may have taken effect, also where the flow caught the call's failure."""

    @flow
    def failing(case: Case) -> str | PlanResult:
        try:
            return case.call("desk.bank.pay", payment="p", amount=30)
        except CallFailed:
            if not catches:
                raise
            return PlanResult.fail("not paid")

    async with Bank.of(p=["lost"]) as bank:
        client = await serve(planner=failing, uses=(payments(bank),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        with pytest.raises(RunFailed) as caught:
            await run.result()
        assert bank.counts == {"p": 1}
        assert caught.value.error.outcome_unknown
        assert str(caught.value).count("may have taken effect, its outcome is unknown") == 1
        (event,) = await ends_of(run, "run_failed")
        assert event.error == caught.value.error


async def test_a_run_that_fails_after_a_definite_failure_is_in_no_doubt(serve):
    """A call that was refused for certain, and one whose effect a later equal call settled, leave nothing open."""

    @flow
    def failing(case: Case) -> PlanResult:
        for _ in range(2):
            with contextlib.suppress(CallFailed):
                case.call("desk.bank.pay", payment="p", amount=30)
        return PlanResult.fail("not paid")

    async with Bank.of(p=["lost"]) as bank:
        client = await serve(planner=failing, uses=(payments(bank, idempotent=True),), policy=ALONE)
        run = await client.start("test.agent", "pay")
        with pytest.raises(RunFailed, match="not paid") as caught:
            await run.result()
        assert len(bank.requests["p"]) == 2
        assert not caught.value.error.outcome_unknown
        assert "may have" not in str(caught.value)
        (event,) = await ends_of(run, "run_failed")
        assert event.error == caught.value.error


async def test_a_canceled_run_says_whether_a_call_may_have_taken_effect(serve):
    """A run that is canceled in the middle of a payment says so; one that is canceled before does not."""
    async with Bank.of(p=["hangs"]) as bank:
        tools = payments(bank)
        client = await serve(planner=Code(), uses=(tools,), policy=ALONE)
        run = await client.start("test.agent", "pay")
        await booked(bank)
        await run.cancel("enough")
        with pytest.raises(RunCanceled, match="enough; a call may have taken effect") as caught:
            await run.result()
        assert caught.value.error.outcome_unknown
        assert caught.value.reason == "enough"
        (event,) = await ends_of(run, "run_canceled")
        assert "may have taken effect" in event.text


async def test_a_canceled_run_whose_calls_had_no_effect_is_in_no_doubt(serve, until):
    """A run that is canceled while a person is asked says nothing of effects."""
    async with Bank.of() as bank:
        tools = payments(bank, confirmation="Pay {amount}?")
        client = await serve(planner=Code(), uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
        run = await client.start("test.agent", "pay")
        await until(lambda: waits_of(run))
        await run.cancel("enough")
        with pytest.raises(RunCanceled, match=r"enough$") as caught:
            await run.result()
        assert caught.value.error is None


async def waits_of(run):
    return (await run.status()).awaits


async def test_an_interrupted_turn_says_whether_a_call_may_have_taken_effect(serve):
    """The turn whose payment was cut off is in doubt; the interrupted turn after it, which called nothing, is not."""

    async def planner(turn) -> PlanResult:
        if "pay" in turn.messages[-1].text:
            return PlanResult.calls(pay())
        return (
            PlanResult.wait(timedelta(seconds=60))
            if "wait" in turn.messages[-1].text
            else PlanResult.final("ok")
        )

    class Words:
        plan_start = staticmethod(planner)
        plan_resume = staticmethod(planner)

    async with Bank.of(p=["hangs"]) as bank:
        client = await serve(planner=Words(), uses=(payments(bank),), policy=ALONE)
        session = client.session("test.agent", "in-doubt")
        first = await session.send("pay")
        await booked(bank)
        second = await session.send("wait", mode="interrupt")
        with pytest.raises(RunFailed) as caught:
            await first.result()
        third = await session.send("end", mode="interrupt")
        with pytest.raises(RunFailed) as caught_next:
            await second.result()
        await third.result()
        assert caught.value.error.outcome_unknown
        assert "may have taken effect" in caught.value.error.message
        assert not caught_next.value.error.outcome_unknown
        failed, failed_next = await ends_of(session.run, "turn_failed")
        assert failed.error == caught.value.error
        assert failed_next.error == caught_next.value.error


async def test_a_run_that_a_limit_ends_says_whether_a_call_may_have_taken_effect(serve):
    """The error of the output of a run whose time is up, in the middle of a payment, is in doubt."""

    @flow
    def careful(case: Case) -> str:
        try:
            return case.call("desk.bank.pay", payment="p", amount=30)
        except CallFailed:
            return "cut off"

    async with Bank.of(p=["hangs"]) as bank:
        policy = ALONE.model_copy(update={"time_budget": timedelta(seconds=1)})
        client = await serve(planner=careful, uses=(payments(bank),), policy=policy)
        run = await client.start("test.agent", "pay")
        output = await run.result()
        assert output.error.code == "time_budget"
        assert output.error.outcome_unknown
        assert "may have taken effect" in output.error.message
        (event,) = await ends_of(run, "run_completed")
        assert event.output == output
        assert output.model_dump(mode="json")["may_have_acted"] is True
        answered = output.model_copy(update={"error": None, "may_have_acted": False})
        assert "may_have_acted" not in answered.model_dump(mode="json")
