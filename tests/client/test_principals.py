"""Who asked for a run: told to all that act for it, kept for as long as the run lives, and a wall between tenants."""

import asyncio
import importlib
import uuid
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    InvalidInput,
    Message,
    PlanResult,
    Principal,
    RunPolicy,
    SessionPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    search_attributes,
)
from sojourn.client.conversation_id import conversation_id, is_conversation
from sojourn.connection.tenants import tenant_of
from sojourn.contracts import RunInput
from sojourn.contracts.ids import RUN_ID
from sojourn.errors import RunUnreadable
from sojourn.policy import PolicyDecision
from tests.encrypted.keys import FernetCodec

room = importlib.import_module("workflows.history_budget")

ANA = Principal(subject="ana", tenant="acme", roles=["user", "buyer"])
BO = Principal(subject="bo", tenant="globex")


class Nothing(BaseModel):
    """No arguments."""


class Seen:
    """An app whose planners, tools, interceptor and policy engine note for whom they act."""

    def __init__(self, *, rounds: int = 1) -> None:
        self.by = dict[str, list[Principal | None]]()
        tools = Toolset("seen.tools")

        @tools.tool
        async def act(meta: ToolCallMeta) -> str:
            self.note(f"tool of {meta.agent_id}", meta.principal)
            return "done"

        async def parent(turn):
            self.note("planner", turn.run.principal)
            done = len(turn.results)
            if done == 0:
                return PlanResult.calls(act.call(), below.tools["ask"].call())
            if done < 2 * rounds:
                return PlanResult.calls(act.call(), act.call())
            return PlanResult.final("done")

        async def child(turn):
            self.note("child's planner", turn.run.principal)
            return PlanResult.final("below") if turn.results else PlanResult.calls(act.call())

        below_agent = Agent("seen.child", planner=child, uses=[tools])
        below = below_agent.export("seen.below", tools=[AgentTool("ask", args=Nothing)])
        policy = RunPolicy(max_tool_calls=1000, max_tool_rounds=1000)
        self.app = App(
            agents=[Agent("seen.parent", planner=parent, uses=[tools, below], policy=policy), below_agent],
            policy_engine=self,
            interceptors=[self],
        )

    def note(self, who: str, principal: Principal | None) -> None:
        self.by.setdefault(who, []).append(principal)

    def told(self) -> set[str]:
        """Everybody for whom anything acted, as text."""
        return {str(who) for noted in self.by.values() for who in noted}

    async def decide(self, given) -> PolicyDecision:
        self.note("policy engine", given.principal)
        return PolicyDecision()

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        self.note("interceptor", meta.principal)
        return call


ALL = {
    "planner",
    "policy engine",
    "tool of seen.parent",
    "interceptor",
    "child's planner",
    "tool of seen.child",
}


def named() -> Principal:
    """Somebody of a tenant that no other test knows."""
    return Principal(subject="ana", tenant=f"t-{uuid.uuid4().hex[:8]}", roles=["user"])


async def talks(turn) -> PlanResult:
    said = [message.text for message in turn.messages if message.role == "user"]
    who = turn.run.principal
    return PlanResult.final(f"{who.subject if who else 'nobody'}: {', '.join(said)}")


async def becomes(until, expected, listed) -> None:
    async def fits() -> bool:
        return {run.run_id async for run in listed()} == set(expected)

    await until(fits)


async def test_all_that_act_for_a_run_know_who_asked(serve):
    """Planners, tools, interceptors and the policy engine are told the same principal, in the child run too."""
    seen = Seen()
    client = await serve(seen.app)
    run = await client.start("seen.parent", "go", principal=ANA)
    await run.result()
    assert set(seen.by) == ALL
    assert seen.told() == {str(ANA)}
    assert (await run.status()).principal == ANA


async def test_nobody_is_told_where_nobody_was_named(serve, traces):
    """A run without a principal tells none, and its history has no word of one."""
    seen = Seen()
    client = await serve(seen.app)
    run = await client.start("seen.parent", "go")
    await run.result()
    assert seen.told() == {"None"}
    assert (await run.status()).principal is None
    assert all(b"principal" not in event.SerializeToString() for event in await traces(run).history())


async def test_a_long_run_remembers_who_asked(serve, monkeypatch, traces):
    """In its later executions the principal is the same, and so is the tenant in the listing."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 60)
    seen, ana = Seen(rounds=12), named()
    client = await serve(seen.app)
    run = await client.start("seen.parent", "go", principal=ana)
    await run.result()
    assert [event.type async for event in run.events()].count("run_continued") >= 1
    assert seen.told() == {str(ana)}
    described = await traces(run).handle.describe()
    assert described.typed_search_attributes.get(search_attributes.TENANT) == ana.tenant
    assert await described.memo_value("tenant") == ana.tenant


async def test_a_fork_is_asked_for_by_whoever_asked_for_its_origin_or_by_another(serve):
    """A fork and a retry have the origin's principal; one that names another has that one."""
    client = await serve(planner=talks)
    run = await client.start("test.agent", "one", principal=ANA)
    await run.result()
    fork = await client.fork(run.id, message="two")
    assert (await fork.result()).text == "ana: one, two"
    other = await client.fork(run.id, message="three", principal=BO)
    assert (await other.result()).text == "bo: one, three"
    assert (await other.status()).principal == BO
    with pytest.raises(InvalidInput, match=r"principal\.tenant"):
        await client.fork(run.id, message="x", principal=Principal(subject="x", tenant='"'))


async def test_runs_are_listed_by_tenant(serve, until):
    """A tenant's runs and child runs are listed, and no others; the empty tenant lists those that have none."""
    seen, ana, bo = Seen(), named(), named()
    client = await serve(seen.app)
    first = await client.start("seen.parent", "go", principal=ana)
    second = await client.start("seen.parent", "go", principal=bo)
    third = await client.start("seen.parent", "go")
    for run in (first, second, third):
        await run.result()
    below = [each.run_link.run_id async for each in first.events() if each.type == "agent_run_started"]
    await becomes(until, [first.id, *below], lambda: client.list_runs(tenant=ana.tenant))
    await becomes(until, [second.id], lambda: client.list_runs(tenant=bo.tenant, children=False))
    without = {run.run_id async for run in client.list_runs(tenant="", agent_id="seen.parent")}
    assert third.id in without
    assert not {first.id, second.id} & without


async def test_one_session_id_of_two_tenants_is_two_conversations(serve, until):
    """Neither sees a message of the other, nor does the one without a tenant; each lists its own."""
    client = await serve(planner=talks)
    session_id, ana, bo = f"s-{uuid.uuid4().hex[:8]}", named(), named()
    for principal, who in ((ana, "ana"), (bo, "ana"), (None, "nobody")):
        session = client.session("test.agent", session_id, principal=principal)
        assert (await (await session.send("hi")).result()).text == f"{who}: hi"
    anas, bos = (f"test.agent:{principal.tenant}@{session_id}" for principal in (ana, bo))
    await becomes(until, [anas], lambda: client.list_sessions(tenant=ana.tenant))
    every = [anas, bos, f"test.agent@{session_id}"]
    await becomes(until, every, lambda: client.list_sessions(session_id=session_id))


async def test_all_that_act_in_a_turn_know_who_sent_its_message(serve, traces):
    """In a turn of a colleague the planner, tools, interceptor, policy engine and child run act for the colleague, and not for the starter."""
    seen = Seen()
    client = await serve(seen.app)
    session_id, ana = uuid.uuid4().hex, named()
    eve = ana.model_copy(update={"subject": "eve", "roles": ["user"]})
    first = client.session("seen.parent", session_id, principal=ana)
    await (await first.send("a")).result()
    seen.by.clear()
    await (await client.session("seen.parent", session_id, principal=eve).send("b", by="eve")).result()
    assert set(seen.by) == ALL
    assert seen.told() == {str(eve)}
    seen.by.clear()
    await (await first.send("c")).result()
    assert seen.told() == {str(ana)}
    assert (await first.status()).principal == ana
    await traces(first.run).check()


async def test_an_agent_may_let_all_turns_act_for_the_starter(serve):
    """With `SessionPolicy(acts_for="starter")` a colleague's message is answered for whoever began the conversation."""
    policy = RunPolicy(session=SessionPolicy(acts_for="starter"))
    client = await serve(planner=talks, policy=policy)
    session_id, ana = uuid.uuid4().hex, named()
    await (await client.session("test.agent", session_id, principal=ana).send("a")).result()
    other = ana.model_copy(update={"subject": "eve"})
    turn = await client.session("test.agent", session_id, principal=other).send("b", by="eve")
    assert (await turn.result()).text == "ana: a, b"


async def test_a_turn_keeps_its_sender_when_the_run_goes_on_in_a_new_execution(serve, monkeypatch):
    """What continues a turn of a colleague still acts for the colleague."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 60)
    seen = Seen(rounds=12)
    client = await serve(seen.app)
    session_id, ana = uuid.uuid4().hex, named()
    eve = ana.model_copy(update={"subject": "eve"})
    await (await client.session("seen.parent", session_id, principal=ana).send("a")).result()
    seen.by.clear()
    turn = await client.session("seen.parent", session_id, principal=eve).send("b")
    await turn.result()
    assert [event.type async for event in turn.run.events(follow=False)].count("run_continued") >= 1
    assert seen.told() == {str(eve)}


async def test_a_resume_with_a_message_takes_roles_away_and_gives_none(serve):
    """A run that another person's message joins still acts for its starter, with the roles that both have."""
    held = asyncio.Event()

    async def waits(turn) -> PlanResult:
        who = turn.run.principal
        if len([each for each in turn.messages if each.role == "user"]) < 2:
            await held.wait()
            return PlanResult.wait(timedelta(0))
        return PlanResult.final(f"{who.subject}: {', '.join(who.roles)}")

    client = await serve(planner=waits)
    ana = Principal(subject="ana", tenant=named().tenant, roles=["user", "buyer"])
    boss = Principal(subject="boss", tenant=ana.tenant, roles=["operator", "user", "payer"])
    run = await client.start("test.agent", "go", principal=ana)
    await run.pause()
    held.set()
    await run.resume(messages=["and pay"], principal=boss)
    assert (await run.result()).text == "ana: user"
    assert (await run.status()).principal == ana


async def test_a_fork_sends_nothing_in_the_name_of_who_sent_the_original(serve):
    """A fork of a colleague's turn by another person acts for that person."""
    client = await serve(planner=talks)
    session_id, ana = uuid.uuid4().hex, named()
    eve, boss = (ana.model_copy(update={"subject": each}) for each in ("eve", "boss"))
    await (await client.session("test.agent", session_id, principal=ana).send("a")).result()
    talk = client.session("test.agent", session_id, principal=eve)
    turn = await talk.send("b")
    await turn.result()
    points = [event async for event in talk.run.events(follow=False) if event.type == "message_received"]
    fork = await client.fork(talk.run.id, at=points[-1].event_id, principal=boss)
    async for event in fork.events():
        if event.type == "turn_completed":
            break
    assert event.output.text == "boss: a, b"


async def test_the_fork_of_a_tenants_conversation_is_a_session_of_the_tenant(serve, until):
    """It is found by its session id and its tenant, and another tenant's fork of it by that one."""
    client = await serve(planner=talks)
    ana, bo = named(), named()
    session = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}", principal=ana)
    await (await session.send("a")).result()
    fork = await client.fork(session.run.id)
    status = await fork.status()
    assert fork.id == client.session("test.agent", status.session_id, principal=ana).run.id
    named_one = await client.fork(session.run.id, new_run_id=f"test.agent:{ana.tenant}@again")
    assert (await named_one.status()).session_id == "again"
    moved = await client.fork(session.run.id, principal=bo)
    status = await moved.status()
    assert moved.id == client.session("test.agent", status.session_id, principal=bo).run.id
    await becomes(until, [moved.id], lambda: client.list_sessions(tenant=bo.tenant))


async def test_the_tenant_of_a_run_is_read_or_nobodys(serve, traces):
    """A run without a principal has the empty tenant; of one whose memo is no tenant, or cannot be read, nobody says one."""
    client = await serve(planner=talks)
    run = await client.start("test.agent", "go")
    assert await tenant_of(await traces(run).handle.describe()) == ""
    address, queue = client.temporal.service_client.config.target_host, client.task_queue
    sealed = await Client.connect(address, task_queue=queue, codec=FernetCodec(Fernet.generate_key()))
    for starts, memo in ((client, 7), (client, {"encoding": "json"}), (sealed, "acme")):
        id = f"by-hand-{uuid.uuid4().hex[:8]}"
        opening = RunInput(agent_id="test.agent", messages=[Message.user("go")])
        await starts.temporal.start_workflow(
            "AgentRun", opening, id=id, task_queue=queue, memo={"tenant": memo}
        )
        with pytest.raises(RunUnreadable, match="the tenant of run"):
            await tenant_of(await client.temporal.get_workflow_handle(id).describe())


async def test_a_schedule_acts_for_its_principal(serve, until):
    """Its runs have the principal and the tenant, and its messages go to the tenant's conversation."""
    client = await serve(planner=talks)
    ana, bo, day = named(), named(), timedelta(days=1)
    runs = await client.schedule("test.agent", "report", every=day, principal=ana)
    sends = await client.schedule("test.agent", "report", every=day, session_id="s", principal=bo)
    try:
        await runs.trigger()
        await sends.trigger()

        async def first(tenant):
            return [run async for run in client.list_runs(tenant=tenant)]

        (run,) = await until(lambda: first(ana.tenant))
        assert (await client.get_run(run.run_id).result()).text == "ana: report"
        (talk,) = await until(lambda: first(bo.tenant))
        assert talk.run_id == f"test.agent:{bo.tenant}@s"
        assert (await client.get_run(talk.run_id).status()).principal == bo
    finally:
        await runs.delete()
        await sends.delete()


@pytest.mark.parametrize(
    ("principal", "rule"),
    [
        pytest.param(Principal(subject="a\nb"), r"principal\.subject", id="a line break in the subject"),
        pytest.param(Principal(subject="a", tenant="a'b"), r"principal\.tenant", id="quotes in the tenant"),
        pytest.param(Principal(subject="a", roles=["x" * 101]), r"principal\.roles", id="a long role"),
        pytest.param(Principal(subject=""), r"principal\.subject", id="no subject"),
        pytest.param(Principal(subject="a", roles=["r"] * 51), r"principal\.roles", id="51 roles"),
        pytest.param({"tenant": "acme"}, r"principal\.subject", id="nothing about the subject"),
    ],
)
async def test_nobody_is_called_so(serve, principal, rule):
    """A principal that breaks a rule starts nothing, neither a run nor a conversation."""
    client = await serve(planner=talks)
    with pytest.raises(InvalidInput, match=rule):
        await client.start("test.agent", "go", principal=principal)
    if isinstance(principal, Principal):
        with pytest.raises(InvalidInput, match=rule):
            client.session("test.agent", "s", principal=principal)


def test_the_conversations_of_two_tenants_are_never_one():
    """However tenants and sessions are called, two different pairs have two different run ids, and none is new for no tenant."""
    tenants = ["", "a", "a.b", "a:b", "a@b", "t+", "ü", "a" * 41, "a" * 200, "b:c", "c"]
    sessions = ["s", "a@s", "a:b", ":", "b@s", "ü", "s" * 200]
    ids = [conversation_id("x.y", session, tenant) for tenant in tenants for session in sessions]
    assert len(set(ids)) == len(tenants) * len(sessions)
    assert all(len(each) <= 200 for each in ids)
    assert conversation_id("x.y", "s") == "x.y@s"
    for tenant in tenants:
        for session in sessions:
            run_id = conversation_id("x.y", session, tenant)
            assert is_conversation(run_id, "x.y", session)
            assert not is_conversation(run_id, "x.z", session)
            assert not is_conversation(run_id, "x.y", f"{session}x")
    for run_id in ("s", "x.y", "@s", "x.y:@s", "x.y:a", "x.y-fork@s"):
        assert not is_conversation(run_id, "x.y", "s")


def test_a_session_that_is_called_like_the_digest_of_another_one_is_its_own():
    """A plain session keeps its name in its run id, and none has the run id of a session with a hashed name."""
    taken = set[str]()
    for session in ("ü", "a b", "s" * 200, f"s+{'0' * 32}"):
        for tenant in ("", "acme", "t" * 41):
            hashed = conversation_id("x.y", session, tenant)
            part = hashed.partition("@")[2]
            again = conversation_id("x.y", part, tenant)
            assert RUN_ID.match(hashed)
            assert RUN_ID.match(again)
            assert is_conversation(again, "x.y", part)
            assert not is_conversation(hashed, "x.y", part)
            taken |= {hashed, again}
    assert len(taken) == 4 * 3 * 2
    for plain in ("desk-1", "0" * 32, f"s+{'0' * 31}", f"S+{'0' * 32}", f"s+{'g' * 32}"):
        assert conversation_id("x.y", plain) == f"x.y@{plain}"
