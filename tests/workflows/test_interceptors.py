"""Interceptors: they see every call that is carried out, by a worker, a child run or somebody outside (SR-48, D-24)."""

import json
from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    PlanResult,
    RateLimited,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    ToolUnavailable,
)
from sojourn.testing import ScriptedPlanner

from .test_any_answer import HINTS, RAISED, TRANSIENT, raise_it


class Question(BaseModel):
    topic: str


class Pick(BaseModel):
    shelf: str


class Plant:
    """An agent with a tool of each kind: of a worker, of a child run, of somebody outside."""

    def __init__(
        self, *interceptors, timeout: float = 120, calls: Sequence[ToolRequest] | None = None
    ) -> None:
        self.ran: list[str] = []
        tools, outside = Toolset("test.tools"), Toolset("test.outside", external=True)

        @tools.tool
        async def note(text: str) -> str:
            self.ran.append(text)
            return text

        outside.declare("pick", args=Pick, result=int)
        self.child = ScriptedPlanner([PlanResult.final("a child's answer")] * 3)
        asked = Agent("test.child", planner=self.child)
        self.calls = calls or [
            ToolRequest(name="test.tools.note", payload={"text": "n"}, tool_call_id="worker"),
            ToolRequest(name="test.asked.ask", payload={"topic": "t"}, tool_call_id="child"),
            ToolRequest(name="test.outside.pick", payload={"shelf": "s"}, tool_call_id="outside"),
        ]
        self.planner = ScriptedPlanner([PlanResult.calls(*self.calls), PlanResult.final("done")])
        uses = [tools, asked.export("test.asked", tools=[AgentTool("ask", args=Question)]), outside]
        policy = RunPolicy(tool_timeout=timeout)
        agent = Agent("test.agent", planner=self.planner, uses=uses, policy=policy)
        self.app = App(agents=[agent, asked], interceptors=interceptors)

    @property
    def results(self):
        """What the planner was told of its calls, by their ids."""
        return {result.tool_call_id: result for result in self.planner.turns[1].tool_results}


async def test_every_kind_of_call_is_seen_and_changed(serve, status_when):
    """A child's messages and what is asked outside are made of the call as it came out; the planner's own stays."""
    seen: list[ToolCallMeta] = []

    class Louder:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            seen.append(meta)
            loud = {name: value.upper() for name, value in call.payload.items()}
            return call.model_copy(update={"payload": loud})

    plant = Plant(Louder())
    client = await serve(plant.app)
    run = await client.start("test.agent", "go", session_id="s-1", labels={"team": "a"})
    status = await status_when(run, lambda status: status.awaits)
    assert [item.payload for item in status.awaits[0].items] == [{"shelf": "S"}]
    await run.provide_tool_results(None, [{"tool_call_id": "outside", "result": 3}])
    await run.result()
    assert plant.ran == ["N"]
    assert json.loads(plant.child.turns[0].messages[0].text) == {"topic": "T"}
    assert {id: result.result for id, result in plant.results.items()} == {
        "worker": "N",
        "child": "a child's answer",
        "outside": 3,
    }
    assert sorted(meta.tool_call_id for meta in seen) == ["child", "outside", "worker"]
    assert {(meta.run_id, meta.session_id, meta.agent_id) for meta in seen} == {(run.id, "s-1", "test.agent")}
    assert all(meta.labels == {"team": "a"} and meta.turn_id and meta.idempotency_key for meta in seen)
    asked = [part.request.payload for message in await run.transcript() for part in message.tool_calls]
    assert asked == [{"text": "n"}, {"topic": "t"}, {"shelf": "s"}]


class Forgets:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest):
        return None


class Renames:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        return call.model_copy(update={"name": "test.tools.other"})


class Plain:
    def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest):
        return {"payload": call.payload}


class Deep:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        return call.model_copy(update={"payload": {"text": object()}})


@pytest.mark.parametrize("interceptor", [Forgets(), Renames(), Plain()], ids=lambda one: type(one).__name__)
async def test_one_that_gives_no_call_is_the_operators_business(serve, caplog, interceptor):
    """Nothing runs and nothing is tried again: planners learn that the tools are unavailable, the log whose fault it is."""
    plant = Plant(interceptor)
    client = await serve(plant.app)
    await client.execute("test.agent", "go")
    for result in plant.results.values():
        assert result.retry_hint.reason == "tool_unavailable"
        assert "it could not be prepared" in result.error.message
    assert len(plant.results) == 3
    assert plant.ran == []
    assert plant.child.turns == []
    lines = [line for line in caplog.text.splitlines() if "interceptor_gave_no_call" in line]
    assert len(lines) == 3  # once for each call
    assert all(type(interceptor).__name__ in line for line in lines)


async def test_what_it_gives_is_checked_like_any_payload(serve):
    """What cannot be recorded, or does not fit the tool, starts no child and asks nobody outside."""
    plant = Plant(Deep())
    client = await serve(plant.app)
    await client.execute("test.agent", "go")
    assert [result.ok for result in plant.results.values()] == [False, False, False]
    assert plant.child.turns == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no session"), None),
        (RateLimited("no session", retry_after=60), "rate_limited"),
        (ToolUnavailable("no session", retry_after=60), "tool_unavailable"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_it_raises_prevents_every_kind_of_call(serve, error, reason):
    """Its error is the call's, wherever the call would have gone (SR-47, SR-48)."""

    class Refuses:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            raise error

    plant = Plant(Refuses())
    client = await serve(plant.app)
    await client.execute("test.agent", "go")
    for result in plant.results.values():
        assert "no session" in result.error.message
        assert (result.retry_hint and result.retry_hint.reason) == reason
    assert plant.ran == []
    assert plant.child.turns == []


@pytest.mark.parametrize(("tool", "field"), [("test.asked.ask", "topic"), ("test.outside.pick", "shelf")])
async def test_whatever_it_raises_is_the_answer(serve, traces, tool, field):
    """Calls of agents and of what is executed outside too: one answer each, and the plan is made once."""

    class Raises:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            raise_it(call.payload[field])
            return call

    ways = [*RAISED, *TRANSIENT]
    calls = [ToolRequest(name=tool, payload={field: way}) for way in ways]
    plant = Plant(Raises(), calls=calls)
    client = await serve(plant.app)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"
    assert len(plant.planner.turns) == 2
    answers = plant.planner.turns[1].tool_results
    assert all(answer.error and len(answer.error.message) <= 2_000 for answer in answers)
    for way, answer in zip(ways, answers, strict=True):
        reasons = {"tool_unavailable", "rate_limited"} if way in TRANSIENT else {None}
        assert (answer.retry_hint and answer.retry_hint.reason) in reasons, way
        assert way not in HINTS or answer.error.message.startswith("closed"), way
    assert plant.child.turns == []
    await traces(run).check()
