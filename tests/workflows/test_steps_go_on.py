"""A long run goes on in a new execution while calls of a step wait: for approvals, forms and results from outside."""

import asyncio
import contextlib
import random
import uuid
from datetime import timedelta

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    AwaitClosed,
    InputForm,
    InputRequired,
    InvalidInput,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Turn,
)
from sojourn.errors import ApprovalVoid, RunCanceled, StaleDigest
from sojourn.testing import skip_time
from tests.workflows.test_endless import flood, same_from_both_ends, short
from tests.workflows.test_external import warehouse

__all__ = ["short"]

POLICY = RunPolicy(
    max_tool_calls=100_000,
    max_tool_rounds=100_000,
    interrupts_allowed=True,
    max_parallel_calls=64,
    max_calls_per_step=64,
)
FORM = {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]}
STEPS = 5
"""Steps of ten calls that are decided on; a campaign takes 20."""

done: list[str] = []

tools = Toolset("step.tools")


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    done.append(f"wipe {disk}")
    return f"wiped {disk}"


@tools.tool
async def look(disk: str) -> str:
    """Look at a disk."""
    done.append(f"look {disk}")
    return f"looked at {disk}"


@tools.tool
async def book(meta: ToolCallMeta, day: str) -> ToolResult:
    """Ask for two hours, one form after the other."""
    if meta.input is None:
        done.append(f"ask {day}")
        forms = [InputForm(key=key, message=f"{key}?", form=FORM) for key in ("from", "to")]
        return ToolResult(input_required=InputRequired(forms=forms))
    hours = [meta.input.responses[key]["content"]["hour"] for key in ("from", "to")]
    done.append(f"book {day} {hours}")
    return ToolResult(result=f"booked {day} {hours}")


@tools.tool(destructive=True)
async def reserve(meta: ToolCallMeta, day: str) -> ToolResult:
    """Ask for an hour, once a person has approved the day."""
    if meta.input is None:
        done.append(f"ask {day}")
        return ToolResult(input_required=InputRequired(forms=[InputForm(key="at", message="at?", form=FORM)]))
    done.append(f"reserve {day} {meta.approval.edited}")
    return ToolResult(result=f"reserved {day} at {meta.input.responses['at']['content']['hour']}")


def call(name: str, id: str, **payload: str) -> ToolRequest:
    return ToolRequest(name=name, payload=payload, tool_call_id=id)


def planning(*steps: list[ToolRequest]):
    """A planner of these steps, which answers with all results."""

    async def plan(turn: Turn) -> PlanResult:
        made = sum(1 for message in turn.messages if message.tool_calls)
        if made < len(steps):
            return PlanResult.calls(*steps[made])
        return PlanResult.final(" | ".join(str(result.error or result.result) for result in turn.results))

    return plan


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


async def serving(serve, *steps: list[ToolRequest]):
    agent = Agent("test.agent", planner=planning(*steps), uses=[tools, warehouse()], policy=POLICY)
    return await serve(App(agents=[agent]))


WIPE = call("step.tools.wipe", "c1", disk="a")


async def test_an_approval_stays_open_over_executions(short, serve, status_when):
    """It keeps its id; its one decision is used once, and refused with a reason when it differs from the first."""
    client = await serving(serve, [WIPE])
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    await flood(run, 30)
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    await same_from_both_ends(client, run.id)
    await run.approve(wait, by="ana")
    await run.approve(wait, by="ana")
    with pytest.raises(AwaitClosed):
        await run.deny(wait)
    assert (await run.result()).text == "wiped a"
    assert done == ["wipe a"]
    events = [event async for event in run.events()]
    kinds = [event.type for event in events]
    # How many executions there are depends on how many messages a workflow task takes.
    assert "run_continued" in kinds
    assert [
        kinds.count(kind) for kind in ("await_confirmation", "await_answered", "tool_start", "tool_end")
    ] == [1] * 4
    assert (await same_from_both_ends(client, run.id)).executions == kinds.count("run_continued")


async def test_an_edit_of_an_approver_lasts_over_executions(short, serve, status_when):
    """The call that was edited asks for input, the run goes on meanwhile, and the call ends with the edited arguments."""
    client = await serving(
        serve, [call("step.tools.reserve", "c1", day="monday"), call("step.tools.wipe", "c2", disk="a")]
    )
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: len(status.awaits) == 2)
    await run.approve("confirm-c1", arguments={"day": "friday"}, by="ana")
    await status_when(run, lambda status: any(wait.id == "input-c1" for wait in status.awaits))
    await flood(run, 30)
    await same_from_both_ends(client, run.id)
    await run.answer("input-c1", {"hour": 9})
    await status_when(run, lambda status: len(status.awaits) == 1)
    await flood(run, 30)
    await same_from_both_ends(client, run.id)
    await run.approve((await run.status()).awaits[0])
    assert (await run.result()).text == "reserved friday at 9 | wiped a"
    assert done == ["ask friday", "reserve friday True", "wipe a"]
    (results,) = [message for message in await run.transcript() if message.role == "tool"]
    assert [each.edited_arguments for each in results.tool_results] == [{"day": "friday"}, None]
    assert [event.type async for event in run.events()].count("run_continued") >= 2


MIXED = [
    call("step.tools.look", "c1", disk="a"),
    call("step.tools.wipe", "c2", disk="b"),
    call("test.warehouse.pick", "c3", shelf="s"),
    call("step.tools.book", "c4", day="monday"),
    call("test.warehouse.pick", "c5", shelf="t"),
]


async def test_all_kinds_of_waits_of_a_step(short, serve, status_when):
    """Finished calls are not executed again, each wait gets its answer, and the results come in call order."""
    client = await serving(serve, MIXED)
    run = await client.start("test.agent", "go")
    await status_when(
        run, lambda status: len(status.awaits) == 3 and sorted(done) == ["ask monday", "look a"]
    )
    waits = {wait.id for wait in (await run.status()).awaits}
    await flood(run, 30)
    assert {wait.id for wait in (await run.status()).awaits} == waits
    await same_from_both_ends(client, run.id)
    await run.provide_tool_results(None, [{"tool_call_id": "c3", "result": {"count": 3}}])
    await run.answer("input-c4", {"hour": 9})
    await flood(run, 30)
    await same_from_both_ends(client, run.id)
    second = await status_when(run, lambda status: {each.id for each in status.awaits} - waits)
    (form,) = {wait.id for wait in second.awaits} - waits
    await run.answer(form, {"hour": 10})
    await run.deny("confirm-c2", "not now")
    await flood(run, 30)
    await run.provide_tool_results(None, [{"tool_call_id": "c5", "result": {"count": 5}}])
    text = (await run.result()).text
    assert text.startswith("looked at a | ")
    assert "not now" in text
    assert text.endswith("{'count': 3} | booked monday [9, 10] | {'count': 5}")
    assert sorted(done) == ["ask monday", "book monday [9, 10]", "look a"]
    kinds = [event.type async for event in run.events()]
    assert kinds.count("run_continued") >= 4
    assert kinds.count("tool_start") == kinds.count("tool_end") == 5
    messages = await run.transcript()
    assert [len(message.tool_results) for message in messages if message.role == "tool"] == [5]


async def test_the_transcript_while_calls_wait(short, serve, status_when):
    """It has the results of the calls that have ended."""
    client = await serving(serve, MIXED)
    run = await client.start("test.agent", "go")
    await status_when(
        run, lambda status: len(status.awaits) == 3 and sorted(done) == ["ask monday", "look a"]
    )
    await flood(run, 30)
    last = (await run.transcript())[-1]
    assert [result.result for result in last.tool_results] == ["looked at a"]
    await run.cancel("enough")
    with pytest.raises(RunCanceled):
        await run.result()
    kinds = [event.type async for event in run.events()]
    assert kinds.count("tool_start") == kinds.count("tool_end") == 5


async def test_an_approval_expires_by_its_first_day(short, serve, status_when):
    """The time that is left goes on over executions."""
    agent = Agent(
        "test.agent",
        planner=planning([WIPE]),
        uses=[tools],
        policy=POLICY.model_copy(update={"approval": ApprovalPolicy(expires_after=timedelta(days=10))}),
    )
    client = await serve(App(agents=[agent]))
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert wait.expires_after == timedelta(days=10)
    began = (await anext(run.events(follow=False))).time
    await flood(run, 30)
    await skip_time(run, timedelta(days=6))
    await flood(run, 30, start=30)
    await skip_time(run, timedelta(days=5))
    assert "wiped" not in (await run.result()).text
    events = [event async for event in run.events()]
    ended = next(event for event in events if event.type == "await_answered")
    assert timedelta(days=10) <= ended.time - began < timedelta(days=10, minutes=5)
    assert [event.type for event in events].count("run_continued") >= 2
    assert done == []


async def test_answers_sent_just_while_a_run_goes_on(short, serve, status_when):
    """Of 80 calls each is decided on once, while signals let the run go on all the time; none is lost or used twice."""
    steps = [
        [call("step.tools.wipe", f"c{step}-{each}", disk=f"{step}-{each}") for each in range(10)]
        for step in range(STEPS)
    ]
    client = await serving(serve, *steps)
    run = await client.start("test.agent", "go")
    dice, refused = random.Random(1), 0
    approved: set[str] = set()

    async def decide(await_id: str) -> None:
        nonlocal refused
        await asyncio.sleep(dice.random() / 10)
        if dice.random() < 0.3:
            await run.client.temporal.get_workflow_handle(run.id).signal(
                "stop_asking", {"tools": ["none.at.all"]}
            )
        if dice.random() < 0.7:
            await run.approve(await_id)
            approved.add(await_id.removeprefix("confirm-c"))
        else:
            await run.deny(await_id, "no")
        try:
            await run.approve(await_id, payload_digest="wrong")
        except (AwaitClosed, StaleDigest):
            refused += 1

    for step in range(STEPS):
        ids = {f"confirm-c{step}-{each}" for each in range(10)}
        await status_when(run, lambda status, ids=ids: {wait.id for wait in status.awaits} == ids)
        await asyncio.gather(*(decide(each) for each in ids))
    output = await run.result()
    assert output.tool_calls == 10 * STEPS
    assert sorted(done) == sorted(f"wipe {each}" for each in approved)
    assert refused == 10 * STEPS
    kinds = [event.type async for event in run.events()]
    assert kinds.count("await_confirmation") == kinds.count("await_answered") == 10 * STEPS
    assert kinds.count("run_continued") >= STEPS


async def test_a_changed_tool_is_asked_about_again_over_executions(
    short, serve, temporal_address, status_when
):
    """A void approval stays void in later executions, and the call is carried out once, by the second approval."""
    from sojourn import Client, Worker

    def release(**options) -> App:
        disks = Toolset("step.tools")

        async def wipe(disk: str) -> str:
            done.append(disk)
            return f"wiped {disk}"

        disks.tool(name="wipe", destructive=True, description="Wipe a disk.", **options)(wipe)
        return App(agents=[Agent("test.agent", planner=planning([WIPE]), uses=[disks], policy=POLICY)])

    client = await Client.connect(temporal_address, task_queue="steps-go-on")
    async with Worker(release(), client):
        run = await client.start("test.agent", "go")
        (first,) = (await status_when(run, lambda status: status.awaits)).awaits
        await flood(run, 30)
    async with Worker(release(open_world=True), client):
        with pytest.raises(ApprovalVoid):
            await run.approve(first)
        (again,) = (
            await status_when(run, lambda status: [w.id for w in status.awaits] == ["confirm-c1#2"])
        ).awaits
        await flood(run, 30)
        with pytest.raises((ApprovalVoid, AwaitClosed)):
            await run.approve(first)
        await run.approve(again)
        assert (await run.result()).text == "wiped a"
    assert done == ["a"]
    notes = [
        event.text async for event in run.events() if event.type == "planner_note" and "changed" in event.text
    ]
    assert len(notes) == 1
    status = await run.status()
    assert sum("changed" in each for each in status.notes) <= 1


@pytest.mark.parametrize(
    ("past", "external"),
    [
        ([], ""),
        ([{}], ""),
        ([{}, {}, {}], ""),
        ([{"decided": {"await_id": "x", "approved": True, "reason": "", "by": None}}], ""),
        ([{}], "nothing"),
        ([{}], "confirm-c2"),
    ],
)
async def test_a_step_that_somebody_made_up_wedges_nothing(short, serve, status_when, past, external):
    """A start with the state of a step that never was ends; each of its calls is answered."""
    client = await serving(serve, MIXED)
    plan = {"calls": [each.model_dump(mode="json", exclude_defaults=True) for each in MIXED[:3]]}
    plan["dispatches"] = [{}, {}, {"kind": "external"}]
    calls = {each.tool_call_id: {"since": "2026-01-01T00:00:00Z", "past": past} for each in MIXED[:3]}
    opening = {"agent_id": "test.agent", "messages": []}
    state = {
        "opening": opening,
        "plans": 1,
        "is_policy_known": True,
        "policy": POLICY.model_dump(mode="json"),
    }
    step = {"calls": calls, "external": external, "opened": {"nothing": "2026-01-01T00:00:00Z"}}
    handle = await client.temporal.start_workflow(
        "AgentRun",
        {"continued": {"state": state, "waits_for": plan, "step": step, "transcript": []}},
        id=f"odd-{uuid.uuid4().hex}",
        task_queue=client.task_queue,
    )
    run = client.get_run(handle.id)
    ended = asyncio.create_task(run.result())
    while not ended.done():
        for wait in (await run.status()).awaits:
            with contextlib.suppress(AwaitClosed, InvalidInput):
                if wait.id.startswith("confirm"):
                    await run.approve(wait.id)
                elif wait.id.startswith("input"):
                    await run.answer(wait.id, {"hour": 1})
                else:
                    results = [
                        {"tool_call_id": item.tool_call_id, "result": {"count": 1}} for item in wait.items
                    ]
                    await run.provide_tool_results(wait.id, results)
        await asyncio.sleep(0.02)
    assert (await ended).reason == "answered"
