"""Quotas of tenants: runs wait for a place, get it in order, and give it up when they end or only wait."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    PlanResult,
    Principal,
    Run,
    RunFailed,
    RunPolicy,
    SojournPlugin,
    TenantQuota,
    Tenants,
    ToolRequest,
    Toolset,
)
from sojourn.contracts.quota import Ask, Exchange, LedgerRecord, QuotaUse
from sojourn.contracts.tenant_ids import ledger_id
from sojourn.core.quota import ledger
from sojourn.errors import DefinitionError
from sojourn.serving import quota_broker
from sojourn.serving.quota_broker import ledger_queue
from sojourn.testing.scripted import ScriptedPlanner

ANN = Principal(subject="ann", tenant="acme")


TOOLS = Toolset("test.tools")


@TOOLS.tool(destructive=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


class Question(BaseModel):
    text: str


class Desk:
    """An agent whose runs work until the test lets them, and who is at work."""

    def __init__(
        self, quota: TenantQuota, planner: Callable[[Any], Any] | None = None, **policy: Any
    ) -> None:
        self.gate, self.at_work, self.most, self.planned = asyncio.Event(), 0, 0, list[str]()
        self.gate.set()
        self.name = f"desk-{uuid.uuid4().hex[:8]}"
        agent = Agent("test.agent", planner=planner or self.plan, policy=RunPolicy(**policy))
        self.app = App(agents=[agent], name=self.name, tenants=Tenants(of={"acme": quota}))

    async def plan(self, turn: Any) -> PlanResult:
        self.at_work, self.planned = self.at_work + 1, [*self.planned, turn.run.run_id]
        self.most = max(self.most, self.at_work)
        await asyncio.sleep(0.05)
        await self.gate.wait()
        self.at_work -= 1
        return PlanResult.final("done")

    async def use(self, client: Client, tenant: str = "acme") -> QuotaUse:
        handle = client.temporal.get_workflow_handle(ledger_id(self.name, tenant))
        return await handle.query("use", result_type=QuotaUse)


async def start(client: Client, text: str = "go", principal: Principal | None = ANN, **options: Any) -> Run:
    return await client.start("test.agent", text, principal=principal, **options)


async def kinds_of(run: Run) -> list[str]:
    return [event.type async for event in run.events(follow=False)]


async def test_runs_above_the_quota_wait_and_all_of_them_work(serve, until, traces):
    """At most two are at work at once, the others wait for one to end, and the tenant's places are free afterwards."""
    desk = Desk(TenantQuota(runs=2))
    client = await serve(desk.app)
    desk.gate.clear()
    runs = [await start(client) for _ in range(6)]
    await until(lambda: desk.at_work == 2)

    async def waiting() -> bool:
        return (await desk.use(client)).waiting == 4

    await until(waiting)
    queued = [status.quota for run in runs if (status := await run.status()).quota]
    assert sorted(each.position for each in queued) == [1, 2, 3, 4]
    assert {(each.kind, each.limit) for each in queued} == {("runs", 2)}
    desk.gate.set()
    for run in runs:
        assert (await run.result()).text == "done"
        assert await traces(run).failed_tasks() == []
    assert (desk.most, len(desk.planned)) == (2, 6)
    kinds = [await kinds_of(run) for run in runs]
    assert sum("run_queued" in each for each in kinds) == 4
    assert all(each.count("run_queued") == each.count("run_admitted") for each in kinds)
    assert all(each.count("plan_started") == 1 for each in kinds)

    async def free() -> bool:
        use = await desk.use(client)
        return (use.runs, use.waiting, use.starts) == (0, 0, 6)

    await until(free)


async def test_another_tenant_and_runs_without_one_are_not_held_back(serve, traces):
    """A tenant without a quota has no ledger, and its history no event of one."""
    desk = Desk(TenantQuota(runs=1))
    client = await serve(desk.app)
    desk.gate.clear()
    held = await start(client)
    waits = await start(client)
    others = [
        await start(client, principal=principal) for principal in (None, Principal(subject="b", tenant="b"))
    ]
    desk.gate.set()
    for run in (*others, held, waits):
        await run.result()
    for run in others:
        assert len(await traces(run).history()) == len(await plain_history(serve, traces))
        assert (await run.status()).quota is None


async def plain_history(serve: Any, traces: Any) -> Any:
    planner = ScriptedPlanner([PlanResult.final("done")])
    client = await serve(planner=planner)
    run = await client.start("test.agent", "go", principal=Principal(subject="b", tenant="b"))
    await run.result()
    return await traces(run).history()


async def test_a_run_that_only_waits_gives_its_place_to_another(serve, status_when, until):
    """A question, an approval and a sleep cost no place, and the run asks for one again before its next plan."""

    async def plan(turn: Any) -> PlanResult:
        text = turn.messages[0].text
        if len(turn.messages) > 1 or text == "go":
            return PlanResult.final("done")
        if text == "ask":
            return PlanResult.ask(AwaitClarification(question="which?"))
        if text == "pay":
            return PlanResult.calls(pay.call(amount=1))
        return PlanResult.wait(timedelta(seconds=1))

    name = f"desk-{uuid.uuid4().hex[:8]}"
    policy = RunPolicy(interrupts_allowed=True)
    agent = Agent("test.agent", planner=plan, uses=[TOOLS], policy=policy)
    client = await serve(App(agents=[agent], name=name, tenants=Tenants(default=TenantQuota(runs=1))))
    asks, pays, sleeps = [await start(client, text) for text in ("ask", "pay", "sleep")]
    asked = (await status_when(asks, lambda status: status.awaits)).awaits[0]
    approval = (await status_when(pays, lambda status: status.awaits)).awaits[0]
    assert (await (await start(client)).result()).text == "done", "while all of them wait"
    await asks.answer(asked.id, "this")
    await pays.approve(approval)
    for run in (asks, pays, sleeps):
        assert (await run.result()).text == "done"


async def test_a_run_that_may_not_wait_fails_and_says_why(serve, until):
    """Its error has a code of its own and names the tenant and its quota."""
    desk = Desk(TenantQuota(runs=1, when_full="refuse"))
    client = await serve(desk.app)
    desk.gate.clear()
    held = await start(client)
    await until(lambda: desk.at_work == 1)
    with pytest.raises(RunFailed, match="the tenant acme has reached its quota of 1 runs at work") as failed:
        await (await start(client)).result()
    assert failed.value.code == "tenant_quota_exceeded"
    desk.gate.set()
    await held.result()


async def test_a_run_that_waits_is_canceled_and_terminated_as_any_other(serve, status_when, until):
    """It leaves the list at once, or is found once its turn comes, and the next one gets the place."""
    desk = Desk(TenantQuota(runs=1))
    client = await serve(desk.app)
    desk.gate.clear()
    held = await start(client)
    await until(lambda: desk.at_work == 1)
    canceled, killed, last = [await start(client) for _ in range(3)]
    for run in (canceled, killed, last):
        await status_when(run, lambda status: status.quota)
    await canceled.cancel()
    await until(lambda: _is_over(canceled))
    await client.temporal.get_workflow_handle(killed.id).terminate()
    desk.gate.set()
    assert (await last.result()).text == "done"
    await held.result()
    assert desk.planned == [held.id, last.id]


async def _is_over(run: Run) -> bool:
    return not (await run.status()).is_open


async def test_a_place_whose_run_was_terminated_is_found(serve, status_when, until, monkeypatch):
    """Nobody gives it back, so a worker looks at runs that have had a place for long."""
    monkeypatch.setattr(ledger, "CHECKED_EVERY", timedelta(seconds=0.2))
    desk = Desk(TenantQuota(runs=1))
    client = await serve(desk.app)
    desk.gate.clear()
    held = await start(client)
    await until(lambda: desk.at_work == 1)
    waits = await start(client)
    await status_when(waits, lambda status: status.quota)
    await client.temporal.get_workflow_handle(held.id).terminate()
    desk.gate.set()
    assert (await waits.result()).text == "done"


async def test_a_place_whose_release_was_lost_is_found_while_the_run_waits_for_a_person(
    serve, status_when, until, monkeypatch
):
    """The run is open and not idle, so a worker asks it for its present place."""
    monkeypatch.setattr(ledger, "CHECKED_EVERY", timedelta(seconds=0.2))

    async def plan(turn: Any) -> PlanResult:
        if turn.messages[0].text == "ask" and len(turn.messages) == 1:
            return PlanResult.ask(AwaitClarification(question="which?"))
        return PlanResult.final("done")

    desk = Desk(TenantQuota(runs=1), plan, interrupts_allowed=True)
    client = await serve(desk.app)
    asks = await start(client, "ask")
    wait = (await status_when(asks, lambda status: status.awaits)).awaits[0]

    async def free() -> bool:
        return (await desk.use(client)).runs == 0

    await until(free)
    lost = Ask(run_id=asks.id, place=1, starts=True)
    held = Exchange(worker="lost", quota=TenantQuota(runs=1).recorded(), asks=[lost])
    await client.temporal.get_workflow_handle(ledger_id(desk.name, "acme")).execute_update("exchange", held)
    assert (await desk.use(client)).runs == 1
    assert (await (await start(client)).result()).text == "done"
    await asks.answer(wait.id, "this")
    await asks.result()


async def test_the_starts_of_a_tenant_that_does_nothing_run_out(serve, until, monkeypatch):
    """Its use is counted by the clock, so that a caller who looks at it before a start is not locked out."""
    monkeypatch.setattr(ledger, "WINDOW", 1)
    desk = Desk(TenantQuota(starts_per_minute=1))
    client = await serve(desk.app)
    await (await start(client)).result()

    async def has_run_out() -> bool:
        return (await desk.use(client)).starts == 0

    await until(has_run_out)


async def test_an_older_worker_leaves_a_ledger_of_a_newer_form(serve, until):
    """Its task fails, and not the ledger, so that a newer worker takes it; a record that is none at all fails it."""
    desk = Desk(TenantQuota(runs=1))
    client = await serve(desk.app)

    async def begin(record: Any) -> Any:
        name, queue = f"_tenant/{uuid.uuid4().hex}", ledger_queue(desk.name)
        return await client.temporal.start_workflow("TenantLedger", record, id=name, task_queue=queue)

    newer = await begin({**LedgerRecord().model_dump(mode="json"), "v": 2, "holders": []})

    async def is_left() -> bool:
        events = (await newer.fetch_history()).events
        return any(each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED for each in events)

    await until(is_left)
    assert (await newer.describe()).close_time is None
    await newer.terminate()
    with pytest.raises(WorkflowFailureError):
        await (await begin({"holders": []})).result()


async def test_the_time_for_which_a_run_waits_does_not_count(serve, status_when, until, traces):
    """A time budget shorter than the wait is not used up by it, live and in the folded status."""
    desk = Desk(TenantQuota(runs=1), time_budget=timedelta(seconds=1))
    client = await serve(desk.app)
    desk.gate.clear()
    unlimited = await start(client)
    await until(lambda: desk.at_work == 1)
    waits = await start(client, policy=None)
    await status_when(waits, lambda status: status.quota)
    await asyncio.sleep(1.2)  # the budget of the run that waits
    desk.gate.set()
    await unlimited.result()
    output = await waits.result()
    assert output.reason == "answered"
    assert output.active_time is not None
    assert output.active_time < timedelta(seconds=1)


async def test_a_place_that_was_asked_for_when_the_time_ran_out_is_asked_for_again(
    serve, status_when, traces, until, monkeypatch
):
    """The last plan of a run asks for a place of its own, since nobody knows whether it has the other."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)  # a cancellation comes with a heartbeat
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)

    async def plan(turn: Any) -> PlanResult:
        if len(turn.messages) == 1:
            return PlanResult.ask(AwaitClarification(question="which?"))
        return PlanResult.final("done")

    desk = Desk(TenantQuota(runs=1), plan, interrupts_allowed=True, time_budget=timedelta(seconds=1))
    client = await serve(desk.app)
    asked, answers, exchange = list[Ask](), asyncio.Event(), quota_broker._Ledger.exchange
    answers.set()

    async def slow(self: Any, request: Exchange) -> Any:
        asked.extend(request.asks)
        if request.asks:
            await answers.wait()
        return await exchange(self, request)

    monkeypatch.setattr(quota_broker._Ledger, "exchange", slow)
    run = await start(client)
    wait = (await status_when(run, lambda status: status.awaits)).awaits[0]
    answers.clear()
    await run.answer(wait.id, "this")
    await until(lambda: len(asked) == 2)

    async def is_canceled() -> bool:
        canceled = EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED
        return any(each.event_type == canceled for each in await traces(run).history())

    await until(is_canceled)
    answers.set()
    assert (await run.result()).reason == "time_budget"
    assert [(each.place, each.starts) for each in asked] == [(1, True), (2, False), (3, False)]


async def test_a_local_agent_whose_tenant_gets_a_quota_asks_too(serve, status_when, until):
    """A local plan cannot wait for a place, so an ordinary activity asks for it."""

    async def plan(turn: Any) -> PlanResult:
        if turn.messages[0].text == "hold":
            await gate.wait()
        elif len(turn.messages) == 1:
            return PlanResult.calls(pay.call(amount=1))
        return PlanResult.final("done")

    class Later:
        quota: TenantQuota | None = None

        def quota_of(self, _tenant: str) -> TenantQuota | None:
            return self.quota

    gate, later, name = asyncio.Event(), Later(), f"desk-{uuid.uuid4().hex[:8]}"
    app = App(
        agents=[
            Agent(
                "test.agent",
                planner=plan,
                uses=[TOOLS],
                local=True,
                policy=RunPolicy(interrupts_allowed=True),
            )
        ],
        name=name,
    )
    app._tenants = later
    client = await serve(app)
    pays = await start(client, "pay")
    approval = (await status_when(pays, lambda status: status.awaits)).awaits[0]
    later.quota = TenantQuota(runs=1)
    held = await start(client, "hold")
    ledger_of = client.temporal.get_workflow_handle(ledger_id(name, "acme"))

    async def is_held() -> bool:
        with contextlib.suppress(RPCError):
            return (await ledger_of.query("use", result_type=QuotaUse)).runs == 1
        return False

    await until(is_held)
    await pays.approve(approval)
    await status_when(pays, lambda status: status.quota)
    gate.set()
    for run in (held, pays):
        assert (await run.result()).text == "done"


async def test_turns_of_a_conversation_ask_one_by_one(serve, status_when, until):
    """An idle conversation has no place, each turn is a start, and an interrupted one that waits gives up."""
    desk = Desk(TenantQuota(runs=1))
    client = await serve(desk.app)
    session = client.session("test.agent", "s1", principal=ANN)
    assert (await (await session.send("one")).result()).text == "done"

    async def free() -> bool:
        return (await desk.use(client)).runs == 0

    await until(free)
    desk.gate.clear()
    held = await start(client)
    await until(lambda: desk.at_work == 1)
    await session.send("two")
    await status_when(session.run, lambda status: status.quota)
    await session.interrupt("never mind")
    await status_when(session.run, lambda status: status.status == "idle" and not status.quota)
    desk.gate.set()
    await held.result()
    assert (await (await session.send("three")).result()).text == "done"
    await until(free)
    await session.close()


async def test_a_child_run_takes_no_place_of_its_own(serve):
    """With a quota of one run, a run whose agent calls another one does not wait for itself."""
    helper = Agent("test.helper", planner=ScriptedPlanner([PlanResult.final("help")]))
    advice = helper.export("test.advice", tools=[AgentTool("ask", args=Question)])
    call = ToolRequest(name="test.advice.ask", payload={"text": "how?"})
    planner = ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
    agent = Agent("test.agent", planner=planner, uses=[advice])
    name = f"desk-{uuid.uuid4().hex[:8]}"
    tenants = Tenants(default=TenantQuota(runs=1))
    client = await serve(App(agents=[agent, helper], name=name, tenants=tenants))
    assert (await (await start(client)).result()).text == "done"


async def test_a_ledger_goes_on_as_new_under_load(serve, monkeypatch, traces):
    """No run is lost or admitted twice while the ledger's history begins anew again and again."""
    import workflows.tenant_ledger as workflow

    monkeypatch.setattr(workflow, "MAX_EVENTS", 30)
    desk = Desk(TenantQuota(runs=3))
    client = await serve(desk.app)
    runs = [await start(client) for _ in range(30)]
    assert [(await run.result()).text for run in runs] == ["done"] * 30
    assert desk.most <= 3
    about = await client.temporal.get_workflow_handle(ledger_id(desk.name, "acme")).describe()
    first = await client.temporal.get_workflow_handle(about.id, run_id=about.run_id).fetch_history()
    started = first.events[0].workflow_execution_started_event_attributes
    assert first.events[0].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
    assert started.continued_execution_run_id


def test_a_worker_of_ones_own_refuses_an_app_with_quotas():
    """It does not serve the ledgers, so that each run would wait for ever."""
    with pytest.raises(DefinitionError, match=r"quotas of tenants need a sojourn\.Worker"):
        SojournPlugin(Desk(TenantQuota(runs=1)).app)
