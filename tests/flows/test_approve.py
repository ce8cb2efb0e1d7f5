"""`case.approve`: an approval that a flow asks for, which whoever asked and whoever may only answer questions cannot give."""

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    ApprovalRule,
    Case,
    InvalidInput,
    Principal,
    Retry,
    RunFailed,
    RunPolicy,
    ToolRequest,
    Toolset,
    flow,
)
from sojourn.core.run.approval import confirmation_of
from sojourn.errors import NotApprover
from sojourn.flows import approvals

ANA = Principal(subject="ana", roles=["user", "finance", "approver"])
FIN = Principal(subject="fin", roles=["finance"])
USER = Principal(subject="ed", roles=["user"])
BOSS = Principal(subject="bo", roles=["approver"])


@flow
def refund(case: Case) -> str:
    """Have a refund approved by finance."""
    approval = case.approve(
        f"Refund {case.text} EUR?", approvers=["finance"], four_eyes=True, details={"order": "A-1"}
    )
    if approval is None:
        return "not approved"
    return f"approved by {approval.subject}: {approval.reason}"


@flow
def plain(case: Case) -> str:
    """Have something approved by whoever has the role."""
    return "yes" if case.approve("Go?") else "no"


till = Toolset("till.drawer")


@till.tool
async def pay(amount: int) -> int:
    """Pay."""
    return amount


@flow
def payer(case: Case) -> str:
    """Pay what finance has approved."""
    if case.approve(f"Pay {case.text} EUR?", approvers=["finance"]) is None:
        return "not approved"
    return f"paid {case.call(pay, amount=int(case.text))}"


@till.tool(retry=Retry(max_attempts=1))
async def lose(amount: int) -> int:
    """Pay by a bank whose answer is lost."""
    raise ConnectionError(f"the answer about {amount} was lost")


@flow
def loser(case: Case) -> str:
    """Pay what finance has approved, by a bank whose answer is lost."""
    if case.approve(f"Pay {case.text} EUR?", approvers=["finance"]) is None:
        return "not approved"
    return f"paid {case.call(lose, amount=int(case.text))}"


@till.tool(read_only=True)
async def limit() -> int:
    """Return the limit above which finance approves."""
    return 100


@flow
def limited(case: Case) -> str:
    """Have finance approve what is above a limit that a tool looks up."""
    if int(case.text) > case.call(limit) and case.approve("Pay it?", approvers=["finance"]) is None:
        return "not approved"
    return f"paid {case.call(pay, amount=int(case.text))}"


def agent(name: str, planner, uses=(approvals,), asks=True, **approval) -> Agent:
    policy = RunPolicy(interrupts_allowed=asks, approval=ApprovalPolicy(**approval))
    return Agent(f"till.{name}", planner=planner, uses=list(uses), policy=policy)


WORDS = {"question": "Refund it?"}


@flow
def reworded(case: Case) -> str:
    """Ask in words that a deploy changes."""
    return "yes" if case.approve(WORDS["question"]) else "no"


everything = {"run_tools": ["*"], "asks_for": "nothing"}
app = App(
    agents=[
        agent("clerk", refund),
        agent("payer", payer, uses=(approvals, till)),
        agent("loser", loser, uses=(approvals, till), **everything),
        agent("limited", limited, uses=(approvals, till), **everything),
        agent("plain", plain, **everything),
        agent("reworded", reworded),
        agent("alone", plain, uses=(), asks=False),
        agent("bare", plain, uses=()),
        agent("ruled", plain, rules=[ApprovalRule(tools=["*"], approvers=["finance"])]),
        agent("odd", refund, rules=[ApprovalRule(tools=["*"], approvers=["auditor"])]),
    ]
)


@pytest.fixture
async def client(serve):
    """The till's app on a worker."""
    return await serve(app)


async def test_finance_approves_what_a_flow_asks(client, status_when, traces):
    """A user, an approver of other calls and whoever asked are refused; the flow gets who approved, and why."""
    run = await client.start("till.clerk", "30", principal=ANA)
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    assert (wait.prompt, wait.approvers, wait.four_eyes, wait.stop_asking) == (
        "Refund 30 EUR?",
        ["finance"],
        True,
        "never",
    )
    assert wait.payload["details"] == {"order": "A-1"}
    for wrong in (USER, BOSS, ANA, None):
        with pytest.raises(NotApprover):
            await run.approve(wait, principal=wrong)
    await run.approve(wait, principal=FIN, reason="it is right")
    assert (await run.result()).text == "approved by fin: it is right"
    await traces(run).check()


async def test_a_denial_is_none(client, status_when):
    """What is denied returns None, and the flow goes on."""
    run = await client.start("till.clerk", "30", principal=ANA)
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    await run.deny(wait, "no", principal=ANA)
    assert (await run.result()).text == "not approved"


async def test_a_person_is_asked_whatever_the_policy_says(client, status_when):
    """A policy by which every tool runs unasked, and a release of all tools, approve nothing of a flow."""
    run = await client.start("till.plain", "go")
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    await run.stop_asking("*")
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    with pytest.raises(NotApprover):
        await run.approve(wait, principal=USER)
    await run.approve(wait, principal=BOSS)
    assert (await run.result()).text == "yes"


async def test_the_rules_of_the_policy_count_too(client, status_when):
    """A rule narrows who approves; where the flow and the rule have no role in common, it is denied."""
    run = await client.start("till.ruled", "go")
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    assert wait.approvers == ["finance"]
    await run.approve(wait, principal=FIN)
    assert (await run.result()).text == "yes"
    assert (await client.execute("till.odd", "30")).text == "not approved"


@pytest.mark.parametrize(
    ("agent", "why"),
    [("till.alone", "interrupts_allowed=True"), ("till.bare", r"sojourn\.approvals into the agent's uses")],
)
async def test_a_flow_that_can_ask_nobody_fails(client, agent, why):
    """Where the run may not ask, or the agent lacks the toolset, the run fails with what to do: nothing is taken for a yes."""
    with pytest.raises(RunFailed, match=why):
        await client.execute(agent, "go")


async def test_no_fork_decides_or_changes_what_was_decided_on(client, status_when):
    """A fork replaces neither a decision by a result, nor what a flow does after one; a fork at the decision asks again."""
    run = await client.start("till.payer", "30", principal=ANA)
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    await run.approve(wait, principal=FIN)
    assert (await run.result()).text == "paid 30"
    decided, paid = [event.event_id async for event in run.events() if event.type == "tool_end"]
    for at, change, why in [
        (decided, {"result": {"await_id": "a", "subject": "fin"}}, "cannot be replaced by a result"),
        (paid, {"arguments": {"amount": 9_999}}, "keep their arguments"),
        (paid, {"result": 9_999}, "keep their arguments"),
    ]:
        with pytest.raises(InvalidInput, match=why):
            await client.fork(run.id, at=at, **change)


async def test_a_fork_settles_what_nobody_knows_of_a_payment_that_was_approved(client, status_when):
    """A result whose outcome is unknown takes one by hand also after a decision; the settled one, as any that is known, stays."""
    run = await client.start("till.loser", "30", principal=ANA)
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    await run.approve(wait, principal=FIN)
    with pytest.raises(RunFailed, match="outcome is unknown"):
        await run.result()
    _, lost = [event.event_id async for event in run.events() if event.type == "tool_end"]
    with pytest.raises(InvalidInput, match="keep their arguments"):
        await client.fork(run.id, at=lost, arguments={"amount": 31})
    fork = await client.fork(run.id, at=lost, result=30)
    assert (await fork.result()).text == "paid 30"


async def test_a_fork_around_an_approval_says_what_it_was_given(client, status_when):
    """An operator may change what a flow compares, so that it asks nobody; the fork's first event says what, of which call, and who."""
    run = await client.start("till.limited", "5000", principal=ANA)
    await status_when(run, lambda s: s.awaits)
    (at,) = [event async for event in run.events(follow=False) if event.type == "tool_end"]
    operator = Principal(subject="olga", roles=["operator"])
    fork = await client.fork(run.id, at=at.event_id, result=99_999, principal=operator)
    assert (await fork.result()).text == "paid 5000"
    (first,) = [event async for event in fork.events() if event.type == "run_started"]
    (given,) = first.forked_from.changes
    assert (given.kind, given.tool, given.tool_call_id) == ("result", "till.drawer.limit", at.tool_call_id)
    assert given.given == "99999"
    assert first.forked_from.principal == Principal(subject="olga")
    assert (await fork.status()).forked_from == first.forked_from
    await run.cancel()


def test_the_question_of_a_flow_is_one_plain_line():
    """What the flow asks is shown without quotes, on one line, with the signs of markup written out."""
    spec = approvals.tools["approve"].spec
    payload = {"question": "Pay **bob**\nnow?"}
    wait = confirmation_of(spec, ToolRequest(name=spec.id, payload=payload), payload, ApprovalPolicy())
    assert "\n" not in wait.prompt
    assert "**" not in wait.prompt
    assert wait.prompt.startswith("Pay ")
    assert wait.prompt.endswith("now?")


async def test_a_reworded_approval_is_asked_for_anew_and_a_note_says_why(client, status_when, monkeypatch):
    """A decision holds for the words that were shown: with others the person is asked again, and reads no guess about clocks."""
    run = await client.start("till.reworded", "go")
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    monkeypatch.setitem(WORDS, "question", "Refund 30 EUR?")
    await run.approve(wait, principal=BOSS)
    status = await status_when(run, lambda s: [each.prompt for each in s.awaits] == ["Refund 30 EUR?"])
    (note,) = status.notes
    assert "a decision holds only for what was displayed" in note
    assert "clock" not in note
    await run.approve(status.awaits[0], principal=BOSS)
    assert (await run.result()).text == "yes"
