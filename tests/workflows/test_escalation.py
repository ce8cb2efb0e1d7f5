"""Calls without a decision: after a time they are announced again, and further roles may decide, over executions too."""

from datetime import timedelta

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    ApprovalRule,
    PlanResult,
    Principal,
    RunPolicy,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.answers import wait_view
from sojourn.errors import DefinitionError, NotApprover
from sojourn.testing import skip_time
from tests.workflows.test_endless import flood, same_from_both_ends, short

__all__ = ["short"]

DAY = timedelta(days=1)


def person(subject: str, *roles: str) -> Principal:
    return Principal(subject=subject, tenant="acme", roles=list(roles or ["approver"]))


ANA, KIM, ASKER = person("ana"), person("kim", "director"), person("asker", "user", "director")

tools = Toolset("late.tools")


@tools.tool(destructive=True, four_eyes=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"wiped {disk}"


async def plan(turn: Turn) -> PlanResult:
    """Wipe a disk, and report what came of it."""
    if turn.tool_results:
        return PlanResult.final(" | ".join(str(each.error or each.result) for each in turn.results))
    return PlanResult.calls(ToolRequest(name=wipe.id, payload={"disk": "a"}, tool_call_id="c1"))


TOLD = []


async def tell(notice) -> None:
    TOLD.append(notice)


def serving(**approval) -> App:
    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(**approval))
    return App(agents=[Agent("late.agent", planner=plan, uses=[tools], policy=policy)], on_wait=tell)


@pytest.fixture(autouse=True)
def nothing_told():
    TOLD.clear()


async def start(client):
    run = await client.start("late.agent", "go", principal=ASKER)
    await run.until_waiting()
    return run


async def only(run):
    (wait,) = (await run.status()).awaits
    return wait


async def test_a_further_role_decides_after_a_time(serve, until, traces):
    """Before it is refused; then it may decide, the wait says so, and it is announced once more, with the roles."""
    client = await serve(serving(escalate_after=timedelta(seconds=2), escalate_to=["director"]))
    run = await start(client)
    wait = await only(run)
    assert (wait.escalate_after, wait.escalate_to, wait.escalated) == (
        timedelta(seconds=2),
        ["director"],
        False,
    )
    assert wait_view(wait, run.id).escalation == "escalates to director 2.0 s after it was asked"
    with pytest.raises(NotApprover, match="kim does not have the role approver"):
        await run.approve(wait, principal=KIM)
    await until(lambda: len(TOLD) == 2)
    late = await only(run)
    assert (late.id, late.escalated) == (wait.id, True)
    assert [(each.id, each.escalated, each.escalated_to) for each in TOLD] == [
        (f"{run.id}/wait/{wait.id}", False, []),
        (f"{run.id}/wait/{wait.id}/escalated", True, ["director"]),
    ]
    with pytest.raises(NotApprover, match="asker asked for this call"):
        await run.approve(late, principal=ASKER)
    await run.approve(wait, principal=KIM)
    assert (await run.result()).text == "wiped a"
    events = [event async for event in run.events()]
    (escalated,) = [event for event in events if event.type == "approval_escalated"]
    (asked,) = [event for event in events if event.type == "await_confirmation"]
    assert timedelta(seconds=2) <= escalated.time - asked.time < timedelta(seconds=30)
    assert (escalated.await_id, escalated.confirmation.escalate_to) == (wait.id, ["director"])
    await traces(run).check()


async def test_who_decides_at_first_still_may(serve, until):
    """A role that is added takes nobody's away; without roles the call is only announced again."""
    client = await serve(serving(escalate_after=timedelta(seconds=1)))
    run = await start(client)
    await until(lambda: len(TOLD) == 2)
    with pytest.raises(NotApprover):
        await run.approve(await only(run), principal=KIM)
    await run.approve(await only(run), principal=ANA)
    assert (await run.result()).text == "wiped a"


async def test_the_further_role_takes_any_step(serve, until):
    """It may approve in place of the role that is next, as one of the people."""
    rule = ApprovalRule(tools=["late.tools.*"], steps=["lead", "finance"])
    client = await serve(serving(rules=[rule], escalate_after=timedelta(seconds=1), escalate_to=["director"]))
    run = await start(client)
    await run.approve(await only(run), principal=person("lee", "lead"))
    await until(lambda: len(TOLD) == 2)
    await run.approve(await only(run), principal=KIM)
    assert (await run.result()).text == "wiped a"


async def test_it_escalates_by_its_first_day_over_executions(short, serve):
    """The time that is left goes on over executions, and so does the escalation; the expiry after it counts from the first day too."""
    client = await serve(serving(expires_after=10 * DAY, escalate_after=4 * DAY, escalate_to=["director"]))
    run = await start(client)
    await flood(run, 30)
    await skip_time(run, 3 * DAY)
    await flood(run, 30, start=30)
    assert not (await only(run)).escalated
    await skip_time(run, 2 * DAY)
    assert (await only(run)).escalated
    await flood(run, 30, start=60)
    assert (await only(run)).escalated
    await same_from_both_ends(client, run.id)
    await skip_time(run, 6 * DAY)
    assert "nobody approved it in time" in (await run.result()).text
    events = [event async for event in run.events()]
    asked, late, ended = (
        next(event.time for event in events if event.type == kind)
        for kind in ("await_confirmation", "approval_escalated", "await_answered")
    )
    assert 4 * DAY <= late - asked < 4 * DAY + timedelta(minutes=5)
    assert 10 * DAY <= ended - asked < 10 * DAY + timedelta(minutes=5)
    assert [event.type for event in events].count("run_continued") >= 2
    assert [event.type for event in events].count("approval_escalated") == 1


def test_roles_need_a_time():
    """`escalate_to` without `escalate_after` would never count."""
    with pytest.raises(DefinitionError, match="escalate_to needs escalate_after"):
        serving(escalate_to=["director"])
