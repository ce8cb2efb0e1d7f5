"""Runs that fail, give up or are cancelled: their caller gets the reason and what was spent, through any number of runs."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    PlanResult,
    PlanResumeInput,
    RunFailed,
    RunPolicy,
    ToolError,
    ToolRequest,
    Toolset,
    Usage,
    WithArtifacts,
)
from sojourn.errors import RunCanceled
from sojourn.repair import RepairingPlanner

LOCKED = ToolError.with_cause("no advice today", KeyError("vault"))


class Question(BaseModel):
    text: str = "?"


class Verdict(BaseModel):
    guilty: bool


def counting(step):
    """A planner that plans by `step`, and the list of its turns."""
    asked = []

    async def plan(turn):
        asked.append(turn)
        return step(turn)

    return plan, asked


def messages_of(error: ToolError) -> list[str]:
    return [link.message for link in error.chain()]


async def failed(run) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        await run.result()
    return caught.value


# Failures that a planner returns.


@pytest.mark.parametrize(
    ("error", "chain", "code"),
    [
        ("the vault is locked", ["the vault is locked"], None),
        (LOCKED, ["no advice today", "KeyError: 'vault'"], None),
    ],
    ids=["text", "chain"],
)
async def test_a_planner_fails_its_run_by_returning_a_failure(serve, traces, error, chain, code):
    """`PlanResult.fail` fails the run at once; exception, event and status have the whole chain of errors."""
    plan, asked = counting(lambda turn: PlanResult.fail(error, notes=["giving in"]))
    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    caught = await failed(run)
    assert (messages_of(caught.error), caught.code) == (chain, code)
    assert str(caught) == f"run {run.id} failed: {': '.join(chain)}"
    assert len(asked) == 1
    *_, note, end, _ = [event async for event in run.events()]
    assert (note.text, end.type, end.error, end.code) == ("giving in", "run_failed", caught.error, code)
    status = await run.status()
    assert (status.status, status.failure) == ("failed", ": ".join(chain))
    await traces(run).check()


async def test_a_last_turn_may_fail_the_run(serve, traces):
    """In its last turn a planner may return a failure in place of an answer."""

    def step(turn):
        if isinstance(turn, PlanResumeInput) and turn.finalize:
            return PlanResult.fail(ToolError.new("nothing is known", code="unknown"))
        return PlanResult.calls(ToolRequest(name="test.absent"))

    plan, asked = counting(step)
    client = await serve(planner=plan, policy=RunPolicy(max_tool_rounds=1))
    run = await client.start("test.agent", "go")
    caught = await failed(run)
    assert (caught.error, caught.code) == (ToolError(message="nothing is known", code="unknown"), "unknown")
    assert len(asked) == 3
    await traces(run).check()


async def test_a_failure_of_any_size_ends_the_run(serve, traces):
    """The chain of errors that a planner returns is shortened before it is recorded."""
    error: ToolError | None = None
    for n in range(200):
        error = ToolError(message=f"{n} {'x' * 20_000} \ud800", cause=error)
    plan, asked = counting(lambda turn: PlanResult(failure=error))
    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    caught = await failed(run)
    assert messages_of(caught.error)[0].startswith("199 x")
    assert messages_of(caught.error)[-1].startswith("0 x")
    assert len(asked) == 1
    await traces(run).check()


async def test_a_repairing_planner_passes_a_failure_on(serve):
    """A failure that the inner planner returns is not repaired."""
    plan, asked = counting(lambda turn: PlanResult.fail(LOCKED))
    client = await serve(planner=RepairingPlanner(plan))
    run = await client.start("test.agent", "go")
    assert (await failed(run)).error == LOCKED
    assert len(asked) == 1


# Failures over several runs.


def tower(height: int, root) -> App:
    """Agents that each call the next; the lowest plans by `root`, the others fail with the error from below."""
    agents, below = [], None

    def planner(name, below):
        async def plan(turn):
            if below is None:
                return root(turn)
            if not turn.tool_results:
                return PlanResult.calls(ToolRequest(name=below, payload={}, tool_call_id="c"))
            return PlanResult.fail(ToolError.with_cause(f"{name} cannot go on", turn.tool_results[0].error))

        return plan

    for level in reversed(range(height)):
        agent = Agent(
            f"test.a{level}",
            planner=planner(f"a{level}", f"{below.id}.ask" if below else None),
            uses=[below] if below else [],
            policy=RunPolicy(max_depth=10),
        )
        agents.append(agent)
        below = agent.export(f"test.ask{level}", tools=[AgentTool("ask", args=Question)])
    return App(agents=agents)


def raises(turn):
    try:
        raise KeyError("vault")
    except KeyError as error:
        raise ApplicationError("no advice today", type="NoAdvice", non_retryable=True) from error


@pytest.mark.parametrize("root", [lambda turn: PlanResult.fail(LOCKED), raises], ids=["value", "raised"])
async def test_the_root_stays_over_hops_of_runs(serve, root):
    """Through four runs the errors keep their order and their root; a long chain is cut in the middle (SR-87, SR-122)."""
    client = await serve(tower(4, root))
    run = await client.start("test.a0", "go")
    caught = await failed(run)
    below = ["the planner of test.a3 failed"] if root is raises else []
    links = ["a0 cannot go on"]
    for level in (1, 2, 3):
        links += [f"the agent run {run.id}{'/c' * level} failed", f"a{level} cannot go on"]
    place = " (test_failing_runs.py:158)" if root is raises else ""
    links[-1:] = [*below, "no advice today", f"KeyError: 'vault'{place}"]
    if root is raises:
        links[4:-3] = [f"({len(links) - 7} more)"]
    assert messages_of(caught.error) == links
    assert str(caught) == f"run {run.id} failed: {': '.join(links)}"
    (end,) = [
        event
        async for event in run.events(children=True)
        if event.type == "run_failed" and event.run_id == run.id
    ]
    assert end.error == caught.error


# Giving up.


def make_tools(done: list[str] | None = None) -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool(artifacts={"chart": str})
    async def note(text: str = "") -> WithArtifacts[str]:
        """Succeed, with a chart."""
        if done is not None:
            done.append(text)
        return WithArtifacts(text, chart="#")

    @tools.tool
    async def fail() -> str:
        """Fail, always in the same way."""
        raise RuntimeError("No module named pandas")

    @tools.tool
    async def hang() -> str:
        """Never answer."""
        if done is not None:
            done.append("hangs")
        await asyncio.Event().wait()
        return ""

    return tools


NOTE = ToolRequest(name="test.tools.note", payload={"text": "a"})


def family(child, policy: RunPolicy | None = None, result: type | None = None, done=None, own=None):
    """An app whose parent calls a child once, and the list of results that the parent receives."""
    results = []
    kid = Agent("test.child", planner=child, uses=[make_tools(done)], policy=policy)
    typed = {"result": result} if result else {}
    oracle = kid.export("test.oracle", tools=[AgentTool("ask", args=Question, **typed)])

    async def parent(turn):
        if not turn.tool_results:
            return PlanResult.calls(ToolRequest(name="test.oracle.ask", payload={}, tool_call_id="c1"))
        results.extend(turn.tool_results)
        return PlanResult.final("done")

    return App(agents=[Agent("test.agent", planner=parent, uses=[oracle], policy=own), kid]), results


async def goes_on(turn):
    """Call a tool until a limit makes this the last turn."""
    if getattr(turn, "finalize", None):
        return PlanResult.final("as far as I came", result={"guilty": True} if turn.run.answer else None)
    return PlanResult.calls(NOTE.model_copy(update={"payload": {"text": str(len(turn.messages))}}))


async def fails_on(turn):
    if getattr(turn, "finalize", None):
        return PlanResult.final("as far as I came")
    return PlanResult.calls(ToolRequest(name="test.tools.fail"))


async def breaks_at_the_end(turn):
    if getattr(turn, "finalize", None):
        raise ApplicationError("the model is gone", type="Gone", non_retryable=True)
    return await goes_on(turn)


@pytest.mark.parametrize(
    ("child", "policy", "result", "reason", "chain"),
    [
        (goes_on, RunPolicy(max_tool_calls=2), None, "max_tool_calls", "used all of its tool calls"),
        (goes_on, RunPolicy(max_tool_rounds=1), Verdict, "max_tool_rounds", "maximum tool depth"),
        (fails_on, None, None, "retries_stopped", "pandas"),
        (breaks_at_the_end, RunPolicy(max_tool_calls=1), None, "max_tool_calls", "the model is gone"),
    ],
    ids=["a limit", "a limit, typed", "three strikes", "a failed last turn"],
)
async def test_a_child_that_gave_up_is_an_error_with_its_reason(
    serve, traces, child, policy, result, reason, chain
):
    """Typed or not, the call's error has the limit and the child's last words, and there is a hint (SR-87, SR-90)."""
    app, results = family(child, policy, result)
    client = await serve(app)
    run = await client.start("test.agent", "go")
    out = await run.result()
    (answer,) = results
    assert (answer.result, answer.error.code) == (None, "gave_up")
    assert answer.error.cause.code == reason
    assert chain in str(answer.error)
    assert answer.error.message.startswith(f"the agent run {run.id}/c1 gave up")
    assert ("as far as I came" in answer.error.message) is (child is not breaks_at_the_end)
    assert answer.retry_hint.reason == "malformed_response"
    for order in ("Answer now", "Do not try again"):  # orders to the child's planner
        assert order not in str(answer.error)
    ended = await client.get_run(f"{run.id}/c1").result()
    assert (ended.reason, ended.error) == (reason, answer.error.cause)
    assert out.children_count == 1 + ended.children_count > 1
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    assert end.result == answer
    await traces(run).check()


# What was spent.


def after_two_calls(end):
    """A planner that makes two calls, then plans by `end`; each plan has a usage."""

    async def plan(turn):
        made = sum(message.role == "assistant" for message in turn.messages)
        usage = Usage(input_tokens=10, output_tokens=1, cost=0.25, model="m")
        if made < 2:
            return PlanResult(tool_calls=[NOTE], usage=usage)
        plan = end(turn)
        return plan.model_copy(update={"usage": usage})

    return plan


ENDS = {
    "value": (lambda turn: PlanResult.fail("no"), None, 33),
    "raised": (raises, None, 22),
    "refused": (lambda turn: PlanResult(), None, 55),
    "typed": (lambda turn: PlanResult.final("guilty?"), Verdict, 55),
}


@pytest.mark.parametrize("how", ENDS)
async def test_what_a_child_that_failed_has_spent_counts(serve, traces, how):
    """Calls, tokens, money and artifacts of a failed child are its parent's too (SR-53)."""
    end, result, tokens = ENDS[how]
    app, results = family(
        after_two_calls(end), result=result, own=RunPolicy(time_budget=timedelta(minutes=5))
    )
    client = await serve(app)
    run = await client.start("test.agent", "go")
    out = await run.result()
    (answer,) = results
    assert answer.error.message.startswith(f"the agent run {run.id}/c1")
    assert answer.children_count == 2
    used = answer.telemetry
    assert (used.input_tokens + used.output_tokens, used.cost, used.attempts) == (tokens, tokens / 44, 2)
    assert [one.run_link.run_id for one in answer.artifacts] == [f"{run.id}/c1"] * 2
    assert (out.tool_calls, out.children_count, out.telemetry.cost) == (1, 3, tokens / 44)
    assert out.artifacts == answer.artifacts
    assert (await client.artifact(out.artifacts[-1].ref)).data == "#"
    (event,) = [event async for event in run.events() if event.type == "tool_end"]
    assert event.result == answer
    await traces(run).check()


@pytest.mark.parametrize(
    "own", [None, RunPolicy(time_budget=timedelta(minutes=5))], ids=["", "with a budget"]
)
async def test_what_a_child_that_was_cancelled_has_spent_counts(serve, traces, until, own):
    """The parent of a child that is canceled goes on, and counts what the child spent (SR-53)."""
    done: list[str] = []

    def stay(turn):
        return PlanResult.calls(ToolRequest(name="test.tools.hang"))

    app, results = family(after_two_calls(stay), done=done, own=own)
    client = await serve(app)
    run = await client.start("test.agent", "go")
    child = client.get_run(f"{run.id}/c1")
    await until(lambda: "hangs" in done)
    await child.cancel("enough")
    out = await run.result()
    with pytest.raises(RunCanceled):
        await child.result()
    (answer,) = results
    assert (answer.error.code, answer.run_link.run_id, answer.children_count) == ("canceled", child.id, 3)
    assert (answer.telemetry.input_tokens, answer.telemetry.cost) == (30, 0.75)
    assert len(answer.artifacts) == 2
    assert (out.children_count, out.telemetry.cost) == (4, 0.75)
    (event,) = [event async for event in run.events() if event.type == "tool_end"]
    assert event.result == answer
    for each in (run, child):
        await traces(each).check()


async def test_a_child_that_did_nothing_reports_nothing(serve):
    """The call of a child whose first plan fails has no telemetry, and counts as one call."""
    plan, _ = counting(raises)
    app, results = family(plan)
    client = await serve(app)
    out = await client.execute("test.agent", "go")
    assert (results[0].telemetry, results[0].children_count, out.children_count) == (None, 0, 1)
