"""Deploys under a waiting approval: the approval holds while the tool is what was shown, else a person is asked again."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import WorkflowUpdateFailedError

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    ApprovalRule,
    AwaitClarification,
    AwaitClosed,
    Client,
    PlanResult,
    Principal,
    Retry,
    RunPolicy,
    RunPolicyOverride,
    ToolRequest,
    Toolset,
    Worker,
)
from sojourn.errors import ApprovalVoid, NotApprover
from sojourn.testing.scripted import ScriptedPlanner

ASKS = RunPolicy(interrupts_allowed=True)
WIPE = ToolRequest(name="test.disks.wipe", payload={"disk": "a"}, tool_call_id="c1")


class Question(BaseModel):
    text: str


def report(turn):
    results = [part for message in turn.messages for part in message.tool_results]
    return PlanResult.final(" | ".join(str(r.error or r.result) for r in results))


def planner(*steps: list[ToolRequest] | PlanResult) -> ScriptedPlanner:
    plans = [step if isinstance(step, PlanResult) else PlanResult.calls(*step) for step in steps or ([WIPE],)]
    return ScriptedPlanner([*plans, report])


def release(done: list[str], *, force: bool | None = None, steps=(), rules=(), **options: Any) -> App:
    """A release of the app: `options` declare the tool, and with `force` it has a further argument of that default."""
    disks = Toolset("test.disks")
    declared = {"destructive": True, "description": "Wipe a disk."} | options

    async def wipe(disk: str) -> str:
        done.append(disk)
        return f"wiped {disk}"

    async def wipe_by_force(disk: str, force: bool = bool(force)) -> str:
        done.append(f"{disk} {force}")
        return f"wiped {disk} by force: {force}"

    disks.tool(name="wipe", **declared)(wipe if force is None else wipe_by_force)
    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(rules=list(rules)))
    return App(agents=[Agent("test.agent", planner=planner(*steps), uses=[disks], policy=policy)])


FINANCE = ApprovalRule(tools=["test.disks.*"], approvers=["finance"])
DANGER = ApprovalRule(tags=["danger"], approvers=["keeper"], four_eyes=True)


@pytest.mark.parametrize(
    ("rules", "before", "after", "decides"),
    [
        ([FINANCE], {"approvers": ["finance"]}, {}, (["finance"], False)),
        ([FINANCE], {}, {"approvers": ["finance", "boss"]}, (["finance"], False)),
        (
            [DANGER],
            {"tags": ["danger"], "approvers": ["keeper"], "four_eyes": True},
            {"tags": ["danger"]},
            (["keeper"], True),
        ),
        ([DANGER], {}, {"tags": ["danger"], "idempotent": True}, (["keeper"], True)),
        ([DANGER], {"tags": ["danger"]}, {"idempotent": True}, ([], False)),
    ],
    ids=["its own are gone", "its own are more", "four eyes are gone", "a rule fits now", "no rule fits now"],
)
async def test_the_rules_of_the_policy_count_when_a_call_is_asked_about_again(
    deployed, status_when, traces, rules, before, after, decides
):
    """Who decides follows from the tool as it is now and all rules of the run's policy, not from how they fell together before."""
    done: list[str] = []
    here = await deployed(release(done, rules=rules, **before))
    boss = Principal(subject="bo", roles=["approver", "boss"])
    kim = Principal(subject="kim", roles=["finance", "keeper", "approver"])
    async with Worker(release(done, rules=rules, **after), here.client):
        await void(here.run, here.wait, principal=kim)
        again = await asked_again(status_when, here.run)
        assert (again.approvers, again.four_eyes) == decides
        if decides != ([], False):
            with pytest.raises(NotApprover, match="bo does not have the role"):
                await here.run.approve(again, principal=boss)
        await here.run.approve(again, principal=kim)
        assert (await here.run.result()).text == "wiped a"
        await traces(here.run).check()
    assert done == ["a"]


async def test_a_rule_that_came_with_the_run_counts_again(temporal_address, status_when):
    """What narrowed who decides before the deploy narrows it after it."""
    done: list[str] = []
    policy = RunPolicyOverride(approval=ApprovalPolicy(rules=[FINANCE]))
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(release(done), client):
        run = await client.start("test.agent", "go", policy=policy)
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    kim = Principal(subject="kim", roles=["finance", "approver", "boss"])
    async with Worker(release(done, approvers=["boss"]), client):
        await void(run, wait, principal=kim)
        again = await asked_again(status_when, run)
        assert (again.approvers, again.narrowed_to) == (["boss"], [["finance"]])
        await run.approve(again, principal=kim)
        assert (await run.result()).text == "wiped a"


async def test_a_call_that_nobody_may_approve_any_more_does_not_run(deployed, traces):
    """If the tool now names approvers whom a rule excludes, the call is answered with what was changed."""
    done: list[str] = []
    here = await deployed(release(done, rules=[FINANCE]))
    other = App(
        agents=[Agent("test.agent", planner=planner(), uses=[_boss_disks(done)], policy=ASKS)],
    )
    async with Worker(other, here.client):
        kim = Principal(subject="kim", roles=["finance", "approver", "boss"])
        await void(here.run, here.wait, principal=kim)
        assert "approvers: not declared → boss" in (await here.run.result()).text
        await traces(here.run).check()
    assert done == []


def _boss_disks(done: list[str]) -> Toolset:
    disks = Toolset("test.disks")

    @disks.tool(destructive=True, approvers=["boss"])
    async def wipe(disk: str) -> str:
        done.append(disk)
        return disk

    return disks


@pytest.fixture
async def deployed(temporal_address, status_when) -> Callable[..., Any]:
    """Start a run on one app until it waits for an approval, and stop that app's worker."""

    async def start(app: App) -> SimpleNamespace:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        async with Worker(app, client):
            run = await client.start("test.agent", "go")
            status = await status_when(run, lambda status: status.awaits or status.child_awaits)
        waits = {run.id: status.awaits} if status.awaits else status.child_awaits
        ((run_id, (wait,)),) = waits.items()
        return SimpleNamespace(client=client, run=run, waiting=client.get_run(run_id), wait=wait)

    return start


async def asked_again(status_when, run, await_id: str = "confirm-c1#2"):
    status = await status_when(run, lambda status: [wait.id for wait in status.awaits] == [await_id])
    return status.awaits[0]


async def void(run, *decided, **options: Any) -> ApprovalVoid:
    """Approve a call whose tool was changed; returns the error that says so."""
    with pytest.raises(ApprovalVoid) as raised:
        await run.approve(*decided, **options)
    return raised.value


@pytest.mark.parametrize(
    "options",
    [
        {"description": "Wipes a whole disk."},
        {"title": "Wiping"},
        {"confirmation": "Really wipe {disk}?"},
        {"tags": ["danger"]},
        {"timeout": timedelta(seconds=7)},
        {"retry": Retry(max_attempts=7)},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_other_words_and_times_leave_an_approval_as_it_is(deployed, traces, options):
    """The call runs exactly once, by the approval of what was shown before the deploy."""
    done: list[str] = []
    here = await deployed(release(done))
    async with Worker(release(done, **options), here.client):
        await here.run.approve(here.wait)
        assert (await here.run.result()).text == "wiped a"
    assert done == ["a"]
    assert "await_confirmation await_answered" in " ".join([e.type async for e in here.run.events()])
    assert await traces(here.run).failed_tasks() == []


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"idempotent": True}, {"idempotent": False}, ["idempotent: yes → no"]),
        ({}, {"open_world": True}, ["open_world: not declared → yes"]),
        ({}, {"force": False}, ["arguments: force added"]),
        ({"force": False}, {}, ["arguments: force removed"]),
        ({"force": False}, {"force": True}, ["arguments: force changed"]),
    ],
    ids=["annotation", "declared annotation", "added", "removed", "default"],
)
async def test_a_changed_tool_is_asked_about_again(deployed, status_when, traces, before, after, changes):
    """The approval is void, and a new question says what was changed; the call runs once, by the new approval only."""
    done: list[str] = []
    here = await deployed(release(done, **before))
    async with Worker(release(done, **after), here.client):
        told = await void(here.run, here.wait)
        assert (told.await_id, told.changes) == ("confirm-c1#2", changes)
        assert f"({changes[0]})" in str(told)
        again = await asked_again(status_when, here.run)
        assert (done, again.changes, again.payload) == ([], changes, {"disk": "a"})
        assert (await here.run.status()).notes == [
            "the approval of test.disks.wipe (c1) is void, and the call did not run: changed since it was shown: "
            + changes[0]
        ]
        with pytest.raises(AwaitClosed, match="confirm-c1#2"):
            await here.run.approve(here.wait)
        await here.run.approve(again)
        assert (await here.run.result()).text.startswith("wiped a")
    assert len(done) == 1
    events = [event async for event in here.run.events()]
    kinds = [event.type for event in events]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 1
    assert kinds.count("await_confirmation") == kinds.count("await_answered") == 2
    assert next(event.text for event in events if event.type == "planner_note").startswith("the approval of")
    assert await traces(here.run).failed_tasks() == []


async def test_a_changed_tool_may_be_denied(deployed, status_when, traces):
    """A denial of the new question answers the call; its start is told once."""
    done: list[str] = []
    here = await deployed(release(done))
    async with Worker(release(done, open_world=True), here.client):
        await void(here.run, here.wait)
        await here.run.deny(await asked_again(status_when, here.run), "not out there")
        assert (await here.run.result()).text == "denied: not out there"
    assert done == []
    kinds = [event.type async for event in here.run.events()]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 1
    assert await traces(here.run).failed_tasks() == []


async def test_a_run_is_canceled_while_it_asks_again(deployed, status_when, traces):
    """The call is answered as canceled, and did not run."""
    done: list[str] = []
    here = await deployed(release(done))
    async with Worker(release(done, open_world=True), here.client):
        await void(here.run, here.wait)
        await asked_again(status_when, here.run)
        await here.run.cancel("enough")
        with pytest.raises(Exception, match="enough"):
            await here.run.result()
    assert done == []
    kinds = [event.type async for event in here.run.events()]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 1


async def test_a_call_that_does_not_fit_the_changed_tool_is_answered(deployed, traces):
    """Nobody is asked about arguments that the tool refuses; the planner gets what was changed, and the hint."""
    done: list[str] = []
    here = await deployed(release(done))
    disks = Toolset("test.disks")

    @disks.tool(destructive=True)
    async def wipe(disk: int) -> str:
        """Wipe a disk."""
        done.append(str(disk))
        return "wiped"

    now = App(agents=[Agent("test.agent", planner=planner(), uses=[disks], policy=ASKS)])
    async with Worker(now, here.client):
        assert (await void(here.run, here.wait)).await_id is None
        text = (await here.run.result()).text
    assert "changed since this call was shown for approval (arguments: disk changed)" in text
    assert done == []
    (end,) = [event async for event in here.run.events() if event.type == "tool_end"]
    assert end.retry_hint.reason == "invalid_arguments"
    assert await traces(here.run).failed_tasks() == []


async def test_a_tool_that_is_gone_is_said_to_be_gone(deployed, traces):
    """The call of a tool that the deploy removed is answered with an error that says so."""
    done: list[str] = []
    here = await deployed(release(done))
    now = App(agents=[Agent("test.agent", planner=planner(), policy=ASKS)])
    async with Worker(now, here.client):
        assert "(the tool is gone)" in str(await void(here.run, here.wait))
        assert "(the tool is gone), so that the call did not run" in (await here.run.result()).text
    assert done == []
    assert await traces(here.run).failed_tasks() == []


async def test_a_void_approval_cannot_be_repeated_where_nobody_is_asked_again(deployed, status_when, traces):
    """Each repetition, by a client or by a signal, is refused while the run goes on."""
    here = await deployed(release([]))
    ask = PlanResult(await_=AwaitClarification(question="Which disk then?"))
    now = App(
        agents=[
            Agent("test.agent", planner=ScriptedPlanner([PlanResult.calls(WIPE), ask, report]), policy=ASKS)
        ]
    )
    answer = {"id": here.wait.id, "approved": True, "payload_digest": here.wait.payload_digest}
    async with Worker(now, here.client):
        assert "(the tool is gone)" in str(await void(here.run, here.wait))
        await asked_again(status_when, here.run, "question")
        for _ in range(2):
            with pytest.raises(ApprovalVoid, match=r"the approval is void: .* was changed since"):
                await here.run.approve(here.wait)
        await traces(here.run).handle.signal("provide_confirmation", answer)
        status = await status_when(here.run, lambda status: status.notes)
        assert status.notes == [
            "answer refused: confirm-c1 is void: the tool was changed since it was shown, and the call did not run"
        ]
        notes = [event.text async for event in here.run.events(follow=False) if event.type == "planner_note"]
        assert notes == status.notes
        await here.run.answer("question", "none")
        await here.run.result()
    assert await traces(here.run).failed_tasks() == []


async def test_a_tool_that_changes_at_every_deploy_is_asked_about_three_more_times(
    deployed, status_when, traces
):
    """After the third void approval in addition to the first, the call is answered with what was changed."""
    done: list[str] = []
    here = await deployed(release(done))
    wait = here.wait
    for number in range(2, 6):
        async with Worker(release(done, open_world=number % 2 == 0), here.client):
            assert (await void(here.run, wait)).await_id == (None if number == 5 else f"confirm-c1#{number}")
            if number == 5:
                text = (await here.run.result()).text
                break
            wait = await asked_again(status_when, here.run, f"confirm-c1#{number}")
    assert "open_world: yes → no" in text
    assert done == []
    assert await traces(here.run).failed_tasks() == []


async def test_an_approval_for_the_run_covers_the_tool_as_it_was_shown(deployed, status_when, traces):
    """After a deploy that changes the tool, a person is asked about it once more, and about its later calls."""
    done: list[str] = []
    steps = ([WIPE], [WIPE.model_copy(update={"tool_call_id": "c2"})])
    here = await deployed(release(done, steps=steps))
    async with Worker(release(done, steps=steps), here.client):
        await here.run.approve(here.wait, for_run=True)
        assert (await here.run.result()).text == "wiped a | wiped a"
    here = await deployed(release(done, steps=steps))
    async with Worker(release(done, steps=steps, open_world=True), here.client):
        await void(here.run, here.wait, for_run=True)
        again = await asked_again(status_when, here.run)
        await here.run.approve(again)
        later = await asked_again(status_when, here.run, "confirm-c2")
        await here.run.approve(later, for_run=True)
        assert (await here.run.result()).text == "wiped a | wiped a"
    assert await traces(here.run).failed_tasks() == []


@pytest.mark.parametrize("named", ["test.disks.*", "test.disks.wipe"])
async def test_a_tool_that_is_released_by_its_name_is_asked_about_once_it_was_changed(
    deployed, status_when, traces, named
):
    """`stop_asking` holds for a tool as it was; a release of the changed tool lets its further calls run unasked."""
    done: list[str] = []
    steps = ([WIPE], [WIPE.model_copy(update={"tool_call_id": "c2"})])
    here = await deployed(release(done, steps=steps))
    async with Worker(release(done, steps=steps, open_world=True), here.client):
        await here.run.stop_asking(named)
        again = await asked_again(status_when, here.run)
        assert (done, again.changes) == ([], ["open_world: not declared → yes"])
        await here.run.stop_asking(named)
        assert (await here.run.result()).text == "wiped a | wiped a"
        await traces(here.run).check()
    assert done == ["a", "a"]


async def test_a_release_by_name_holds_for_the_tool_that_ran_by_it(temporal_address, status_when, traces):
    """If no call had shown the tool, the release holds for what it was when it first ran by it."""
    done: list[str] = []
    later = WIPE.model_copy(update={"tool_call_id": "c2"})
    steps = (PlanResult.ask("First?"), [WIPE], PlanResult.ask("Second?"), [later])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")

    async def answer(question: str) -> None:
        await status_when(
            run, lambda status: [getattr(w, "question", "") for w in status.awaits] == [question]
        )
        await run.answer("yes")

    async with Worker(release(done, steps=steps), client):
        run = await client.start("test.agent", "go")
        await status_when(run, lambda status: status.awaits)
        await run.stop_asking("test.disks.*")
        await answer("First?")
        await status_when(run, lambda status: done and status.awaits)
    async with Worker(release(done, steps=steps, open_world=True), client):
        await answer("Second?")
        wait = await asked_again(status_when, run, "confirm-c2")
        assert done == ["a"]
        await run.approve(wait)
        assert (await run.result()).text == "wiped a | wiped a"
        await traces(run).check()


async def test_a_signal_is_no_exception(deployed, status_when, traces):
    """An approval by signal, as from Temporal's own tools, is void after a deploy too."""
    done: list[str] = []
    here = await deployed(release(done))
    handle = traces(here.run).handle
    answer = {"id": here.wait.id, "approved": True, "payload_digest": here.wait.payload_digest}
    async with Worker(release(done, open_world=True), here.client):
        await handle.signal("provide_confirmation", answer)
        again = await asked_again(status_when, here.run)
        await handle.signal("provide_confirmation", answer)
        await status_when(here.run, lambda status: any("is void, since" in note for note in status.notes))
        assert done == []
        await handle.signal("provide_confirmation", {**answer, "id": again.id})
        assert (await here.run.result()).text == "wiped a"
    assert done == ["a"]


async def test_a_child_runs_call_is_asked_about_again(deployed, status_when, traces):
    """The call of a child run is asked about again in the child run."""
    done: list[str] = []

    def nested(**options: Any) -> App:
        child = release(done, **options).agent("test.agent")
        child = Agent("test.child", planner=child.planner, uses=child.uses, policy=ASKS)
        ask = child.export("test.below", tools=[AgentTool("ask", args=Question)])
        calls = [ToolRequest(name="test.below.ask", payload={"text": "wipe"}, tool_call_id="p1")]
        top = Agent("test.agent", planner=planner(calls), uses=[ask], policy=ASKS)
        return App(agents=[top, child])

    here = await deployed(nested())
    async with Worker(nested(open_world=True), here.client):
        await void(here.waiting, here.wait)
        again = await asked_again(status_when, here.waiting)
        assert done == []
        await here.waiting.approve(again)
        assert (await here.run.result()).text == "wiped a"
    assert done == ["a"]


async def test_a_local_call_is_asked_about_again(deployed, status_when, traces):
    """A call that runs as a local activity is asked about again too, and its start is told once."""
    done: list[str] = []
    here = await deployed(release(done, local=True, idempotent=True))
    async with Worker(release(done, local=True, idempotent=True, open_world=True), here.client):
        await void(here.run, here.wait)
        await here.run.approve(await asked_again(status_when, here.run))
        assert (await here.run.result()).text == "wiped a"
    assert done == ["a"]
    kinds = [event.type async for event in here.run.events()]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 1
    assert await traces(here.run).failed_tasks() == []


async def test_an_approval_is_checked_before_a_paused_run_goes_on(deployed, traces):
    """The sender learns of a changed tool at once, although the call would begin only after the pause."""
    done: list[str] = []
    here = await deployed(release(done))
    async with Worker(release(done, open_world=True), here.client):
        await here.run.pause()
        assert (await void(here.run, here.wait)).changes == ["open_world: not declared → yes"]
        assert (await here.run.status()).paused is not None
        await here.run.resume()
        await here.run.approve()
        assert (await here.run.result()).text == "wiped a"
    assert done == ["a"]
    assert await traces(here.run).failed_tasks() == []


async def test_temporals_own_update_is_told_too(deployed, traces):
    """An update by any Temporal client fails with what was changed and what to decide on now."""
    here = await deployed(release([]))
    answer = {"id": here.wait.id, "approved": True, "payload_digest": here.wait.payload_digest}
    async with Worker(release([], open_world=True), here.client):
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await traces(here.run).handle.execute_update("provide_confirmation", answer)
        assert "open_world: not declared → yes" in str(failed.value.cause)
        assert "look at confirm-c1#2" in str(failed.value.cause)


@pytest.mark.parametrize("options", [{}, {"local": True, "idempotent": True}], ids=["activity", "local"])
async def test_a_deploy_between_approval_and_call_is_noticed_by_the_call(deployed, status_when, options):
    """The approval held when it arrived; the call itself compares again, and the person is asked again."""
    done: list[str] = []
    here = await deployed(release(done, **options))
    async with Worker(release(done, **options), here.client):
        await here.run.pause()
        await here.run.approve(here.wait)
    async with Worker(release(done, open_world=True, **options), here.client):
        await here.run.resume()
        again = await asked_again(status_when, here.run)
        assert (done, again.changes) == ([], ["open_world: not declared → yes"])
        await here.run.approve(again)
        assert (await here.run.result()).text == "wiped a"
    assert done == ["a"]
    kinds = [event.type async for event in here.run.events()]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 1


ANA, FIN, CEO = (
    Principal(subject=name, roles=roles)
    for name, roles in (("ana", ["user"]), ("fin", ["finance"]), ("cleo", ["ceo"]))
)
PAY = ToolRequest(name="pay.desk.pay", payload={"text": "7"}, tool_call_id="c1")


def with_payer(done: list[str], *, agent_id: str = "pay.agent", **options: Any) -> App:
    """A release in which a call is a child run of another agent."""

    async def pay(turn):
        done.append(turn.messages[-1].text)
        return PlanResult.final("paid")

    payer = Agent(agent_id, planner=pay, description="Pay.")
    desk = payer.export("pay.desk", tools=[AgentTool("pay", args=Question, user=lambda q: q.text, **options)])
    return App(agents=[Agent("test.agent", planner=planner([PAY]), uses=[desk], policy=ASKS), payer])


@pytest.mark.parametrize("when", ["before the approval", "after it"])
async def test_a_changed_call_of_an_agent_is_asked_about_again(deployed, status_when, traces, when):
    """A deploy voids the approval of an agent's call by the rule of all calls, also while the approved call waits to begin."""
    done: list[str] = []
    here = await deployed(with_payer(done, approvers=["finance"]))
    if when == "after it":
        async with Worker(with_payer(done, approvers=["finance"]), here.client):
            await here.run.pause()
            await here.run.approve(here.wait, principal=FIN)
    async with Worker(with_payer(done, approvers=["ceo"], four_eyes=True), here.client):
        if when == "after it":
            await here.run.resume()
        else:
            told = await void(here.run, here.wait, principal=FIN)
            assert "approvers: finance → ceo" in str(told)
        again = await asked_again(status_when, here.run)
        assert (again.approvers, again.four_eyes, done) == (["ceo"], True, [])
        with pytest.raises(NotApprover):
            await here.run.approve(again, principal=FIN)
        await here.run.approve(again, principal=CEO)
        assert (await here.run.result()).text == "paid"
        events = [event async for event in here.run.events()]
        kinds = [event.type for event in events]
        assert kinds.count("await_confirmation") == 2
        assert kinds.count("tool_start") == kinds.count("tool_end") == 1
        await traces(here.run).check()
    assert done == ["7"]


async def test_a_call_of_another_agent_by_now_does_not_run(deployed, traces):
    """The run would start the agent of its plan, so nobody is asked about the other one: the planner calls again."""
    done: list[str] = []
    here = await deployed(with_payer(done, approvers=["finance"]))
    async with Worker(with_payer(done, agent_id="pay.other", approvers=["finance"]), here.client):
        assert (await void(here.run, here.wait, principal=FIN)).await_id is None
        assert "agent: pay.agent → pay.other" in (await here.run.result()).text
        await traces(here.run).check()
    assert done == []
