"""Limits of a run: calls over a limit are answered `not_executed`, and the planner gets one last turn."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    PlanResumeInput,
    RunPolicy,
    RunPolicyOverride,
    ToolRequest,
    Toolset,
)
from sojourn.testing.scripted import ScriptedPlanner


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str = "") -> str:
        """Succeed."""
        return text

    @tools.tool
    async def fail(how: str = "no") -> str:
        """Fail."""
        raise RuntimeError(how)

    return tools


class Question(BaseModel):
    text: str


NOTE = ToolRequest(name="test.tools.note")
FAIL = ToolRequest(name="test.tools.fail")


def rounds_of(count: int) -> list[list[ToolRequest]]:
    """Rounds of one call each, all different, since equal calls would count as a loop."""
    return [[ToolRequest(name="test.tools.note", payload={"text": str(n)})] for n in range(count)]


def failing(how: str) -> list[ToolRequest]:
    """A round that fails with this message: similar failures in a row would stop the run by themselves."""
    return [ToolRequest(name="test.tools.fail", payload={"how": how})]


class Calls:
    """A planner that makes these calls, plan by plan, and answers after them or in its last turn; records its turns."""

    def __init__(self, *plans: list[ToolRequest]) -> None:
        self.plans = plans
        self.turns = []

    async def plan_start(self, turn):
        return self.plan(turn)

    async def plan_resume(self, turn):
        return self.plan(turn)

    def plan(self, turn):
        self.turns.append(turn)
        made = sum(message.role == "assistant" for message in turn.messages)
        finalize = turn.finalize if isinstance(turn, PlanResumeInput) else None
        if finalize or made == len(self.plans):
            return PlanResult.final(finalize.reason if finalize else "answered")
        return PlanResult.calls(*self.plans[made])

    @property
    def last(self):
        return self.turns[-1]


async def finish(serve, planner, policy=None, override=None):
    client = await serve(planner=planner, uses=(make_tools(),), policy=policy)
    run = await client.start("test.agent", "go", policy=override)
    return run, await run.result()


async def limits_reached(run):
    return [event.limit async for event in run.events() if event.type == "limit_reached"]


async def test_a_call_over_max_tool_calls_is_answered_and_ends_the_run(serve, traces):
    """Calls up to the cap run, the rest are answered `not_executed`, and the planner has its last turn."""
    planner = Calls([NOTE, NOTE], [NOTE, NOTE], [NOTE])
    run, out = await finish(serve, planner, RunPolicy(max_tool_calls=3))
    assert (out.text, out.reason, out.tool_calls) == ("max_tool_calls", "max_tool_calls", 3)
    assert [result.ok for result in planner.last.tool_results] == [True, False]
    assert planner.last.tool_results[1].error.code == "not_executed"
    assert planner.last.caps.tool_calls == 0
    assert len(await limits_reached(run)) == 1
    await traces(run).check()


async def test_the_final_turn_may_only_answer(serve, traces):
    """The last turn offers no tools, says why in `finalize`, in a reminder and in a system message (ME-24)."""
    planner = Calls([NOTE, NOTE])
    run, out = await finish(serve, planner, RunPolicy(max_tool_calls=1))
    last = planner.last
    assert [spec.id for spec in planner.turns[0].tools] == ["test.tools.note", "test.tools.fail"]
    assert last.tools == []
    assert last.finalize.reason == "max_tool_calls"
    assert last.reminders == [last.finalize.notice]
    notices = [message.text for message in await traces(run).check() if message.role == "system"]
    assert notices == [last.finalize.notice]
    assert out.notes == ["limit reached: max_tool_calls"]


async def test_a_cap_of_no_calls_executes_none(serve, traces):
    """`max_tool_calls=0` executes no call, and the run ends with the planner's answer."""
    run, out = await finish(serve, Calls([NOTE, NOTE]), RunPolicy(max_tool_calls=0))
    assert (out.text, out.tool_calls, out.children_count) == ("max_tool_calls", 0, 0)
    await traces(run).check()


@pytest.mark.parametrize(
    ("rounds", "reason"), [(20, "answered"), (21, "max_tool_rounds")], ids=["twenty", "twenty-one"]
)
async def test_twenty_rounds_run_and_a_twenty_first_does_not(serve, traces, rounds, reason):
    """Twenty rounds give no notice; a 21st is answered `not_executed`, with one notice (ME-18 to ME-24)."""
    planner = Calls(*rounds_of(rounds))
    run, out = await finish(serve, planner)
    assert (out.text, out.reason, out.tool_calls) == (reason, reason, 20)
    notices = [limit.reason for limit in await limits_reached(run)]
    assert notices == ["max_tool_rounds"] * (rounds - 20)
    executed = [r.ok for message in await traces(run).check() for r in message.tool_results]
    assert executed == [True] * 20 + [False] * (rounds - 20)


async def test_many_turns_of_two_rounds_give_no_notice(serve):
    """The answer to a question begins a new turn with rounds from 0, so a person may go on for ever (ME-25, ME-26)."""
    turn_ids = []

    async def plan(turn):
        turn_ids.append(turn.run.turn_id)
        since = [message.role for message in turn.messages][::-1].index("user")
        rounds = sum(message.role == "assistant" for message in turn.messages[len(turn.messages) - since :])
        if rounds < 2:
            assert turn.caps.rounds == 20 - rounds
            return PlanResult.calls(
                ToolRequest(name=f"test.tools.absent-{len(turn_ids)}")
            )  # answered with no activity
        if turn.run.turn_id == "t21":
            return PlanResult.final("enough")
        return PlanResult.ask(AwaitClarification(question="more?"))

    policy = RunPolicy(interrupts_allowed=True, max_consecutive_failed_tool_calls=None)
    client = await serve(planner=plan, policy=policy)
    run = await client.start("test.agent", "go")
    async for event in run.events():
        assert event.type != "limit_reached"
        if event.type == "await_clarification":
            await run.answer(event.question.id, "go on")
    out = await run.result()
    assert (out.text, out.reason, out.rounds, out.tool_calls) == ("enough", "answered", 42, 42)
    assert list(dict.fromkeys(turn_ids)) == [f"t{n}" for n in range(1, 22)]


@pytest.mark.parametrize(
    ("plans", "reason"),
    [
        pytest.param(
            [failing("no"), failing("never"), failing("not so"), [NOTE]],
            "failure_streak",
            id="three in a row",
        ),
        pytest.param(
            [[FAIL], [FAIL], [NOTE], failing("never"), failing("not so")], "answered", id="a success resets"
        ),
        pytest.param(
            [[*failing(how), NOTE] for how in ("no", "never", "not so", "not now")],
            "answered",
            id="one success in each step",
        ),
        pytest.param(
            [
                [call for how in words.split() for call in failing(how)]
                for words in ("no not never", "nil nay nix")
            ],
            "answered",
            id="six failures in two steps",
        ),
    ],
)
async def test_three_steps_of_failures_in_a_row_are_the_last(serve, traces, plans, reason):
    """As many steps in a row in which every call failed as the policy has end the run; a success in a step starts the count again."""
    run, out = await finish(serve, Calls(*plans), RunPolicy(max_consecutive_failed_tool_calls=3))
    assert (out.text, out.reason) == (reason, reason)
    await traces(run).check()


async def raise_in_the_end(turn):
    if isinstance(turn, PlanResumeInput) and turn.finalize:
        raise ApplicationError("the model is gone", non_retryable=True)
    return PlanResult.calls(NOTE)


async def call_in_the_end(turn):
    return PlanResult.calls(NOTE)


@pytest.mark.parametrize(
    ("planner", "why"),
    [(raise_in_the_end, "the model is gone"), (call_in_the_end, "this turn may only answer")],
)
async def test_a_final_turn_that_fails_still_ends_the_run_clearly(serve, traces, planner, why):
    """A run whose planner raises or calls tools in its last turn completes with an output that says why."""
    run, out = await finish(serve, planner, RunPolicy(max_tool_rounds=1))
    assert out.reason == "max_tool_rounds"
    assert "maximum tool depth" in out.text
    assert why in out.text
    messages = await traces(run).check()
    assert messages[-1].text == out.text


@pytest.mark.parametrize(
    ("own", "override", "left"), [(5, 2, 2), (2, 5, 2), (None, 4, 4), (3, None, 3)], ids=str
)
async def test_an_override_only_tightens(serve, own, override, left):
    """The stricter of an agent's limit and its override counts."""
    planner = Calls()
    await finish(serve, planner, RunPolicy(max_tool_calls=own), RunPolicyOverride(max_tool_calls=override))
    assert planner.last.caps.tool_calls == left


async def test_an_override_cannot_allow_questions(serve):
    """`interrupts_allowed` can be taken away from a run, never given to it (SR-74)."""
    allowed = []

    async def plan(turn):
        allowed.append(turn.run.interrupts_allowed)
        return PlanResult.final("done")

    await finish(serve, plan, RunPolicy(), RunPolicyOverride(interrupts_allowed=True))
    await finish(serve, plan, RunPolicy(interrupts_allowed=True), RunPolicyOverride(interrupts_allowed=False))
    assert allowed == [False, False]


async def test_calls_over_a_steps_limit_are_answered_and_the_run_goes_on(serve, traces):
    """Calls over `max_calls_per_step` are not executed, and the next plan may make them again."""
    planner = Calls([NOTE] * 3, [NOTE])
    run, out = await finish(serve, planner, RunPolicy(max_calls_per_step=2))
    assert (out.reason, out.tool_calls) == ("answered", 3)
    assert [result.ok for result in planner.turns[1].tool_results] == [True, True, False]
    assert "ask for the rest" in planner.turns[1].tool_results[2].error.message
    await traces(run).check()


async def test_agents_under_agents_are_stopped_at_max_depth(serve, traces):
    """A call that would nest agents deeper is answered `tool_unavailable`, and every run above it answers."""
    refused = []

    def planner(below):
        async def plan(turn):
            if below and not isinstance(turn, PlanResumeInput):
                return PlanResult.calls(below["ask"].call(Question(text="deeper")))
            refused.extend(result for result in getattr(turn, "tool_results", ()) if result.error)
            return PlanResult.final(f"depth {turn.run.depth} under {turn.run.callers}")

        return plan

    agents, below = [], None
    for name in ("d", "c", "b", "a"):
        agent = Agent(
            f"test.{name}",
            planner=planner(below),
            uses=[below] if below else [],
            policy=RunPolicy(max_depth=3),
        )
        agents.append(agent)
        below = agent.export(f"test.ask-{name}", tools=[AgentTool("ask", args=Question)])
    client = await serve(App(agents=agents))
    run = await client.start("test.a", "go")
    out = await run.result()
    assert out.text == "depth 0 under []"
    assert out.children_count == 3
    (result,) = refused
    assert result.retry_hint.reason == "tool_unavailable"
    assert "at most 3 deep" in result.error.message
    await traces(run).check()


async def test_an_agent_above_is_not_called_again(serve, traces):
    """A call that would close a cycle of agents is refused, with the cycle in its message."""
    refused = []

    async def plan(turn):
        if not isinstance(turn, PlanResumeInput):
            other = "b" if turn.run.agent_id == "test.a" else "a"
            return PlanResult.calls(ToolRequest(name=f"test.ask-{other}.ask", payload={"text": "and you?"}))
        refused.extend(result for result in turn.tool_results if result.error)
        return PlanResult.final(turn.run.agent_id)

    one, two = Agent("test.a", planner=plan), Agent("test.b", planner=plan)
    one.uses.append(two.export("test.ask-b", tools=[AgentTool("ask", args=Question)]))
    two.uses.append(one.export("test.ask-a", tools=[AgentTool("ask", args=Question)]))
    client = await serve(App(agents=[one, two]))
    run = await client.start("test.a", "go")
    assert (await run.result()).text == "test.a"
    (result,) = refused
    assert result.retry_hint.reason == "tool_unavailable"
    assert "test.a > test.b > test.a" in result.error.message
    await traces(run).check()


async def test_a_tool_without_a_time_limit_has_the_runs(serve):
    """A run's own `tool_timeout` bounds a tool that declares none (SR-90)."""
    tools, results = Toolset("test.tools"), []

    @tools.tool
    async def hang() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return ""

    async def answer(turn):
        results.extend(turn.tool_results)
        return PlanResult.final("done")

    planner = ScriptedPlanner([PlanResult.calls(ToolRequest(name="test.tools.hang")), answer])
    client = await serve(planner=planner, uses=(tools,))
    override = RunPolicyOverride(tool_timeout=timedelta(seconds=0.1))
    await client.execute("test.agent", "go", policy=override)
    assert results[0].retry_hint.reason == "timeout"
