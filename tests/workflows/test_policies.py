"""Policies: which tools a run may use, overrides, and an engine that tightens them turn by turn."""

import asyncio
from datetime import timedelta

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    PlanResult,
    RunPolicy,
    RunPolicyOverride,
    ToolRequest,
    Toolset,
    policy,
)
from sojourn.contracts import tool_error
from sojourn.errors import DefinitionError
from sojourn.policy import Caps, PolicyDecision
from sojourn.testing.scripted import ScriptedPlanner


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool(tags=["read"], read_only=True)
    async def look(what: str = "") -> str:
        """Look."""
        return what

    @tools.tool(tags=["write"])
    async def change(what: str) -> str:
        """Change."""
        return what

    @tools.tool(tags=["write", "danger"], destructive=True)
    async def wipe() -> str:
        """Destroy."""
        return "wiped"

    return tools


def call(tool: str, **payload) -> ToolRequest:
    return ToolRequest(name=f"test.tools.{tool}", payload=payload)


class Recorder:
    """A planner that makes these calls, plan by plan, and records its turns."""

    def __init__(self, *plans) -> None:
        self.turns = []
        self.script = ScriptedPlanner([*(PlanResult.calls(*plan) for plan in plans), self.end])

    @staticmethod
    def end(turn):
        return PlanResult.final(" | ".join(str(r.error or r.result) for r in turn.tool_results))

    async def plan_start(self, turn):
        self.turns.append(turn)
        return await self.script.plan_start(turn)

    async def plan_resume(self, turn):
        self.turns.append(turn)
        return PlanResult.final("final") if turn.finalize else await self.script.plan_resume(turn)

    def offered(self, index: int) -> list[str]:
        return [spec.id.tool for spec in self.turns[index].tools]


async def served(serve, planner, *, run_policy=None, engine=None, **app):
    agent = Agent("test.agent", planner=planner, uses=[make_tools()], policy=run_policy)
    return await serve(App(agents=[agent], policy_engine=engine, **app))


NO_ASKING = ApprovalPolicy.unattended()


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({}, ["look", "change", "wipe"]),
        ({"allowed_tools": ["test.tools.look"]}, ["look"]),
        ({"allowed_tools": ["test.tools.*"], "denied_tools": ["test.tools.wipe"]}, ["look", "change"]),
        ({"allowed_tags": ["write"]}, ["change", "wipe"]),
        ({"denied_tags": ["danger"]}, ["look", "change"]),
        ({"allowed_tools": []}, []),
    ],
    ids=["all", "one", "a family less one", "a tag", "less a tag", "none"],
)
@pytest.mark.parametrize("how", ["agent", "override"])
async def test_only_allowed_tools_are_offered_and_run(serve, fields, offered, how):
    """A tool that a policy withholds is not offered, and a call of it is answered `tool_unavailable`."""
    planner = Recorder([call("look"), call("change", what="x"), call("wipe")])
    own = {"approval": NO_ASKING, **(fields if how == "agent" else {})}
    client = await served(serve, planner, run_policy=RunPolicy(**own))
    run = await client.start(
        "test.agent", "go", policy=RunPolicyOverride(**fields) if how == "override" else None
    )
    await run.result()
    assert planner.offered(0) == offered
    ends = [event.result async for event in run.events() if event.type == "tool_end"]
    assert {end.name.rsplit(".", 1)[1] for end in ends if end.ok} == set(offered)
    assert {end.retry_hint.reason for end in ends if not end.ok} <= {"tool_unavailable"}


@pytest.mark.parametrize(("loosening", "left"), [(False, 2), (True, 9)])
async def test_an_override_is_looser_only_where_the_app_allows_it(serve, loosening, left):
    """Only with `App(allow_loosening=True)` can an override raise a limit."""
    planner = Recorder()
    client = await served(
        serve, planner, run_policy=RunPolicy(max_tool_calls=2, approval=NO_ASKING), allow_loosening=loosening
    )
    await client.execute("test.agent", "go", policy=RunPolicyOverride(max_tool_calls=9))
    assert planner.turns[0].caps.tool_calls == left


class Engine:
    """A policy engine that decides by a function, and records its inputs."""

    def __init__(self, decide) -> None:
        self.given = []
        self._decide = decide

    async def decide(self, given):
        self.given.append(given)
        return self._decide(given)


async def test_an_engine_disables_a_tool_after_its_failure(serve, traces):
    """An engine reads the last step's hints as planners do; a tool that it disables is neither offered nor run (SR-125)."""

    def decide(given):
        failed = [hint.tool for hint in given.hints]
        return PolicyDecision(disable_tools=failed, reason="it failed") if failed else PolicyDecision()

    engine = Engine(decide)
    planner = Recorder([call("change")], [call("change", what="y"), call("look", what="z")])
    client = await served(serve, planner, run_policy=RunPolicy(approval=NO_ASKING), engine=engine)
    run = await client.start("test.agent", "go")
    out = await run.result()
    assert planner.offered(1) == ["look", "wipe"]
    assert out.text == "test.tools.change is unavailable: the policy engine has disabled it for now | z"
    decisions = [event.decision async for event in run.events() if event.type == "policy_decision"]
    assert [(one.disable_tools, one.reason) for one in decisions] == [
        (["test.tools.change"], "it failed"),
        (["test.tools.change"], "it failed"),
    ]
    assert [len(given.requested) for given in engine.given] == [0, 1, 0, 2, 0]
    assert engine.given[2].hints[0].missing_fields == ["what"]
    await traces(run).check()


async def test_an_engine_tightens_caps_and_never_loosens_them(serve):
    """An engine's caps lower what is left, and never raise it."""

    def decide(given):
        calls = 1 if given.hints or given.requested else 100
        return PolicyDecision(caps=Caps(tool_calls=calls))

    planner, engine = Recorder([call("look", what="a"), call("look", what="b")]), Engine(decide)
    client = await served(
        serve, planner, run_policy=RunPolicy(max_tool_calls=5, approval=NO_ASKING), engine=engine
    )
    out = await client.execute("test.agent", "go")
    assert planner.turns[0].caps.tool_calls == 5
    assert (out.reason, out.tool_calls) == ("max_tool_calls", 1)
    assert len(planner.turns) == 2
    assert [len(given.requested) for given in engine.given] == [0, 2]  # none for a last turn


async def test_a_planner_gets_the_caps_that_the_engine_leaves(serve):
    """The caps of a turn include the engine's decision on that turn."""
    planner = Recorder()
    client = await served(
        serve,
        planner,
        run_policy=RunPolicy(max_tool_calls=5, max_tokens=100, approval=NO_ASKING),
        engine=Engine(lambda given: PolicyDecision(caps=Caps(tool_calls=2, tokens=200))),
    )
    await client.execute("test.agent", "go")
    assert (planner.turns[0].caps.tool_calls, planner.turns[0].caps.tokens) == (2, 100)


@pytest.mark.parametrize("budget", [timedelta(hours=1), None], ids=str)
async def test_a_time_cap_of_an_engine_cuts_off_the_plans_call(serve, traces, budget):
    """A call of the plan that the engine decided on is cut off, though the run had an hour or no time budget before."""
    slow = Toolset("test.slow")

    @slow.tool
    async def look() -> None:
        """Answer at once."""

    @slow.tool(timeout=timedelta(seconds=20))
    async def hang() -> None:
        """Never answer."""
        await asyncio.Event().wait()

    def decide(given):
        hangs = any(each.name == "test.slow.hang" for each in given.requested)
        return PolicyDecision(caps=Caps(time=timedelta(seconds=1)) if hangs else None)

    planner = Recorder([ToolRequest(name="test.slow.look")], [ToolRequest(name="test.slow.hang")])
    agent = Agent("test.agent", planner=planner, uses=[slow], policy=RunPolicy(time_budget=budget))
    client = await serve(App(agents=[agent], policy_engine=Engine(decide)))
    run = await client.start("test.agent", "go")
    assert (await run.result()).reason == "time_budget"
    (result,) = planner.turns[-1].tool_results
    assert result.error
    assert result.error.code == "time_budget"
    await traces(run).check()


async def test_an_engine_decides_who_is_asked(serve, status_when):
    """An engine may require approval of a call that would run, and approve one that would wait."""

    def decide(given):
        wanted = {request.name: request.tool_call_id for request in given.requested}
        return (
            PolicyDecision(approve=["test.tools.wipe"], ask=["test.tools.change"])
            if wanted
            else PolicyDecision()
        )

    planner = Recorder([call("wipe"), call("change", what="x")])
    client = await served(
        serve, planner, run_policy=RunPolicy(interrupts_allowed=True), engine=Engine(decide)
    )
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    assert [wait.tool for wait in status.awaits] == ["test.tools.change"]
    await run.approve()
    assert (await run.result()).text == "wiped | x"


async def test_an_engines_labels_go_with_the_run(serve):
    """Labels of a decision reach the planner, in this turn and in later ones."""
    planner = Recorder([call("look")])
    client = await served(
        serve,
        planner,
        run_policy=RunPolicy(approval=NO_ASKING),
        engine=Engine(
            lambda given: PolicyDecision(labels={} if given.run.labels.get("tier") else {"tier": "gold"})
        ),
    )
    await client.execute("test.agent", "go", labels={"by": "me"})
    assert [turn.run.labels for turn in planner.turns] == [{"by": "me", "tier": "gold"}] * 2


async def test_an_engine_that_fails_is_retried_like_a_planner(serve):
    """An engine that raises is asked again, and the run goes on once it decides."""
    tries = []

    def decide(given):
        tries.append(given)
        if len(tries) < 3:
            raise ConnectionError("the policy server is away")
        return PolicyDecision()

    client = await served(
        serve, Recorder([call("look")]), run_policy=RunPolicy(approval=NO_ASKING), engine=Engine(decide)
    )
    assert (await client.execute("test.agent", "go")).text == ""
    assert len(tries) == 5


def test_an_engine_has_an_async_decide():
    """An object without it is refused when the app is made."""
    with pytest.raises(DefinitionError, match="async def decide"):
        App(agents=[Agent("test.agent", planner=Recorder())], policy_engine=object())


def test_hints_in_policy_form_have_the_same_fields():
    """Engines and planners read one class (SR-125)."""
    assert policy.RetryHint is tool_error.RetryHint


async def test_a_call_that_lacks_fields_ends_the_run_where_the_policy_says_so(serve):
    """`on_missing_fields="finalize"`: the planner gets its final turn at once."""
    planner = Recorder([call("change")], [call("look")])
    client = await served(
        serve, planner, run_policy=RunPolicy(on_missing_fields="finalize", approval=NO_ASKING)
    )
    out = await client.execute("test.agent", "go")
    assert (out.text, out.reason) == ("final", "missing_fields")


async def test_a_call_that_lacks_fields_asks_by_itself(serve, status_when, traces):
    """`on_missing_fields="await_clarification"`: the person is asked first; the planner then sees hint and answer."""
    planner = Recorder(
        [call("change")], [], [call("change", what="y")]
    )  # the second assistant message is the question
    run_policy = RunPolicy(
        on_missing_fields="await_clarification", interrupts_allowed=True, approval=NO_ASKING
    )
    client = await served(serve, planner, run_policy=run_policy)
    run = await client.start("test.agent", "go")
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert (wait.id, wait.missing_fields, wait.restrict_to_tool) == (
        "fix-test.tools.change",
        ["what"],
        "test.tools.change",
    )
    assert wait.form["properties"]["what"]["type"] == "string"
    assert len(planner.turns) == 1
    await run.answer(None, {"what": "y"})
    assert (await run.result()).text == "y"
    resumed = planner.turns[1]
    assert [hint.missing_fields for hint in resumed.hints] == [["what"]]
    assert resumed.messages[-1].text == '{"what": "y"}'
    assert [turn.run.turn_id for turn in planner.turns] == ["t1", "t2", "t2"]
    await traces(run).check()


async def test_nobody_is_asked_where_nobody_may_be(serve):
    """Without interrupts, `on_missing_fields="await_clarification"` gives the planner the hint."""
    planner = Recorder([call("change")])
    client = await served(
        serve, planner, run_policy=RunPolicy(on_missing_fields="await_clarification", approval=NO_ASKING)
    )
    assert (await client.execute("test.agent", "go")).reason == "answered"
    (hint,) = planner.turns[1].hints
    assert (hint.reason, hint.missing_fields) == ("missing_fields", ["what"])


async def test_planners_get_the_time_that_is_left(serve):
    """`caps.time` is what is left of the time budget."""
    planner = Recorder([call("look")])
    client = await served(
        serve, planner, run_policy=RunPolicy(time_budget=timedelta(minutes=1), approval=NO_ASKING)
    )
    await client.execute("test.agent", "go")
    first, second = (turn.caps.time for turn in planner.turns)
    assert timedelta(0) < second <= first == timedelta(minutes=1)
