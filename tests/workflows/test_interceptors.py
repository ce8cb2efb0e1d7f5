"""Interceptors: they see every call that is carried out, by a worker, a child run or somebody outside (SR-48, D-24)."""

import asyncio
import inspect
import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest
from pydantic import BaseModel, field_validator

from sojourn import (
    Agent,
    AgentTool,
    App,
    Message,
    PlanResult,
    RateLimited,
    RetryHint,
    RunPolicy,
    ToolCallMeta,
    ToolFailed,
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


class Odd:
    """A value that cannot be compared."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __eq__(self, other: object) -> bool:
        raise self.error

    __hash__ = None


class OddHint(RetryHint):
    """A hint that cannot be copied."""

    def model_copy(self, **_changes) -> "OddHint":
        raise KeyboardInterrupt


def gives(payload):
    return lambda call: call.model_copy(update={"payload": payload})


def raises_hint(_call):
    raise ToolFailed("no", hint=OddHint(reason="x", tool="x"))


async def cancels_itself(call):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)
    return call


LET_GO = threading.Event()


async def never_ends(call):
    while not LET_GO.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)
    LET_GO.clear()
    return call


ODD = {
    "no truth": gives({"topic": Odd(ValueError("ambiguous")), "shelf": "s"}),
    "system exit": gives({"topic": Odd(SystemExit(3)), "shelf": "s"}),
    "interrupt": gives({"topic": Odd(KeyboardInterrupt()), "shelf": "s"}),
    "none": gives(None),
    "list": gives(["a"]),
    "hint": raises_hint,
    "cancels itself": cancels_itself,
    "never ends": never_ends,
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_whatever_it_does_its_calls_are_answered_and_the_plan_is_made_once(serve, traces, until, odd):
    """A call of an agent, and one that somebody outside executes; a worker's beside them is carried out."""

    class Does:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            made = call if "text" in call.payload else odd(call)
            return await made if inspect.isawaitable(made) else made

    plant = Plant(Does(), timeout=1)
    client = await serve(plant.app)
    run = await client.start("test.agent", "go")
    assert (await asyncio.wait_for(run.result(), 60)).text == "done"
    assert len(plant.planner.turns) == 2
    assert {id: result.ok for id, result in plant.results.items()} == {
        "worker": True,
        "child": False,
        "outside": False,
    }
    assert all(result.ok or result.error.message for result in plant.results.values())
    await traces(run).check()
    if odd is never_ends:
        for _ in range(2):  # one a call
            LET_GO.set()
            await until(lambda: not LET_GO.is_set())


@pytest.mark.parametrize("raw", [False, True])
async def test_what_it_sets_in_place_counts_and_is_not_the_planners(serve, status_when, raw):
    """For every kind of call, whether the planner wrote its arguments as a text or not."""

    class Sets:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            for name in call.payload:
                call.payload[name] = "set"
            return call

    calls = [
        ToolRequest(name=name, tool_call_id=id, **({"raw": json.dumps(sent)} if raw else {"payload": sent}))
        for name, id, sent in (
            ("test.tools.note", "worker", {"text": "n"}),
            ("test.asked.ask", "child", {"topic": "t"}),
            ("test.outside.pick", "outside", {"shelf": "s"}),
        )
    ]
    plant = Plant(Sets(), calls=calls)
    client = await serve(plant.app)
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    assert [item.payload for item in status.awaits[0].items] == [{"shelf": "set"}]
    await run.provide_tool_results(None, [{"tool_call_id": "outside", "result": 3}])
    await run.result()
    assert plant.ran == ["set"]
    assert json.loads(plant.child.turns[0].messages[0].text) == {"topic": "set"}
    asked = [part.request for message in await run.transcript() for part in message.tool_calls]
    assert "set" not in str(asked)


async def test_what_it_adds_has_to_fit_into_a_plan(serve, traces):
    """The calls that do not fit are answered, with why; the plan is not refused for what the planner did not write."""

    class Swells:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            return call.model_copy(update={"payload": {"topic": "x" * 400_000}})

    calls = [ToolRequest(name="test.asked.ask", payload={"topic": "t"}) for _ in range(8)]
    plant = Plant(Swells(), calls=calls)
    client = await serve(plant.app)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"
    told = [result.error and result.error.code for result in plant.planner.turns[1].tool_results]
    assert told == [None] * 3 + ["not_executed"] * 5
    await traces(run).check()


@pytest.mark.parametrize(
    "error", [RuntimeError, SystemExit, KeyboardInterrupt], ids=lambda kind: kind.__name__
)
async def test_a_validator_that_raises_answers_its_call(serve, traces, error):
    """Of a call that a person is asked about, or that somebody outside executes: it is checked with the plan."""

    class Odd(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def judged(cls, n: int) -> int:
            raise error("odd")

    tools, outside = Toolset("test.tools"), Toolset("test.outside", external=True)

    @tools.tool(confirmation="Wipe?")
    async def wipe(args: Odd) -> str:
        """Wipe."""
        return "wiped"

    outside.declare("pick", args=Odd, result=int)
    calls = [ToolRequest(name=name, payload={"n": 1}) for name in ("test.tools.wipe", "test.outside.pick")]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    policy = RunPolicy(interrupts_allowed=True)
    client = await serve(planner=planner, uses=(tools, outside), policy=policy)
    run = await client.start("test.agent", "go")
    assert (await asyncio.wait_for(run.result(), 60)).text == "done"
    assert ["odd" in result.error.message for result in planner.turns[1].tool_results] == [True, True]
    await traces(run).check()


def cancel_current(_question) -> str:
    asyncio.current_task().cancel()
    return "go"


@pytest.mark.parametrize(
    "prompt",
    [lambda _question: "\ud800", lambda _question: "x" * 3_000_000],
    ids=["surrogate", "too large"],
)
async def test_a_prompt_that_cannot_be_sent_answers_its_call_alone(serve, traces, prompt):
    """The agents beside it are asked, and the plan is made once."""
    planner = ScriptedPlanner([PlanResult.final("answered")] * 3)
    child = Agent("test.child", planner=planner)

    def said(question: Question) -> str:
        return prompt(question) if question.topic == "bad" else question.topic

    asked = child.export("test.asked", tools=[AgentTool("ask", args=Question, user=said)])
    topics = ("a", "bad", "b")
    calls = [ToolRequest(name="test.asked.ask", payload={"topic": topic}) for topic in topics]
    inner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=inner, uses=[asked]), child])
    run = await (await serve(app)).start("test.agent", "go")
    assert (await asyncio.wait_for(run.result(), 60)).text == "done"
    assert [result.ok for result in inner.turns[1].tool_results] == [True, False, True]
    await traces(run).check()


async def test_a_prompt_that_cancels_its_task_cancels_no_plan(serve, traces):
    """It is the author's code, and has a task of its own."""
    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.final("answered")]))
    asked = child.export("test.asked", tools=[AgentTool("ask", args=Question, user=cancel_current)])
    call = ToolRequest(name="test.asked.ask", payload={"topic": "t"})
    inner = ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=inner, uses=[asked]), child])
    run = await (await serve(app)).start("test.agent", "go")
    assert (await asyncio.wait_for(run.result(), 60)).text == "done"
    assert len(inner.turns) == 2
    await traces(run).check()


async def test_the_largest_call_of_an_agent_fits_beside_the_models_own_message(serve, traces):
    """512 KB for one call, as the page says: the message is left out of the plan where both do not fit."""
    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.final("answered")]))
    asked = child.export("test.asked", tools=[AgentTool("ask", args=Question)])
    call = ToolRequest(name="test.asked.ask", payload={"topic": "x" * 480_000}, tool_call_id="c1")
    plan = PlanResult.calls(call).model_copy(update={"message": Message.calls([call])})
    inner = ScriptedPlanner([plan, PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=inner, uses=[asked]), child])
    run = await (await serve(app)).start("test.agent", "go")
    await run.result()
    (result,) = inner.turns[1].tool_results
    assert result.ok, result.error
    await traces(run).check()


async def test_large_hints_of_an_interceptor_are_left_out(serve, traces):
    """Their errors are told all the same; the plan is not refused for them."""

    class Refuses:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            raise ToolFailed(
                "no", hint=RetryHint(reason="x", tool="x", example_input={"topic": "x" * 900_000})
            )

    calls = [ToolRequest(name="test.asked.ask", payload={"topic": "t"}) for _ in range(3)]
    plant = Plant(Refuses(), calls=calls)
    run = await (await serve(plant.app)).start("test.agent", "go")
    assert (await run.result()).text == "done"
    assert [result.error.message for result in plant.planner.turns[1].tool_results] == ["no"] * 3
    await traces(run).check()


async def test_one_that_takes_the_whole_time_budget_lets_nothing_begin(serve, traces):
    """On the first turn too, whose run does not know its policy yet: the last turn comes, and no child run."""

    class Slow:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            await asyncio.sleep(3)
            return call

    plant = Plant(Slow())
    agent = plant.app.agent("test.agent")
    agent.policy = RunPolicy(time_budget=timedelta(seconds=2), finalizer_grace=timedelta(seconds=60))
    run = await (await serve(plant.app)).start("test.agent", "go")
    output = await run.result()
    assert (output.reason, output.tool_calls) == ("time_budget", 0)
    assert plant.ran == []
    assert plant.child.turns == []
    await traces(run).check()
