"""Calls that several people have to approve: each counts once, in order if the policy says so, and all read how far it is."""

import json

import pytest
from pydantic import BaseModel, Field
from temporalio.api.enums.v1 import EventType

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    ApprovalRule,
    InvalidInput,
    PlanResult,
    Principal,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.answers import Answered, Decision, submit, wait_view
from sojourn.errors import AlreadyAnswered, AwaitClosed, DefinitionError, NotApprover, StaleDigest


def person(subject: str, *roles: str) -> Principal:
    return Principal(subject=subject, tenant="acme", roles=list(roles or ["approver"]))


ANA, BEN, KIM = person("ana"), person("ben"), person("kim")
LEE, MAX = person("lee", "lead", "finance"), person("max", "finance")
ASKER = person("asker", "user")

PAID: list[tuple[str, int, ToolCallMeta]] = []

money = Toolset("desk.money", description="Money")


class Payment(BaseModel):
    amount: int = Field(le=1000)


@money.tool(destructive=True, confirmation="Pay {amount}?")
async def pay(payment: Payment, meta: ToolCallMeta) -> str:
    """Pay."""
    PAID.append((meta.run_id, payment.amount, meta))
    return f"paid {payment.amount}"


async def plan(turn: Turn) -> PlanResult:
    """Pay what the message says, and report what came of it."""
    if turn.tool_results:
        return PlanResult.final(" | ".join(str(each.error or each.result) for each in turn.results))
    amounts = json.loads(turn.messages[-1].text)
    return PlanResult.calls(*(ToolRequest(name=pay.id, payload={"amount": each}) for each in amounts))


def agent(name: str, **approval) -> Agent:
    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(**approval))
    return Agent(f"desk.{name}", planner=plan, uses=[money], policy=policy)


STEPS = ApprovalRule(tools=["desk.money.*"], steps=["lead", "finance"])
app = App(
    agents=[
        agent("one"),
        agent("two", approvals=2),
        agent("order", rules=[STEPS]),
        agent("three", rules=[ApprovalRule(tools=["desk.money.pay"], approvals=3)]),
    ]
)


@pytest.fixture
async def asked(serve, status_when):
    """Start a run that pays these amounts, and wait for what it asks first."""
    client = await serve(app)

    async def start(agent: str, *amounts: int, **more):
        run = await client.start(f"desk.{agent}", json.dumps(amounts), principal=ASKER, **more)
        return run, *(await status_when(run, lambda status: len(status.awaits) == len(amounts))).awaits

    return start


def paid_by(run) -> list[int]:
    return [amount for run_id, amount, _ in PAID if run_id == run.id]


async def only(run):
    (wait,) = (await run.status()).awaits
    return wait


async def test_two_of_any_approvers_approve_and_each_counts_once(asked, traces):
    """The wait says how far it is; the same person again is the same answer, and no second one; the tool learns both."""
    run, wait = await asked("two", 5)
    assert (wait.approvals_needed, wait.given, wait.stop_asking) == (2, [], "never")
    view = wait_view(wait, run.id)
    assert (await submit(run, ANA, view, Decision(approved=True, reason="checked"))).left == 1
    half = await only(run)
    assert [each.name for each in half.given] == ["ana"]
    assert wait_view(half, run.id).progress == "1 of 2 approved: ana"
    await run.approve(wait, principal=ANA, reason="checked")  # the same answer again
    with pytest.raises(NotApprover, match="the decision does not say whose it is"):
        await run.approve(half)
    assert (paid_by(run), [each.name for each in (await only(run)).given]) == ([], ["ana"])
    await run.approve(half, principal=BEN)
    assert (await run.result()).text == "paid 5"
    ((_, _, meta),) = [each for each in PAID if each[0] == run.id]
    assert (meta.approval.subject, [each.principal.subject for each in meta.approval.given]) == (
        "ben",
        ["ana", "ben"],
    )
    events = [event async for event in run.events()]
    (given,) = [event for event in events if event.type == "approval_given"]
    (answered,) = [event for event in events if event.type == "await_answered"]
    assert (given.principal, given.text, len(given.confirmation.given)) == (ANA, "checked", 1)
    assert (answered.principal, answered.approved) == (BEN, True)
    await traces(run).check()


async def test_the_roles_of_a_rule_approve_in_their_order(asked, traces):
    """Who comes out of turn is refused with the role that is next, and one person takes only one of the steps."""
    run, wait = await asked("order", 5)
    assert (wait.approvals_needed, wait.steps, wait.approvers) == (
        2,
        ["lead", "finance"],
        ["lead", "finance"],
    )
    with pytest.raises(NotApprover, match="max does not have the role lead, which approves next"):
        await run.approve(wait, principal=MAX)
    with pytest.raises(NotApprover, match="ana does not have the role lead or finance"):
        await run.approve(wait, principal=ANA)
    await run.approve(wait, principal=LEE)
    view = wait_view(await only(run), run.id)
    assert view.progress == "1 of 2 approved: lee; next: finance"
    await run.approve(await only(run), principal=LEE, reason="once more")
    assert [each.name for each in (await only(run)).given] == ["lee"]
    await run.approve(await only(run), principal=MAX)
    assert (await run.result()).text == "paid 5"
    await traces(run).check()


async def test_one_denial_denies(asked, traces):
    """Also after an approval, and by who has approved before."""
    run, wait = await asked("three", 5)
    for principal in (ANA, BEN):
        await run.approve(wait, principal=principal)
    await run.deny(wait, "on second thoughts", principal=ANA)
    assert (await run.result()).text == "denied: on second thoughts"
    assert paid_by(run) == []
    with pytest.raises(AwaitClosed):
        await run.approve(wait, principal=KIM)
    await traces(run).check()


async def test_an_edit_begins_the_count_anew(asked, traces):
    """The next approver reads and approves the edited call; an approval of the call as it was is refused."""
    run, wait = await asked("three", 5)
    await run.approve(wait, principal=ANA)
    await run.approve(wait, principal=BEN, arguments={"amount": 7})
    now = await only(run)
    assert (now.payload, now.prompt, [each.name for each in now.given]) == ({"amount": 7}, "Pay 7?", ["ben"])
    with pytest.raises(InvalidInput, match="other arguments"):
        await run.approve(wait, principal=KIM)
    await run.approve(wait, principal=BEN, arguments={"amount": 7})  # the same edit again
    for principal in (KIM, ANA):
        await run.approve(now, principal=principal)
    assert (await run.result()).text == "paid 7"
    assert paid_by(run) == [7]
    (results,) = [message for message in await run.transcript() if message.role == "tool"]
    assert [each.edited_arguments for each in results.tool_results] == [{"amount": 7}]
    events = [event async for event in run.events()]
    given = [
        (event.principal.subject, event.edited_arguments)
        for event in events
        if event.type == "approval_given"
    ]
    assert given == [("ana", None), ("ben", {"amount": 7}), ("kim", None)]
    await traces(run).check()


async def test_no_release_passes_a_call_that_needs_several(asked, status_when, traces):
    """`stop_asking` and an approval of the whole tool approve none of them."""
    run, first, second = await asked("two", 5, 6)
    with pytest.raises(InvalidInput, match="cannot be stopped"):
        await run.approve(first, principal=ANA, for_run=True)
    await run.stop_asking("*", principal=ANA)
    assert len((await run.status()).awaits) == 2
    for wait in (first, second):
        for principal in (ANA, BEN):
            await run.approve(wait, principal=principal)
    assert (await run.result()).text == "paid 5 | paid 6"
    await traces(run).check()


async def test_a_run_asks_for_more_approvals_and_never_for_fewer(asked):
    """An override raises the number, and a rule of an override adds its steps."""
    more = RunPolicyOverride(approval=ApprovalPolicy(approvals=2))
    run, wait = await asked("one", 5, policy=more)
    assert wait.approvals_needed == 2
    await run.cancel()
    run, wait = await asked("three", 5, policy=more)
    assert wait.approvals_needed == 3
    await run.cancel()


def test_a_rule_says_who_decides_or_how_many():
    """An empty rule is still a mistake."""
    with pytest.raises(DefinitionError, match="approvers, steps, approvals"):
        App(agents=[agent("empty", rules=[ApprovalRule(tools=["desk.money.*"])])])
    assert App(agents=[agent("counted", rules=[ApprovalRule(tools=["desk.money.*"], approvals=2)])])


async def test_an_approval_that_an_edit_dropped_may_be_sent_again(asked, traces):
    """It counts no longer, and its sender reads how many the edited call needs; who has not approved is told that it changed."""
    run, wait = await asked("three", 5)
    seen, plain = wait_view(wait, run.id), Decision(True, wait.payload_digest)
    edit = Decision(True, wait.payload_digest, arguments={"amount": 7})
    assert (await submit(run, ANA, seen, plain)).left == 2
    assert (await submit(run, BEN, seen, edit)).left == 2
    for view in (seen, seen.ref):
        assert repeated(await submit(run, ANA, view, plain)) == ("ana", 2)
        assert repeated(await submit(run, BEN, view, edit)) == ("ben", 2)
        with pytest.raises(StaleDigest):
            await submit(run, KIM, view, plain)
        with pytest.raises(StaleDigest):
            await submit(run, ANA, view, edit)
    now = await only(run)
    assert [each.name for each in now.given] == ["ben"]
    again = await run.approve(wait, principal=BEN, arguments={"amount": 7})
    (_, edited) = given = await approvals(run)
    assert (again.already, again.by, again.left, again.at) == (True, "ben", 2, edited.time)
    await run.approve(now, principal=KIM)
    await run.approve(now, principal=person("lee"))
    assert (await run.result()).text == "paid 7"
    assert repeated(await submit(run, BEN, seen, edit)) == ("lee", 0)
    dropped = await run.approve(wait, principal=ANA)
    assert (dropped.already, dropped.by, dropped.left, dropped.at) == (True, "ana", 0, given[0].time)
    with pytest.raises(StaleDigest):
        await run.approve(wait, principal=MAX)
    with pytest.raises(AlreadyAnswered, match="was already approved"):
        await submit(run, ANA, seen, Decision(False, now.payload_digest))
    assert paid_by(run) == [7]
    await traces(run).check()


async def approvals(run) -> list:
    return [event async for event in run.events(follow=False) if event.type == "approval_given"]


def repeated(answered: Answered) -> tuple[str, int]:
    """Who gave the answer first, and how many approvals are missing."""
    assert answered.already
    return answered.by, answered.left


async def test_only_the_run_counts(asked, traces):
    """A view from before the last approval refuses nobody whose turn it is, and the reply says what is missing now."""
    run, wait = await asked("order", 5)
    old = wait_view(wait, run.id)
    assert (await submit(run, LEE, old, Decision(True, old.digest))).left == 1
    with pytest.raises(NotApprover, match="max-2 does not have the role lead or finance") as refused:
        await submit(run, person("max-2"), old, Decision(True, old.digest))
    assert "the role lead or finance" in refused.value.deciders
    assert (await submit(run, MAX, old, Decision(True, old.digest))).left == 0
    assert (await run.result()).text == "paid 5"
    run, wait = await asked("two", 5)
    old = wait_view(wait, run.id)
    await run.approve(wait, principal=BEN, by="Ben B.")
    accepted = await traces(run).count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
    assert repeated(await submit(run, BEN, old, Decision(True, old.digest))) == ("Ben B.", 1)
    assert (await submit(run, ANA, old, Decision(True, old.digest))).left == 0
    await run.result()
    for principal in (ANA, BEN):
        assert repeated(await submit(run, principal, old, Decision(True, old.digest))) == ("ana", 0)
    counted = await traces(run).count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
    assert counted == accepted + 1  # a repetition is no second update
    await traces(run).check()


async def test_an_edit_that_changes_nothing_is_no_second_approval(asked, traces):
    """Who sends the arguments as they are counts once, and approves no call alone that takes two."""
    run, wait = await asked("two", 5)
    await run.approve(wait, principal=ANA)
    with pytest.raises(NotApprover, match="ana has approved this call"):
        await run.approve(wait, principal=ANA, arguments={"amount": 5})
    assert (paid_by(run), [each.name for each in (await only(run)).given]) == ([], ["ana"])
    await run.approve(wait, principal=BEN)
    assert (await run.result()).text == "paid 5"
    await traces(run).check()


async def test_who_approved_first_may_send_it_again_after_the_last_one(asked):
    """A client that lost its reply learns that the call is approved, whoever decided last."""
    run, wait = await asked("two", 5)
    view = wait_view(wait, run.id)
    for principal in (ANA, BEN):
        await submit(run, principal, view, Decision(approved=True))
    await run.result()
    again = await submit(run, ANA, view, Decision(approved=True))
    assert (again.already, again.by) == (True, "ben")
