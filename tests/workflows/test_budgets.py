"""Budgets: active time, calls and tokens, of a run and of its child runs."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    InputForm,
    InputRequired,
    PlanResult,
    PlanResumeInput,
    RunPolicy,
    RunPolicyOverride,
    ToolRequest,
    ToolResult,
    Toolset,
    Usage,
)
from sojourn.errors import RunCanceled
from sojourn.testing.scripted import ScriptedPlanner


class Question(BaseModel):
    text: str


def make_tools(done: list[str]) -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Succeed."""
        done.append(text)
        return text

    @tools.tool
    async def hang(text: str) -> str:
        """Never answer."""
        done.append(text)
        await asyncio.Event().wait()
        return text

    return tools


def call(tool: str, text: str) -> ToolRequest:
    return ToolRequest(name=f"test.tools.{tool}", payload={"text": text})


def end(turn):
    return PlanResult.final(turn.finalize.reason if turn.finalize else "answered")


def sleep_once(duration: timedelta, **options):
    """A step that sleeps, then ends: `ScriptedPlanner` plays a step that waits again."""

    def step(turn):
        waited = any(text.startswith("Waited") for text in turn.reminders)
        return end(turn) if waited or turn.finalize else PlanResult.wait(duration, **options)

    return step


@pytest.fixture
def quick_beats(monkeypatch):
    """Send heartbeats soon: a cancellation reaches an activity only with a heartbeat, by default after 3 s."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)


async def test_time_used_up_in_a_step_cuts_it_off(serve, traces, quick_beats):
    """Calls in flight are cancelled and answered, results of ended calls are kept, and the planner has its last turn."""
    done: list[str] = []
    script = ScriptedPlanner([PlanResult.calls(call("note", "a"), call("hang", "b")), end])
    client = await serve(
        planner=script, uses=(make_tools(done),), policy=RunPolicy(time_budget=timedelta(seconds=4))
    )
    run = await client.start("test.agent", "go")
    out = await run.result()
    assert (out.text, out.reason, sorted(done)) == ("time_budget", "time_budget", ["a", "b"])
    results = [event.result async for event in run.events() if event.type == "tool_end"]
    assert [result.error and result.error.code for result in results] == [None, "time_budget"]
    messages = await traces(run).check()
    assert [r.error and r.error.code for m in messages for r in m.tool_results] == [None, "time_budget"]


@pytest.mark.parametrize("later", [True, False], ids=["in a later plan", "in the first"])
async def test_time_used_up_in_a_plan_ends_it(serve, traces, quick_beats, later):
    """A plan that takes longer than the time budget is cut off, and the planner has its last turn."""

    async def plan(turn):
        if isinstance(turn, PlanResumeInput) and turn.finalize:
            return end(turn)
        if not isinstance(turn, PlanResumeInput) and later:
            return PlanResult.calls(call("note", "a"))
        await asyncio.Event().wait()
        raise AssertionError

    client = await serve(
        planner=plan, uses=(make_tools([]),), policy=RunPolicy(time_budget=timedelta(seconds=4))
    )
    override = RunPolicyOverride(time_budget=timedelta(seconds=1.5))
    run = await client.start("test.agent", "go", policy=override)
    assert (await run.result()).text == "time_budget"
    await traces(run).check()


async def test_a_final_turn_over_the_grace_ends_the_run_clearly(serve, traces):
    """A last turn that exceeds `finalizer_grace` ends the run with an output that names the limit."""

    async def plan(turn):
        await asyncio.Event().wait()

    policy = RunPolicy(time_budget=timedelta(seconds=1), finalizer_grace=timedelta(seconds=0.2))
    client = await serve(planner=plan, policy=policy)
    run = await client.start("test.agent", "go")
    out = await run.result()
    assert out.reason == "time_budget"
    assert "time budget of 0:00:01 is used up" in out.text
    await traces(run).check()


async def test_an_answer_in_spite_of_the_used_up_time_counts(serve, traces, quick_beats):
    """A planner that is canceled at the end of the time budget, and answers all the same, is not asked again."""
    turns = []

    async def plan(turn):
        turns.append(turn)
        if len(turns) == 1:
            return PlanResult.calls(call("note", "a"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return PlanResult.final("just in time")

    policy = RunPolicy(time_budget=timedelta(seconds=4))
    client = await serve(planner=plan, uses=(make_tools([]),), policy=policy)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "just in time"
    assert len(turns) == 2
    await traces(run).check()


def late_form(started: list[str]):
    """A tool that asks a person for a code only when it is canceled, and its toolset."""
    tools = Toolset("test.forms")

    @tools.tool
    async def login() -> ToolResult:
        """Ask for a code, late."""
        started.append("login")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            form = {"type": "object", "properties": {"code": {"type": "string"}}}
            return ToolResult(
                input_required=InputRequired(forms=[InputForm(key="k", message="?", form=form)])
            )

    return login, tools


async def test_a_call_that_is_out_of_time_asks_nobody(serve, traces, quick_beats):
    """A tool that the time budget cuts off, and that then asks, is answered `time_budget`; no event shows a question."""
    login, tools = late_form([])
    policy = RunPolicy(time_budget=timedelta(seconds=4), interrupts_allowed=True)
    script = ScriptedPlanner([PlanResult.calls(login.call()), end])
    client = await serve(planner=script, uses=(tools,), policy=policy)
    run = await client.start("test.agent", "go")
    out = await run.result()
    (result,) = script.turns[1].tool_results
    assert (result.error.code, out.reason) == ("time_budget", "time_budget")
    await traces(run).check()
    events = [event.type async for event in run.events(follow=False)]
    assert (events.count("await_clarification"), events.count("tool_end")) == (0, 1)


async def test_a_canceled_call_asks_nobody(serve, traces, until, quick_beats):
    """A tool that is canceled with its run, and then asks, is answered `canceled`; no event shows a question."""
    started: list[str] = []
    login, tools = late_form(started)
    script = ScriptedPlanner([PlanResult.calls(login.call()), end])
    client = await serve(planner=script, uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await until(lambda: started)
    await run.cancel("enough")
    with pytest.raises(RunCanceled):
        await run.result()
    events = [event async for event in run.events(follow=False)]
    (result,) = [event.result for event in events if event.type == "tool_end"]
    assert result.error.code == "canceled"
    assert "await_clarification" not in [event.type for event in events]


async def test_waiting_does_not_count(serve, status_when):
    """An open question and a sleep are no active time."""
    script = ScriptedPlanner(
        [
            PlanResult.ask(AwaitClarification(question="?")),
            sleep_once(timedelta(seconds=3)),
        ]
    )
    policy = RunPolicy(interrupts_allowed=True, time_budget=timedelta(seconds=5))
    client = await serve(planner=script, policy=policy)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await asyncio.sleep(3)
    await run.answer(None, "x")
    out = await run.result()
    assert out.reason == "answered"
    events = [event async for event in run.events(follow=False)]
    assert out.active_time <= events[-1].time - events[0].time - timedelta(seconds=6)


async def test_a_sleep_that_counts_is_cut_off(serve):
    """`PlanResult.wait(..., counts=True)` spends the budget."""
    script = ScriptedPlanner([sleep_once(timedelta(days=1), counts=True)])
    client = await serve(planner=script, policy=RunPolicy(time_budget=timedelta(seconds=2)))
    assert (await client.execute("test.agent", "go")).text == "time_budget"


def tree(done: list[str], calls: int, children: int, beside: int = 0, **policy) -> App:
    """A parent that calls `children` child runs, and a tool `beside` times, at once; each child run makes `calls` calls if its limits allow."""
    tools = make_tools(done)

    def below(turn):
        finalize = getattr(turn, "finalize", None)
        made = sum(message.role == "assistant" for message in turn.messages)
        if finalize or made == calls:
            return PlanResult.final("used up" if finalize else "enough")
        who = turn.messages[0].text
        return PlanResult.calls(call("note", f"{who} {made}")).model_copy(
            update={"usage": Usage(input_tokens=10, output_tokens=0)}
        )

    async def plan(turn):
        return below(turn)

    child = Agent("test.child", planner=plan, uses=[tools])
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    ask = [ToolRequest(name="test.below.ask", payload={"text": f"n{n}"}) for n in range(children)]
    ask += [call("note", f"own {n}") for n in range(beside)]

    def over(turn):
        gave_up = [result.error and result.error.cause.code for result in turn.tool_results]
        return PlanResult.final(" | ".join(map(str, gave_up)))

    parent = Agent(
        "test.agent",
        planner=ScriptedPlanner([PlanResult.calls(*ask), over]),
        uses=[asked, tools],
        policy=RunPolicy(**policy),
    )
    return App(agents=[parent, child])


@pytest.mark.parametrize(
    ("cap", "children", "executed"),
    [(12, 1, 5), (4, 1, 3), (8, 3, 3), (3, 3, 0), (None, 2, 10)],
    ids=[
        "enough for one",
        "too little for one",
        "shared by three",
        "nothing left",
        "no cap",
    ],
)
async def test_child_runs_spend_from_what_their_parent_has_left(serve, cap, children, executed):
    """`max_tool_calls` holds for the tree: child runs of one step share what the parent's own calls leave."""
    done: list[str] = []
    client = await serve(tree(done, 5, children, max_tool_calls=cap))
    out = await client.execute("test.agent", "go")
    assert len(done) == executed
    assert out.children_count <= (cap or 100)


async def test_the_calls_beside_a_child_run_come_before_its_own(serve):
    """A child run's share of `max_tool_calls` is what all calls of its parent's step leave, not only those of child runs."""
    done: list[str] = []
    client = await serve(tree(done, 5, 1, beside=3, max_tool_calls=8))
    out = await client.execute("test.agent", "go")
    assert sum(text.startswith("own") for text in done) == 3
    assert (len(done), out.children_count) == (7, 8)


async def test_tokens_are_a_tree_too(serve):
    """A child that has used its share of the tokens gets its last turn."""
    done: list[str] = []
    client = await serve(tree(done, 10, 2, max_tokens=60))
    out = await client.execute("test.agent", "go")
    assert out.text == "max_tokens | max_tokens"
    assert len(done) == 6
    assert out.telemetry.input_tokens == 60


async def test_a_childs_time_is_its_parents(serve, quick_beats):
    """A child that works for longer than its parent has left reaches the time budget, and so does the parent."""
    done: list[str] = []

    async def plan(turn):
        finalize = getattr(turn, "finalize", None)
        return PlanResult.final("cut off") if finalize else PlanResult.calls(call("hang", "x"))

    child = Agent("test.child", planner=plan, uses=[make_tools(done)])
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    ask = ToolRequest(name="test.below.ask", payload={"text": "?"})
    parent = Agent(
        "test.agent",
        planner=ScriptedPlanner([PlanResult.calls(ask), end]),
        uses=[asked],
        policy=RunPolicy(time_budget=timedelta(seconds=4)),
    )
    client = await serve(App(agents=[parent, child]))
    run = await client.start("test.agent", "go")
    out = await run.result()
    assert (out.text, out.reason) == ("time_budget", "time_budget")
    (result,) = [event.result async for event in run.events() if event.type == "tool_end"]
    assert (result.error.code, result.error.cause.code) == ("gave_up", "time_budget")
    assert '"cut off"' in result.error.message


async def test_a_childs_wait_for_a_person_is_not_its_parents_time(serve, status_when):
    """While a child waits, its parent is not active either; the parent's status shows the question."""

    async def plan(turn):
        if turn.run.turn_id == turn.run.turn_id.split(".")[0]:
            return PlanResult.ask(AwaitClarification(id="q", question="?"))
        return PlanResult.final("answered below")

    child = Agent("test.child", planner=plan, policy=RunPolicy(interrupts_allowed=True))
    asked = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    ask = ToolRequest(name="test.below.ask", payload={"text": "?"})
    parent = Agent(
        "test.agent",
        planner=ScriptedPlanner([PlanResult.calls(ask), end]),
        uses=[asked],
        policy=RunPolicy(time_budget=timedelta(seconds=4)),
    )
    client = await serve(App(agents=[parent, child]))
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.child_awaits)
    ((child_id, waits),) = status.child_awaits.items()
    assert [wait.id for wait in waits] == ["q"]
    await asyncio.sleep(4.5)
    await client.get_run(child_id).answer("q", "x")
    assert (await run.result()).reason == "answered"
