"""Who may decide on a call: the run asks too, and records who did; how long the asking about a tool may be stopped."""

import uuid

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    ApprovalRule,
    AwaitConfirmation,
    Case,
    InvalidInput,
    PlanResult,
    Principal,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
    flow,
)
from sojourn.contracts import Approval
from sojourn.core.awaits.deciding import describe_deciders
from sojourn.errors import NotApprover
from sojourn.policy import PolicyDecision, PolicyInput

ANA = Principal(subject="ana", tenant="acme", roles=["user", "finance", "approver"])
FIN = Principal(subject="fin", tenant="acme", roles=["finance"])
CFO = Principal(subject="cy", tenant="acme", roles=["cfo", "approver"])
BOSS = Principal(subject="bo", tenant="acme", roles=["approver"])


def of_tenant(principal: Principal, tenant: str) -> Principal:
    """The principal, of another tenant."""
    return principal.model_copy(update={"tenant": tenant})


money = Toolset("desk.money", description="Money")
DONE: dict[str, list[Approval | None]] = {}


@money.tool(approvers=["finance", "cfo"], four_eyes=True)
async def pay(meta: ToolCallMeta, amount: int) -> str:
    """Pay."""
    DONE.setdefault(meta.run_id, []).append(meta.approval)
    return f"paid {amount}"


@money.tool(destructive=True, tags=["money"])
async def refund(meta: ToolCallMeta, amount: int) -> str:
    """Refund."""
    DONE.setdefault(meta.run_id, []).append(meta.approval)
    return f"refunded {amount}"


async def plan(turn: Turn) -> PlanResult:
    """Make the calls that the newest message names, as `pay 5 refund 7`."""
    if turn.tool_results:
        return PlanResult.final(" | ".join(str(each.error or each.result) for each in turn.tool_results))
    words = next(each.text for each in reversed(turn.messages) if each.role == "user").split()
    tools = {"pay": pay, "refund": refund}
    calls = [
        tools[name].call(amount=int(amount)) for name, amount in zip(words[::2], words[1::2], strict=True)
    ]
    return PlanResult.calls(*calls)


class Engine:
    """Asks about every sum over 100."""

    async def decide(self, given: PolicyInput) -> PolicyDecision:
        large = [call.tool_call_id for call in given.requested if call.payload.get("amount", 0) > 100]
        return PolicyDecision(ask=large)


def agent(name: str, **approval) -> Agent:
    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(**approval))
    return Agent(f"desk.{name}", planner=plan, uses=[money], policy=policy)


app = App(
    agents=[
        agent("clerk"),
        agent("patient", stop_asking="run"),
        agent("strict", stop_asking="never"),
        agent("ruled", rules=[ApprovalRule(tags=["money"], approvers=["cfo", "finance"], four_eyes=True)]),
        agent("narrow", rules=[ApprovalRule(tools=["desk.money.*"], approvers=["cfo"])]),
    ],
    policy_engine=Engine(),
)


@pytest.fixture
async def client(serve):
    """The desk's app on a worker."""
    return await serve(app)


@pytest.fixture
def asked(client, status_when):
    """Start a run, and wait for what it asks first."""

    async def start(text: str, agent: str = "clerk", count: int = 1, **more):
        run = await client.start(f"desk.{agent}", text, **more)
        status = await status_when(run, lambda status: len(status.awaits) == count)
        return run, *status.awaits

    return start


async def test_the_run_refuses_whoever_may_not_decide(asked, status_when, traces):
    """A wrong role, the asker, another tenant and nobody in particular are refused in words, as update and as signal; the run still waits."""
    run, wait = await asked("pay 5", principal=ANA)
    assert (wait.approvers, wait.four_eyes, wait.stop_asking) == (["finance", "cfo"], True, "turn")
    assert wait.asked_by == Principal(subject="ana", tenant="acme")
    for principal, why in (
        (BOSS, "bo does not have the role finance or cfo"),
        (ANA, "ana asked for this call"),
        (of_tenant(FIN, "zeta"), "fin is of the tenant zeta, and the run is of the tenant acme"),
        (of_tenant(ANA, ""), "ana is of no tenant, and the run is of the tenant acme"),
        (None, "in the console or over HTTP, or with `sojourn approve --as SUBJECT --role ROLE`"),
    ):
        with pytest.raises(NotApprover, match=why):
            await run.approve(wait, principal=principal)
    handle = traces(run).handle
    bound = {"id": wait.id, "payload_digest": wait.payload_digest, "approved": True}
    await handle.signal("provide_confirmation", {**bound, "by": "fin"})
    await handle.signal("provide_confirmation", {**bound, "principal": {"subject": "x", "roles": "finance"}})
    status = await status_when(run, lambda status: len(status.notes) == 2)
    assert "does not say whose it is" in status.notes[0]
    assert "a list of `roles`" in status.notes[1]
    assert [each.id for each in status.awaits] == [wait.id]
    await run.approve(wait, principal=FIN, reason="within budget")
    assert (await run.result()).text == "paid 5"
    (approval,) = DONE[run.id]
    assert (approval.by, approval.subject, approval.tenant, approval.reason) == (
        "fin",
        "fin",
        "acme",
        "within budget",
    )
    assert (approval.await_id, approval.digest, approval.scope) == (wait.id, wait.payload_digest, "call")
    answered = next([event async for event in run.events() if event.type == "await_answered"].__iter__())
    assert answered.time >= approval.at
    assert answered.principal == FIN
    await traces(run).check()


async def test_the_asker_may_deny_and_a_stranger_may_not(asked):
    """A denial needs a role too, and no four eyes."""
    run, wait = await asked("pay 5", principal=ANA)
    with pytest.raises(NotApprover):
        await run.deny(wait, principal=BOSS)
    await run.deny(wait, "a mistake", principal=ANA)
    assert (await run.result()).text == "denied: a mistake"
    assert run.id not in DONE


async def test_without_approvers_nothing_changes(asked):
    """A tool that names no approver is decided without a principal, as before; one without the role approver is refused."""
    run, wait = await asked("refund 5", principal=ANA)
    assert (wait.approvers, wait.four_eyes) == ([], False)
    with pytest.raises(NotApprover, match="fin does not have the role approver"):
        await run.approve(wait, principal=FIN)
    await run.approve(wait, by="somebody")
    assert (await run.result()).text == "refunded 5"
    (approval,) = DONE[run.id]
    assert (approval.by, approval.subject) == ("somebody", None)


async def test_a_rule_says_who_approves_and_has_a_person_asked(asked):
    """A rule of the policy counts by tool and tag; with the tool's own approvers, the roles in both count."""
    run, wait = await asked("refund 5", "ruled", principal=ANA)
    assert (wait.approvers, wait.four_eyes) == (["cfo", "finance"], True)
    with pytest.raises(NotApprover):
        await run.approve(wait, principal=ANA)
    await run.approve(wait, principal=CFO)
    assert (await run.result()).text == "refunded 5"
    run, wait = await asked("pay 5", "narrow", principal=ANA)
    assert (wait.approvers, wait.four_eyes) == (["cfo"], True)
    with pytest.raises(NotApprover):
        await run.approve(wait, principal=FIN)
    await run.approve(wait, principal=CFO)
    assert (await run.result()).text == "paid 5"


async def test_a_rule_of_a_run_is_needed_beside_the_approvers(asked):
    """Whoever decides needs one role of the author's list and one of the run's rule; of a tool without a list, `approver`."""
    rule = ApprovalRule(tools=["desk.money.*"], approvers=["auditor", "controller"])
    policy = RunPolicyOverride(approval=ApprovalPolicy(rules=[rule]))
    both = {
        "pay 5": (
            ["finance", "cfo"],
            "a principal who has the role finance or cfo, and the role auditor or controller",
        ),
        "refund 5": ([], "a principal who has the role approver, and the role auditor or controller"),
    }
    for text, (approvers, words) in both.items():
        run, wait = await asked(text, policy=policy, principal=ANA)
        assert (wait.approvers, wait.narrowed_to) == (approvers, [["auditor", "controller"]])
        assert describe_deciders(wait).startswith(words)
        for principal in (FIN, BOSS, CFO):
            with pytest.raises(NotApprover, match=r"auditor or controller|finance or cfo|approver"):
                await run.approve(wait, principal=principal)
        only = Principal(subject="al", tenant="acme", roles=["auditor"])
        with pytest.raises(NotApprover, match=r"al does not have the role (finance or cfo|approver)"):
            await run.approve(wait, principal=only)
        kim = Principal(subject="kim", tenant="acme", roles=["approver", "cfo", "controller"])
        await run.approve(wait, principal=kim)
        assert (await run.result()).text in ("paid 5", "refunded 5")


async def test_the_end_of_asking_ends_with_the_turn(client, status_when, traces):
    """In a conversation the next turn asks again, and no release covers what the engine asks about, nor what its sender may not approve."""
    session = client.session("desk.clerk", uuid.uuid4().hex)
    first = await session.send("refund 5 refund 6 refund 5000 pay 7")
    run = first.run
    waits = {
        wait.payload["amount"]: wait for wait in (await status_when(run, lambda s: len(s.awaits) == 4)).awaits
    }
    assert [waits[amount].stop_asking for amount in (5, 6, 5000, 7)] == ["turn", "turn", "never", "turn"]
    with pytest.raises(InvalidInput, match="cannot be stopped"):
        await run.approve(waits[5000], for_run=True)
    await run.stop_asking("*", principal=BOSS, reason="enough")
    status = await status_when(run, lambda s: len(s.awaits) == 2)
    assert {wait.payload["amount"] for wait in status.awaits} == {5000, 7}
    await run.approve(waits[5000], principal=BOSS)
    await run.approve(waits[7], principal=FIN)
    assert (await first.result()).text == "refunded 5 | refunded 6 | refunded 5000 | paid 7"
    scopes = sorted((each.scope, each.subject) for each in DONE[run.id])
    assert scopes == [("call", "bo"), ("call", "fin"), ("tool", "bo"), ("tool", "bo")]
    second = await session.send("refund 5")
    (wait,) = (await status_when(run, lambda s: len(s.awaits) == 1)).awaits
    assert wait.payload == {"amount": 5}
    await run.approve(wait, for_run=True, by="bo")
    assert (await second.result()).text == "refunded 5"
    third = await session.send("refund 6")
    (wait,) = (await status_when(run, lambda s: len(s.awaits) == 1)).awaits
    await run.approve(wait)
    assert (await third.result()).text == "refunded 6"
    await session.close()
    await traces(run).check()


async def test_an_author_may_allow_longer_or_forbid_it(client, status_when, asked):
    """With `run` a release counts for later turns, with who stopped the asking told to the tool; with `never` none is taken."""
    session = client.session("desk.patient", uuid.uuid4().hex)
    first = await session.send("refund 5")
    (wait,) = (await status_when(first.run, lambda s: len(s.awaits) == 1)).awaits
    await first.run.approve(wait, for_run=True, principal=BOSS, reason="small sums")
    await first.result()
    assert (await (await session.send("refund 6")).result()).text == "refunded 6"
    asked_about, released = DONE[first.run.id]
    assert (asked_about.scope, asked_about.await_id) == ("tool", wait.id)
    assert (released.scope, released.await_id, released.subject, released.reason) == (
        "tool",
        "",
        "bo",
        "small sums",
    )
    assert released.at == asked_about.at
    await session.close()
    run, wait = await asked("refund 5", "strict")
    with pytest.raises(InvalidInput, match="cannot be stopped"):
        await run.approve(wait, for_run=True)
    await run.stop_asking("*")
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    await run.deny(wait)
    await run.result()


async def test_an_agent_tool_is_decided_by_its_approvers(serve, status_when):
    """`AgentTool(approvers=..., four_eyes=True)` asks before the child run, and the roles count."""
    helper = Agent("desk.helper", planner=plan, uses=[])
    exported = helper.export("desk.help", tools=[AgentTool("ask", args=dict[str, str], approvers=["cfo"])])

    async def ask(turn: Turn) -> PlanResult:
        if turn.tool_results:
            return PlanResult.final(str(turn.tool_results[-1].error))
        return PlanResult.calls(exported["ask"].call({"a": "b"}))

    asker = Agent("desk.asker", planner=ask, uses=[exported], policy=RunPolicy(interrupts_allowed=True))
    client = await serve(App(agents=[asker, helper]))
    run = await client.start("desk.asker", "go", principal=ANA)
    (wait,) = (await status_when(run, lambda s: len(s.awaits) == 1)).awaits
    with pytest.raises(NotApprover):
        await run.approve(wait, principal=FIN)
    await run.deny(wait, "no", principal=CFO)
    assert (await run.result()).text == "denied: no"


async def test_four_eyes_are_those_of_the_turns_sender(client, status_when):
    """In a conversation whoever sent the message of the turn may not approve its calls, and whoever began it may."""
    session = client.session("desk.clerk", uuid.uuid4().hex, principal=FIN)
    began = await session.send("refund 1")
    (wait,) = (await status_when(began.run, lambda s: len(s.awaits) == 1)).awaits
    await began.run.deny(wait)
    await began.result()
    sent = await client.session("desk.clerk", session.session_id, principal=ANA).send("pay 5")
    (wait,) = (await status_when(sent.run, lambda s: len(s.awaits) == 1)).awaits
    with pytest.raises(NotApprover, match="ana asked for this call"):
        await sent.run.approve(wait, principal=ANA)
    await sent.run.approve(wait, principal=FIN)
    assert (await sent.result()).text == "paid 5"
    await session.close()


outside = Toolset("desk.outside", external=True)


class LookUp(BaseModel):
    """What to look up."""

    what: str


look_up = outside.declare("look_up", args=LookUp, result=str, description="Look up.")


@flow
def clerk_who_asks(case: Case) -> str:
    """Pay what a person says, in answer to a question or as the result of a look-up."""
    said = case.call(look_up, what="sum") if case.text == "look up" else case.ask("How much?")
    return case.call(pay, amount=int("".join(filter(str.isdigit, said or "")) or 5))


ASKS = App(
    agents=[
        Agent(
            "desk.asks",
            planner=clerk_who_asks,
            uses=[money, outside],
            policy=RunPolicy(interrupts_allowed=True),
        )
    ]
)


async def answers(run, wait):
    await run.answer(wait, "pay 900", principal=FIN)


async def declines(run, wait):
    await run.decline(wait, "pay 900 then", principal=FIN)


async def gives_a_result(run, wait):
    results = [{"tool_call_id": wait.items[0].tool_call_id, "result": "900"}]
    await run.provide_tool_results(wait.id, results, principal=FIN)


@pytest.mark.parametrize(
    ("text", "say"),
    [("pay the usual", answers), ("pay the usual", declines), ("look up", gives_a_result)],
)
async def test_four_eyes_are_not_those_of_who_said_how_much(serve, status_when, text, say):
    """Whoever answers the run's question, or gives a result from outside, does not approve the call that is made of it, and is recorded."""
    client = await serve(ASKS)
    run = await client.start("desk.asks", text, principal=ANA)
    (wait,) = (await status_when(run, lambda s: len(s.awaits) == 1)).awaits
    await say(run, wait)
    (call,) = (
        await status_when(run, lambda s: isinstance(next(iter(s.awaits), None), AwaitConfirmation))
    ).awaits
    assert (call.asked_by.subject, [each.subject for each in call.also_asked_by]) == ("ana", ["fin"])
    with pytest.raises(NotApprover, match="fin asked for this call"):
        await run.approve(call, principal=FIN)
    await run.approve(call, principal=CFO)
    assert (await run.result()).text.startswith("paid ")
    answered = [event async for event in run.events() if event.type == "await_answered"]
    assert [(each.by, each.principal.subject) for each in answered] == [("fin", "fin"), ("cy", "cy")]


class Sum(BaseModel):
    """For what to ask a sum."""

    what: str


@flow
def who_asks_below(case: Case) -> str:
    """Ask how much, and say it, or fail with it; this is a child run."""
    said = case.ask("How much?") or ""
    if said.startswith("fail"):
        raise ApplicationError(said, non_retryable=True)
    return said


asker = Agent("desk.below", planner=who_asks_below, policy=RunPolicy(interrupts_allowed=True))
below = asker.export(
    "desk.sums", tools=[AgentTool("ask", args=Sum, description="Ask.", user=lambda a: a.what)]
)


async def plan_by_child(turn: Turn) -> PlanResult:
    """Pay what the child run has heard."""
    results = turn.tool_results
    if not results:
        return PlanResult.calls(ToolRequest(name="desk.sums.ask", payload={"what": "sum"}, tool_call_id="c1"))
    if str(results[-1].result).startswith("paid"):
        return PlanResult.final(str(results[-1].result))
    return PlanResult.calls(pay.call(amount=900))


@pytest.mark.parametrize("answer", ["900", "fail 900"])
async def test_four_eyes_are_not_those_of_who_answered_a_child_run(serve, status_when, answer):
    """Whoever answers the question of a child run does not approve what its parent makes of the child run's answer, or of its error."""
    policy = RunPolicy(interrupts_allowed=True)
    client = await serve(
        App(agents=[Agent("desk.above", planner=plan_by_child, uses=[money, below], policy=policy), asker])
    )
    run = await client.start("desk.above", "pay the usual", principal=ANA)
    (waits,) = (await status_when(run, lambda s: s.child_awaits)).child_awaits.items()
    await client.get_run(waits[0]).answer(waits[1][0], answer, principal=FIN)
    (call,) = (await status_when(run, lambda s: len(s.awaits) == 1)).awaits
    assert [each.subject for each in call.also_asked_by] == ["fin"]
    with pytest.raises(NotApprover, match="fin asked for this call"):
        await run.approve(call, principal=FIN)
    await run.approve(call, principal=CFO)
    assert (await run.result()).text == "paid 900"


async def test_an_answer_of_nobody_known_is_taken(serve, status_when):
    """An answer without a principal adds nobody, and one of a principal that nobody can be is refused."""
    client = await serve(ASKS)
    run = await client.start("desk.asks", "pay", principal=ANA)
    (wait,) = (await status_when(run, lambda s: len(s.awaits) == 1)).awaits
    with pytest.raises(InvalidInput, match=r"principal\.subject"):
        await run.answer(wait, "5", principal=Principal(subject=""))
    await run.answer(wait, "5", by="fin")
    (call,) = (
        await status_when(run, lambda s: isinstance(next(iter(s.awaits), None), AwaitConfirmation))
    ).awaits
    assert call.also_asked_by == []
    await run.approve(call, principal=FIN)
    assert (await run.result()).text == "paid 5"


CHECKED: list[tuple[str, dict, str]] = []
gate = Toolset("desk.gate")


def above_own_limit(principal: Principal, call: ToolRequest, wait: AwaitConfirmation) -> bool:
    """Everybody decides up to a limit in a role's name."""
    CHECKED.append((principal.subject, call.payload, wait.id))
    if principal.subject == "broken":
        raise RuntimeError("the directory is down")
    return any(call.payload["amount"] <= int(role.partition(":")[2] or 0) for role in principal.roles)


async def asynchronously(principal: Principal, call: ToolRequest, wait: AwaitConfirmation) -> bool:
    """The same, awaited."""
    return above_own_limit(principal, call, wait)


@gate.tool(approvers=above_own_limit, four_eyes=True)
async def open_gate(meta: ToolCallMeta, amount: int) -> str:
    """Open."""
    DONE.setdefault(meta.run_id, []).append(meta.approval)
    return f"open {amount}"


@gate.tool(approvers=asynchronously)
async def shut_gate(amount: int) -> str:
    """Shut."""
    return f"shut {amount}"


async def plan_gate(turn: Turn) -> PlanResult:
    """Open or shut the gate."""
    if turn.tool_results:
        return PlanResult.final(" | ".join(str(each.error or each.result) for each in turn.tool_results))
    word, amount = turn.messages[-1].text.split()
    return PlanResult.calls({"open": open_gate, "shut": shut_gate}[word].call(amount=int(amount)))


gated = App(
    agents=[Agent("desk.guard", planner=plan_gate, uses=[gate], policy=RunPolicy(interrupts_allowed=True))]
)


def limited(subject: str, limit: int) -> Principal:
    return Principal(subject=subject, tenant="acme", roles=[f"up-to:{limit}"])


async def test_a_function_judges_who_decides(serve, status_when, traces):
    """It gets the principal, the call and the wait; a no, a failure, four eyes and nobody leave the call waiting, as update and as signal."""
    client = await serve(gated)
    run = await client.start("desk.guard", "open 50", principal=limited("ana", 100))
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    assert (wait.approver_check, wait.approvers, wait.stop_asking) == ("above_own_limit", [], "never")
    for principal, why in (
        (limited("bo", 10), "bo may not decide on this call, says above_own_limit"),
        (limited("broken", 100), "the function above_own_limit that judges who may decide failed"),
        (limited("ana", 100), "ana asked for this call"),
        (None, "does not say whose it is"),
    ):
        with pytest.raises(NotApprover, match=why):
            await run.approve(wait, principal=principal)
    with pytest.raises(NotApprover):
        await run.deny(wait, principal=limited("bo", 10))
    handle = traces(run).handle
    sent = {"id": wait.id, "payload_digest": wait.payload_digest, "approved": True}
    await handle.signal("provide_confirmation", {**sent, "principal": limited("bo", 10).model_dump()})
    status = await status_when(run, lambda s: s.notes)
    assert status.notes == ["answer refused: bo may not decide on this call, says above_own_limit"]
    assert [each.id for each in status.awaits] == [wait.id]
    assert await run.approve(wait, principal=limited("kim", 60), reason="fine") == wait.id
    assert (await run.result()).text == "open 50"
    assert [(each.subject, each.reason) for each in DONE[run.id]] == [("kim", "fine")]
    assert ("kim", {"amount": 50}, wait.id) in CHECKED
    assert "ana" not in [subject for subject, _, _ in CHECKED]
    (answered,) = [event async for event in run.events() if event.type == "await_answered"]
    assert (answered.by, answered.principal, answered.approved) == ("kim", limited("kim", 60), True)
    assert answered.identity
    await traces(run).check()


async def test_a_rule_counts_beside_the_function(serve, status_when):
    """Whoever decides needs a role of the rule and the function's yes; an approver denies without either."""
    rule = ApprovalRule(tools=["desk.gate.*"], approvers=["guard"])
    policy = RunPolicyOverride(approval=ApprovalPolicy(rules=[rule]))
    client = await serve(gated)
    run = await client.start("desk.guard", "open 50", policy=policy)
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    assert describe_deciders(wait).startswith(
        "a principal whom above_own_limit lets decide and who has the role guard"
    )
    with pytest.raises(NotApprover, match="kim does not have the role guard"):
        await run.approve(wait, principal=limited("kim", 60))
    with pytest.raises(NotApprover, match="says above_own_limit"):
        await run.approve(wait, principal=Principal(subject="al", tenant="acme", roles=["guard"]))
    kim = Principal(subject="kim", tenant="acme", roles=["guard", "up-to:60"])
    await run.approve(wait, principal=kim)
    assert (await run.result()).text == "open 50"
    run = await client.start("desk.guard", "open 50", policy=policy)
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    await run.deny(wait, "no", principal=BOSS)
    assert (await run.result()).text == "denied: no"


async def test_an_approver_denies_without_the_function(serve, status_when, traces):
    """Where the function fails for everybody, an approver can still deny, as update and as signal; approving takes the function."""
    client = await serve(gated)
    broken = Principal(subject="broken", tenant="acme", roles=["approver"])
    for by_signal in (False, True):
        run = await client.start("desk.guard", "open 50", principal=limited("ana", 100))
        (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
        with pytest.raises(NotApprover, match="that judges who may decide failed"):
            await run.approve(wait, principal=broken)
        if by_signal:
            sent = {"id": wait.id, "payload_digest": wait.payload_digest, "approved": False, "reason": "no"}
            await traces(run).handle.signal(
                "provide_confirmation", {**sent, "principal": broken.model_dump()}
            )
        else:
            await run.deny(wait, "no", principal=broken)
        assert (await run.result()).text == "denied: no"
        await traces(run).check()


async def test_a_function_may_be_async_and_a_signal_may_decide(serve, status_when, traces):
    """A signal of somebody whom the function lets decide is the decision."""
    client = await serve(gated)
    run = await client.start("desk.guard", "shut 5")
    (wait,) = (await status_when(run, lambda s: s.awaits)).awaits
    sent = {"id": wait.id, "payload_digest": wait.payload_digest, "approved": False, "reason": "later"}
    handle = traces(run).handle
    await handle.signal("provide_confirmation", {**sent, "principal": limited("kim", 60).model_dump()})
    assert (await run.result()).text == "denied: later"
    await traces(run).check()
