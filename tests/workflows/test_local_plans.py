"""Local planners: turns planned by local activities, within the workflow task of the step before."""

import asyncio
import importlib
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from temporalio import activity
from temporalio.api.enums.v1 import EventType

from activities.transcripts import Transcripts
from sojourn import Agent, App, PlanResult, RunPolicy, Toolset, Turn
from sojourn.errors import RunCanceled
from sojourn.testing import ScriptedPlanner
from tests.chain import replay

limits = importlib.import_module("activities.plan")
local_plan = importlib.import_module("workflows.local_plan")
room = importlib.import_module("workflows.history_budget")

tools = Toolset("test.near")
LONG = RunPolicy(max_tool_rounds=100_000, max_tool_calls=100_000)


@tools.tool(local=True, read_only=True)
async def double(n: int) -> int:
    """Double."""
    return 2 * n


@tools.tool
async def far(n: int) -> int:
    """Double, in an ordinary activity."""
    return 2 * n


@tools.tool(local=True, read_only=True)
async def fill(n: int) -> str:
    """Return almost as much as a local call may."""
    return f"{n}".ljust(49_000, "x")


@tools.tool(local=True, read_only=True)
async def note(text: str) -> int:
    """Return the number of characters."""
    return len(text)


def app_of(planner, policy: RunPolicy | None = None) -> App:
    return App(agents=[Agent("test.agent", planner=planner, uses=[tools], policy=policy, local=True)])


class Counting:
    """Calls a tool with 0, 1, ... `count` times, or until it is told to stop; notes where each turn was planned."""

    def __init__(self, count: int | None, calls=lambda n: [double.call(n=n)]) -> None:
        self.count, self.calls = count, calls
        self.local: list[bool] = []

    async def plan(self, turn: Turn) -> PlanResult:
        self.local.append(activity.info().is_local)
        done = sum(message.role == "tool" for message in turn.messages)
        told = [message.text for message in turn.messages if message.role == "user"]
        if done == self.count or told[-1] == "stop" or getattr(turn, "finalize", None):
            return PlanResult.final(f"{done} rounds")
        return PlanResult.calls(*self.calls(done))

    plan_start = plan_resume = plan


async def replayed(run) -> None:
    """Replay the run's history as a worker that takes it over does."""
    await replay(run.client.temporal, run.id)


async def test_after_the_first_turn_a_run_is_planned_locally(serve, traces):
    """A run of ten local calls schedules one activity, and its events, status and transcript are those of any run."""
    planner = Counting(10)
    client = await serve(app_of(planner))
    run = await client.start("test.agent", "go")
    output = await run.result()
    assert (output.text, output.tool_calls, output.rounds) == ("10 rounds", 10, 10)
    assert planner.local == [False] + [True] * 10
    assert await traces(run).count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1
    messages = await traces(run).check()
    assert messages == await run.transcript()
    kinds = [event.type async for event in run.events()]
    assert [kinds.count(each) for each in ("plan_started", "tool_start", "tool_end")] == [11, 10, 10]
    assert len({call.tool_call_id for call in (await run.status()).calls}) == 10
    await replayed(run)


async def test_an_agent_that_is_not_local_plans_in_activities(serve):
    """Without `local=True` every turn is an ordinary activity."""
    planner = Counting(3)
    client = await serve(planner=planner, uses=(tools,))
    await client.execute("test.agent", "go")
    assert planner.local == [False] * 4


async def test_a_slow_turn_is_planned_again_by_an_ordinary_activity(serve, monkeypatch, traces):
    """A local activity that takes too long is given up; the ordinary one has the policy's time, and the log says so."""
    monkeypatch.setattr(limits, "LOCAL_PLAN_LIMIT", timedelta(seconds=0.2))
    where = []

    async def slow(turn: Turn) -> PlanResult:
        where.append(activity.info().is_local)
        if len(where) == 2:
            await asyncio.Event().wait()
        await asyncio.sleep(0.3 if len(where) == 3 else 0)
        return PlanResult.calls(double.call(n=len(where)))

    steps = [slow, slow, slow, PlanResult.final("done")]
    client = await serve(app_of(ScriptedPlanner(steps)))
    with capture_logs() as logs:
        run = await client.start("test.agent", "go")
        assert (await run.result()).text == "done"
    assert where == [False, True, False, False]  # after a slow turn the next one is not local either
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
        "plan_retry",
        "local_planner_slow",
    ]
    await traces(run).check()


async def test_a_turn_without_its_transcript_is_planned_by_an_ordinary_activity(serve, monkeypatch, traces):
    """A worker that lacks the transcript asks the run for it, which a local activity cannot; the log has no warning."""
    monkeypatch.setattr(Transcripts, "keep", lambda *_args, **_options: None)
    planner = Counting(3)
    client = await serve(app_of(planner))
    with capture_logs() as logs:
        run = await client.start("test.agent", "go")
        assert (await run.result()).text == "3 rounds"
    assert planner.local == [False] * 4
    assert [line["event"] for line in logs if line["event"].startswith("plan_")] == ["plan_not_local"] * 3
    await traces(run).check()


@pytest.mark.parametrize("error", [ConnectionError("away"), TypeError("a bug")], ids=["transient", "bug"])
async def test_a_failed_turn_is_planned_again_by_an_ordinary_activity(serve, error, traces):
    """Whatever a planner raises in a local activity, the ordinary one tries again, with its retries."""
    where = []

    def raising(_turn: Turn) -> PlanResult:
        where.append(activity.info().is_local)
        if where[-1]:
            raise error
        return PlanResult.calls(double.call(n=2))

    client = await serve(
        app_of(ScriptedPlanner([PlanResult.calls(double.call(n=1)), raising, PlanResult.final("ok")]))
    )
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "ok"
    assert where == [True, False]
    await traces(run).check()
    await replayed(run)


async def test_refused_plans_are_corrected_locally(serve, traces):
    """A plan that is refused goes back to the planner, and its third fault in a row fails the run, as ever."""
    where = []

    def corrected(turn: Turn) -> PlanResult:
        where.append(activity.info().is_local)
        return PlanResult.final("right") if len(turn.reminders) > 0 and len(where) == 3 else PlanResult()

    client = await serve(app_of(ScriptedPlanner([PlanResult.calls(double.call(n=1)), corrected])))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "right"
    assert where == [True] * 3
    await traces(run).check()


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (RunPolicy(max_tool_rounds=4), "max_tool_rounds"),
        (RunPolicy(max_tool_calls=4, max_tool_rounds=100), "max_tool_calls"),
        (LONG.model_copy(update={"time_budget": timedelta(seconds=0.5)}), "time_budget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_limits_end_a_run_of_local_turns(serve, policy, reason, traces):
    """Limits hold, the time budget too, and the last turn is an ordinary one."""
    planner = Counting(None)
    client = await serve(app_of(planner, policy))
    run = await client.start("test.agent", "go")
    output = await run.result()
    assert output.reason == reason
    assert not planner.local[-1]
    assert True in planner.local
    await traces(run).check()
    await replayed(run)


async def test_a_run_of_local_turns_hears_a_pause_and_a_resume(serve, status_when, until):
    """A run that would plan and call locally for ever is paused, stands still, and ends by a resume's message."""
    planner = Counting(None)
    client = await serve(app_of(planner, LONG))
    run = await client.start("test.agent", "go")
    await until(lambda: True in planner.local)
    await run.pause("look")
    await status_when(run, lambda status: status.status == "paused")
    await run.resume(messages=["stop"])
    assert (await run.result()).text.endswith("rounds")
    await replayed(run)


@pytest.mark.parametrize("in_planner", [False, True], ids=["between turns", "in a turn that hangs"])
async def test_a_run_of_local_turns_is_canceled(serve, until, in_planner):
    """A cancel request ends it, also where a planner hangs."""
    planner = Counting(None)

    async def plan(turn: Turn) -> PlanResult:
        made = await planner.plan(turn)
        if in_planner and planner.local[-1]:
            await asyncio.Event().wait()
        return made

    client = await serve(app_of(plan, LONG))
    run = await client.start("test.agent", "go")
    await until(lambda: True in planner.local)
    await run.cancel("enough")
    with pytest.raises(RunCanceled):
        await run.result()
    await replayed(run)


async def test_large_results_of_local_turns_fit_in_the_messages(serve, monkeypatch, traces):
    """Five megabytes of local results are recorded, however fast they come, though one message holds four."""
    monkeypatch.setattr(local_plan, "LONGEST", timedelta(minutes=1))
    planner = Counting(100, lambda n: [fill.call(n=n)])
    client = await serve(app_of(planner, LONG))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "100 rounds"
    assert await traces(run).failed_tasks() == []
    assert planner.local.count(True) > 50
    await replayed(run)


async def test_a_large_plan_is_made_by_an_ordinary_activity(serve, traces):
    """A plan of more than 50,000 bytes is made again, since the results of its calls would be sent with it."""
    planner = Counting(3, lambda n: [note.call(text="x" * 60_000)])
    client = await serve(app_of(planner))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "3 rounds"
    assert planner.local == [False, True, False, True, False, True]
    await traces(run).check()


async def test_a_step_with_an_ordinary_call_is_followed_by_a_local_turn(serve, monkeypatch):
    """Such a step ends the workflow task, after which turns are local however long the run lasts."""
    monkeypatch.setattr(local_plan, "LONGEST", timedelta(seconds=0.1))

    async def plan(turn: Turn) -> PlanResult:
        made = await planner.plan(turn)
        await asyncio.sleep(0.03)
        return made

    planner = Counting(10, lambda n: [far.call(n=n)])
    client = await serve(app_of(plan, LONG))
    await client.execute("test.agent", "go")
    assert planner.local == [False] + [True] * 10


async def test_a_long_run_of_local_turns_goes_on_in_new_executions(serve, monkeypatch, traces):
    """The new execution begins with an ordinary turn, since no worker has its transcript."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 60)
    monkeypatch.setattr(local_plan, "LONGEST", timedelta(seconds=0.05))
    planner = Counting(60)
    client = await serve(app_of(planner, LONG))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "60 rounds"
    kinds = [event.type async for event in run.events()]
    assert kinds.count("run_continued") > 0
    assert kinds.count("tool_end") == 60
    assert [message.role for message in await run.transcript()].count("tool") == 60
    assert planner.local.count(True) > 0
