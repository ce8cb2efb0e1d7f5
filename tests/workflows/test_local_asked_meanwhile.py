"""Queries while local activities run: each may split a workflow task, and the history replays all the same.

The SDK answers a query that comes while a local activity runs by ending the workflow task, where the result may be recorded, and
is not yet delivered. The workflow gets the result in the next task, with its messages; a replay delivers it where it is recorded.
"""

import asyncio
import contextlib
import importlib
import os
import random
from datetime import timedelta

from temporalio.service import RPCError
from temporalio.workflow import NondeterminismError

from sojourn import Agent, App, PlanResult, RunPolicy, SojournError, Toolset, Turn
from sojourn.contracts.run import RunStatus
from tests.chain import replay

local_plan = importlib.import_module("workflows.local_plan")
check_approval = importlib.import_module("activities.approvals")
room = importlib.import_module("workflows.history_budget")

CASES = int(os.environ.get("SOJOURN_CASES", "3"))
ROUNDS = 12

tools = Toolset("test.near")


@tools.tool(local=True, read_only=True)
async def pause(seconds: float) -> float:
    """Return after some time."""
    await asyncio.sleep(seconds)
    return seconds


@tools.tool
async def far(seconds: float) -> float:
    """Return after some time, in an ordinary activity."""
    await asyncio.sleep(seconds)
    return seconds


async def plan(turn: Turn) -> PlanResult:
    """Call one to three tools, mostly local ones, `ROUNDS` times."""
    done = sum(message.role == "tool" for message in turn.messages)
    if done == ROUNDS:
        return PlanResult.final(f"{done} rounds")
    dice = random.Random(f"{turn.run.run_id} {done}")
    calls = [
        (pause if dice.random() < 0.7 else far).call(seconds=dice.choice([0, 0, 0.001, 0.004]))
        for _ in range(dice.randint(1, 3))
    ]
    return PlanResult.calls(*calls)


async def test_a_run_that_is_asked_all_the_time_replays(serve, monkeypatch):
    """Each execution of a run of local turns and calls replays, whichever of its workflow tasks a query has split."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 40)
    monkeypatch.setattr(local_plan, "LONGEST", timedelta(seconds=0.1))
    policy = RunPolicy(max_tool_rounds=1_000, max_tool_calls=1_000)
    app = App(
        agents=[
            Agent("test.agent", planner=plan, uses=[tools], policy=policy, local=True),
            Agent("test.other", planner=plan, uses=[tools], policy=policy),
        ]
    )
    client = await serve(app)

    async def asked(run, is_over: asyncio.Event) -> None:
        handle = client.temporal.get_workflow_handle(run.id)
        while not is_over.is_set():
            with contextlib.suppress(RPCError):  # a query that waits for too long
                await handle.query("status", result_type=RunStatus, rpc_timeout=timedelta(seconds=3))
            await asyncio.sleep(random.random() / 100)

    async def told(run, is_over: asyncio.Event) -> None:
        handle = client.temporal.get_workflow_handle(run.id)
        while not is_over.is_set():
            with contextlib.suppress(RPCError, SojournError):  # the run has ended, or goes on just now
                await handle.signal("of-no-meaning")
                await run.stop_asking("test.near.far")
            await asyncio.sleep(random.random() / 10)

    faults: list[str] = []
    for case in range(CASES):
        run = await client.start("test.agent" if case % 2 else "test.other", "go")
        is_over = asyncio.Event()
        asking = [asyncio.create_task(asked(run, is_over)) for _ in range(4)]
        asking += [asyncio.create_task(told(run, is_over))]
        assert (await run.result()).text == f"{ROUNDS} rounds"
        is_over.set()
        await asyncio.gather(*asking)
        faults += await not_replayed(client, run.id)
    assert faults == []


async def test_a_run_that_is_asked_while_its_approvals_are_checked_replays(serve, monkeypatch):
    """A message and a query while an approval is checked, whose sender waits for that, leave a history that replays."""
    guarded = Toolset("test.guarded")

    @guarded.tool(confirmation="Act on {number}?")
    async def act(number: int) -> int:
        """Return the number."""
        return number

    async def ask(turn: Turn) -> PlanResult:
        done = sum(message.role == "tool" for message in turn.messages)
        calls = [act.call(number=done + number) for number in range(3)]
        return PlanResult.final("done") if done >= ROUNDS // 2 else PlanResult.calls(*calls)

    voided = check_approval.check_shown

    async def slowly(*arguments):
        await asyncio.sleep(random.random() / 50)
        return await voided(*arguments)

    monkeypatch.setattr(check_approval, "check_shown", slowly)
    policy = RunPolicy(interrupts_allowed=True, max_tool_rounds=1_000, max_tool_calls=1_000)
    app = App(agents=[Agent("test.agent", planner=ask, uses=[guarded], policy=policy)])
    client = await serve(app)
    faults: list[str] = []
    for _ in range(max(1, CASES // 3)):
        run = await client.start("test.agent", "go")
        handle = client.temporal.get_workflow_handle(run.id)
        is_over = asyncio.Event()

        async def ask_status(handle=handle, is_over=is_over) -> None:
            while not is_over.is_set():
                with contextlib.suppress(RPCError):
                    await handle.query("status", result_type=RunStatus, rpc_timeout=timedelta(seconds=3))

        async def tell(handle=handle, is_over=is_over) -> None:
            while not is_over.is_set():
                with contextlib.suppress(RPCError):
                    await handle.signal("of-no-meaning")

        meddling = [asyncio.create_task(each()) for each in (ask_status, ask_status, tell)]
        async for event in run.events():
            if event.type == "await_confirmation":
                await run.approve(event.confirmation)
        assert (await run.result()).text == "done"
        is_over.set()
        await asyncio.gather(*meddling)
        history = await handle.fetch_history()  # of the last execution: signals make it go on
        names = [e.activity_task_scheduled_event_attributes.activity_type.name for e in history.events]
        assert "CheckApprovalActivity" in names
        markers = [e.marker_recorded_event_attributes.marker_name for e in history.events]
        assert "core_local_activity" not in markers
        faults += await not_replayed(client, run.id)
    assert faults == []


async def not_replayed(client, run_id: str) -> list[str]:
    """Why a run does not replay."""
    try:
        await replay(client.temporal, run_id)
    except NondeterminismError as error:
        return [f"{run_id}: {error}"[:300]]
    return []
