"""Agents as tools: one call, one child run, one answer."""

import asyncio
import json

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Message,
    PlanResult,
    PlanResumeInput,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Usage,
)
from sojourn.errors import RunCanceled
from sojourn.testing import ScriptedPlanner

AGENT, SESSION = (SearchAttributeKey.for_keyword(name) for name in ("SojournAgent", "SojournSession"))


class Question(BaseModel):
    text: str
    topic: str = "all"


def ask(tool_call_id: str = "c1", **payload) -> ToolRequest:
    return ToolRequest(name="test.oracle.ask", payload=payload, tool_call_id=tool_call_id)


class Family:
    """A parent that makes these calls of a child, with the results and the turns that they received."""

    def __init__(
        self, child, *calls: ToolRequest, uses=(), policy: RunPolicy | None = None, **prompts
    ) -> None:
        self.calls = calls
        self.results = []
        self.child_turns = []
        self.answer_as = child
        kid = Agent("test.child", planner=self.child, uses=list(uses), policy=policy)
        oracle = kid.export("test.oracle", tools=[AgentTool("ask", args=Question, **prompts)])
        self.app = App(agents=[Agent("test.agent", planner=self.parent, uses=[oracle]), kid])

    async def parent(self, turn):
        if isinstance(turn, PlanResumeInput):
            self.results.extend(turn.tool_results)
            return PlanResult.final("done")
        return PlanResult.calls(*self.calls)

    async def child(self, turn):
        self.child_turns.append(turn)
        return await self.answer_as(turn)


async def answer(turn):
    return PlanResult.final(f"about {turn.messages[-1].text}")


async def test_a_childs_run_is_the_calls_answer(serve, traces):
    """The child runs under `<parent>/<call id>`; the call's result has its link, counts and costs (SR-52, SR-53)."""
    tools, metas = Toolset("test.tools"), []

    @tools.tool
    async def look(meta: ToolCallMeta) -> str:
        """Look."""
        metas.append(meta)
        return "seen"

    async def research(turn):
        if not isinstance(turn, PlanResumeInput):
            calls = [ToolRequest(name="test.tools.look")] * 2
            return PlanResult(tool_calls=calls, usage=Usage(input_tokens=10, output_tokens=1, cost=0.5))
        return PlanResult(
            final_response=Message.assistant("found"), result={"answer": 42}, usage=Usage(input_tokens=5)
        )

    family = Family(research, ask(text="why?"), uses=[tools])
    client = await serve(family.app)
    run = await client.start("test.agent", "go", session_id="s", labels={"team": "ops"})
    out = await run.result()
    (result,) = family.results
    link = result.run_link
    assert (link.run_id, link.agent_id) == (f"{run.id}/c1", "test.child")
    assert (link.parent_run_id, link.parent_tool_call_id) == (run.id, "c1")
    assert result.result == {"answer": 42}
    assert result.children_count == 2
    assert (result.telemetry.input_tokens, result.telemetry.output_tokens, result.telemetry.cost) == (
        15,
        1,
        0.5,
    )
    assert (out.tool_calls, out.children_count) == (1, 3)
    assert out.telemetry.input_tokens == 15
    assert {(meta.run_id, meta.parent_tool_call_id) for meta in metas} == {(link.run_id, "c1")}
    child = await client.get_run(link.run_id).result()
    assert child.text == "found"
    context = family.child_turns[0].run
    assert (context.session_id, context.labels, context.depth) == ("s", {"team": "ops"}, 1)
    assert context.parent == link
    await traces(run).check()


async def test_a_childs_failure_reaches_its_parent_as_a_chain(serve, traces):
    """The error of a child that fails keeps every cause down to the exception (SR-87)."""

    async def fail(turn):
        try:
            raise KeyError("the vault is locked")
        except KeyError as error:
            raise ApplicationError("no answer today", type="NoAnswer", non_retryable=True) from error

    family = Family(fail, ask(text="why?"))
    client = await serve(family.app)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"
    (result,) = family.results
    messages = [link.message for link in result.error.chain()]
    assert messages == [
        f"the agent run {run.id}/c1 failed",
        "the planner of test.child failed",
        "no answer today",
        "KeyError: 'the vault is locked' (test_agents.py:119)",
    ]
    assert result.run_link.run_id == f"{run.id}/c1"
    ends = [event.result for event in [e async for e in run.events()] if event.type == "tool_end"]
    assert [link.message for link in ends[0].error.chain()] == messages
    await traces(run).check()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "missing_fields"),
        ({"text": 5}, "invalid_arguments"),
        ({"text": "x", "tpoic": "y"}, "invalid_arguments"),
    ],
    ids=["missing", "wrong type", "unknown field"],
)
async def test_an_invalid_payload_starts_no_child(serve, traces, payload, reason):
    """A bad call of an agent is answered like that of any tool, before a child exists (SR-128, SR-141)."""
    family = Family(answer, ask(**payload))
    client = await serve(family.app)
    run = await client.start("test.agent", "go")
    await run.result()
    (result,) = family.results
    assert result.retry_hint.reason == reason
    assert result.run_link is None
    assert family.child_turns == []
    assert await traces(run).count(EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED) == 0


async def test_templates_fill_only_declared_fields(serve):
    """`{field}` of a declared field is filled once, in system and user message; anything else is literal (SR-53)."""
    family = Family(
        answer,
        ask(text="{topic} {secret} <{run_id}>"),
        system="On {topic}: {unknown} {} {{text}} {0.x}",
        user="Q: {text}",
    )
    client = await serve(family.app)
    await client.execute("test.agent", "go")
    messages = family.child_turns[0].messages
    assert [(message.role, message.text) for message in messages] == [
        ("system", "On all: {unknown} {} {{topic} {secret} <{run_id}>} {0.x}"),
        ("user", "Q: {topic} {secret} <{run_id}>"),
    ]


async def test_a_child_is_found_under_its_own_name(serve, traces):
    """A child has its own agent in its search attributes, and its parent's session."""
    family = Family(answer, ask(text="why?"))
    client = await serve(family.app)
    run = await client.start("test.agent", "go", session_id="s")
    await run.result()
    described = await traces(client.get_run(f"{run.id}/c1")).handle.describe()
    assert described.typed_search_attributes.get(AGENT) == "test.child"
    assert described.typed_search_attributes.get(SESSION) == "s"


async def test_a_cancelled_parent_cancels_its_children(serve, traces, until, monkeypatch):
    """Both runs end as canceled, and the parent's transcript answers the call with the child's link."""
    monkeypatch.setattr("activities.heartbeat.FIRST_BEAT", 0.05)
    monkeypatch.setattr("activities.heartbeat.INTERVAL", 0.2)

    async def stay(turn):
        await asyncio.Event().wait()

    family = Family(stay, ask(text="why?"))
    client = await serve(family.app)
    run = await client.start("test.agent", "go")
    await until(lambda: family.child_turns)
    await run.cancel("enough")
    with pytest.raises(RunCanceled, match="enough"):
        await run.result()
    child = client.get_run(f"{run.id}/c1")
    with pytest.raises(RunCanceled):
        await child.result()
    (result,) = (await traces(run).check())[-1].tool_results
    assert result.error.code == "canceled"
    assert result.run_link.run_id == child.id
    assert [(await each.status()).status for each in (run, child)] == ["canceled", "canceled"]


async def test_a_childs_question_is_answered_by_its_own_id(serve, status_when):
    """A child may wait for a person while its parent waits for it; the answer goes to the child's run."""

    async def wonder(turn):
        if turn.run.turn_id == "t1" or not isinstance(turn, PlanResumeInput):
            return PlanResult.ask(AwaitClarification(id="q", question="Which?"))
        return await answer(turn)

    family = Family(wonder, ask(text="why?"), policy=RunPolicy(interrupts_allowed=True))
    client = await serve(family.app)
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: any(call.run_link for call in status.calls))
    child = client.get_run(status.calls[0].run_link.run_id)
    await status_when(child, lambda status: status.awaits)
    await child.answer("q", "this")
    assert (await run.result()).text == "done"
    assert family.results[0].result == "about this"


async def test_children_of_one_plan_run_at_once(serve, until):
    """Two calls of one agent are two runs, side by side, answered in call order (SR-73)."""

    async def meet(turn):
        await until(lambda: len(family.child_turns) == 2)
        return await answer(turn)

    family = Family(meet, ask("one", text="first"), ask("two", text="second"), user="{text}")
    client = await serve(family.app)
    run = await client.start("test.agent", "go")
    await run.result()
    assert [result.result for result in family.results] == ["about first", "about second"]
    assert [result.run_link.run_id for result in family.results] == [f"{run.id}/one", f"{run.id}/two"]


class Verdict(BaseModel):
    """A judge's answer."""

    guilty: bool
    why: str


async def judged(serve, *answers):
    """Call an agent that gives these answers; return the tool, the call's result, the child's turns and the run."""
    turns = []

    async def judge(turn):
        turns.append(turn)
        return answers[min(len(turns), len(answers)) - 1]

    class Case(BaseModel):
        name: str

    court = Agent("test.judge", planner=judge)
    tool = AgentTool("try", args=Case, result=Verdict)
    toolset = court.export("test.court", tools=[tool])
    ask = toolset[tool]
    parent = ScriptedPlanner([PlanResult.calls(ask.call(Case(name="x"))), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=parent, uses=[toolset]), court]))
    run = await client.start("test.agent", "go")
    await run.result()
    return ask, parent.turns[1].tool_results[0], turns, run


GOOD = {"guilty": False, "why": "no proof"}


@pytest.mark.parametrize(
    "answer", [PlanResult.final("not guilty", result=GOOD), PlanResult.final(json.dumps(GOOD))]
)
async def test_a_typed_answer_is_the_result(serve, answer):
    """A typed answer may stand in `result` or be the text as JSON; the child's planner gets the schema (SR-53)."""
    ask, result, turns, _ = await judged(serve, answer)
    assert ask.result_of(result) == Verdict(guilty=False, why="no proof")
    assert set(turns[0].run.answer["properties"]) == {"guilty", "why"}
    assert len(turns) == 1


async def test_an_answer_that_does_not_fit_is_corrected_by_the_child(serve):
    """The child's plan is refused, with every wrong field in the reminder."""
    bad = PlanResult.final("?", result={"guilty": "perhaps"})
    ask, result, turns, _ = await judged(serve, bad, PlanResult.final("!", result=GOOD))
    assert ask.result_of(result).why == "no proof"
    (reminder,) = turns[1].reminders
    assert "why" in reminder
    assert "guilty" in reminder


async def test_an_answer_that_never_fits_is_a_malformed_response(serve, traces):
    """After three such answers the child fails, and the parent's call is answered `malformed_response` (SR-90)."""
    _, result, turns, run = await judged(serve, PlanResult.final("guilty!"))
    assert len(turns) == 3
    assert result.retry_hint.reason == "malformed_response"
    assert result.error.cause.code == "MalformedAnswer"
    assert "does not fit" in result.error.cause.message
    assert result.run_link.run_id.startswith(f"{run.id}/")
    await traces(run).check()
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    assert end.result.retry_hint == result.retry_hint
