"""Interceptors: they see and change every call that is executed by a worker, as a child run or outside (SR-48)."""

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


class Setup:
    """An app whose agent calls a tool of a worker, an agent and an external tool."""

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
        """The results that the planner received, by tool_call_id."""
        return {result.tool_call_id: result for result in self.planner.turns[1].tool_results}


async def test_every_kind_of_call_is_seen_and_changed(serve, status_when):
    """The child run's messages and the external wait hold the changed payload, the transcript the planner's."""
    seen: list[ToolCallMeta] = []

    class Louder:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            seen.append(meta)
            loud = {name: value.upper() for name, value in call.payload.items()}
            return call.model_copy(update={"payload": loud})

    setup = Setup(Louder())
    client = await serve(setup.app)
    run = await client.start("test.agent", "go", session_id="s-1", labels={"team": "a"})
    status = await status_when(run, lambda status: status.awaits)
    assert [item.payload for item in status.awaits[0].items] == [{"shelf": "S"}]
    await run.provide_tool_results(None, [{"tool_call_id": "outside", "result": 3}])
    await run.result()
    assert setup.ran == ["N"]
    assert json.loads(setup.child.turns[0].messages[0].text) == {"topic": "T"}
    assert {id: result.result for id, result in setup.results.items()} == {
        "worker": "N",
        "child": "a child's answer",
        "outside": 3,
    }
    assert sorted(meta.tool_call_id for meta in seen) == ["child", "outside", "worker"]
    assert {(meta.run_id, meta.session_id, meta.agent_id) for meta in seen} == {(run.id, "s-1", "test.agent")}
    assert all(meta.labels == {"team": "a"} and meta.turn_id and meta.idempotency_key for meta in seen)
    asked = [part.request.payload for message in await run.transcript() for part in message.tool_calls]
    assert asked == [{"text": "n"}, {"topic": "t"}, {"shelf": "s"}]


class ReturnsNone:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest):
        return None


class Renames:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        return call.model_copy(update={"name": "test.tools.other"})


class Renumbers:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        return call.model_copy(update={"tool_call_id": "another"})


class ReturnsDict:
    def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest):
        return {"payload": call.payload}


class NotJson:
    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        return call.model_copy(update={"payload": {"text": object()}})


@pytest.mark.parametrize(
    "interceptor", [ReturnsNone(), Renames(), Renumbers(), ReturnsDict()], ids=lambda one: type(one).__name__
)
async def test_an_interceptor_that_does_not_return_the_call_prevents_it(serve, caplog, interceptor):
    """The call is answered `tool_unavailable`, neither executed nor retried; the log names the interceptor."""
    setup = Setup(interceptor)
    client = await serve(setup.app)
    await asyncio.wait_for(client.execute("test.agent", "go"), 30)
    for result in setup.results.values():
        assert result.retry_hint.reason == "tool_unavailable"
        assert "it could not be prepared" in result.error.message
    assert len(setup.results) == 3
    assert setup.ran == []
    assert setup.child.turns == []
    lines = [line for line in caplog.text.splitlines() if "interceptor_gave_no_call" in line]
    assert len(lines) == 3  # once for each call
    assert all(type(interceptor).__name__ in line for line in lines)


async def test_a_changed_payload_is_checked(serve):
    """A payload that is no JSON, or does not fit the tool, starts no child run and opens no external wait."""
    setup = Setup(NotJson())
    client = await serve(setup.app)
    await client.execute("test.agent", "go")
    assert [result.ok for result in setup.results.values()] == [False, False, False]
    assert setup.child.turns == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no session"), None),
        (RateLimited("no session", retry_after=60), "rate_limited"),
        (ToolUnavailable("no session", retry_after=60), "tool_unavailable"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_interceptor_that_raises_prevents_every_kind_of_call(serve, error, reason):
    """The interceptor's error is the call's, and the call is not executed (SR-47, SR-48)."""

    class Refuses:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            raise error

    setup = Setup(Refuses())
    client = await serve(setup.app)
    await client.execute("test.agent", "go")
    for result in setup.results.values():
        assert "no session" in result.error.message
        assert (result.retry_hint and result.retry_hint.reason) == reason
    assert setup.ran == []
    assert setup.child.turns == []


async def test_the_hint_of_an_interceptor_is_about_its_call(serve):
    """Each call has the hint, with the name of its own tool, whichever tool the interceptor named."""

    class Refuses:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            hint = RetryHint(reason="invalid_arguments", tool="test.other.tool", message="another day")
            raise ToolFailed("not today", hint=hint)

    setup = Setup(Refuses())
    client = await serve(setup.app)
    await client.execute("test.agent", "go")
    hints = {result.name: result.retry_hint for result in setup.results.values()}
    assert len(hints) == 3
    assert {name: hint and (hint.tool, hint.message) for name, hint in hints.items()} == {
        name: (name, "another day") for name in hints
    }


@pytest.mark.parametrize(("tool", "field"), [("test.asked.ask", "topic"), ("test.outside.pick", "shelf")])
async def test_any_exception_of_an_interceptor_is_an_answer(serve, traces, tool, field):
    """Each call of an agent, or of an external tool, has one answer, and the plan is made once."""

    class Raises:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            raise_it(call.payload[field])
            return call

    ways = [*RAISED, *TRANSIENT]
    calls = [ToolRequest(name=tool, payload={field: way}) for way in ways]
    setup = Setup(Raises(), calls=calls)
    client = await serve(setup.app)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"
    assert len(setup.planner.turns) == 2
    answers = setup.planner.turns[1].tool_results
    assert all(answer.error and len(answer.error.message) <= 2_000 for answer in answers)
    for way, answer in zip(ways, answers, strict=True):
        reasons = {"tool_unavailable", "rate_limited"} if way in TRANSIENT else {None}
        assert (answer.retry_hint and answer.retry_hint.reason) in reasons, way
        assert way not in HINTS or answer.error.message.startswith("closed"), way
    assert setup.child.turns == []
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


def with_payload(payload):
    return lambda call: call.model_copy(update={"payload": payload})


def raises_hint(_call):
    raise ToolFailed("no", hint=OddHint(reason="x", tool="x"))


async def cancels_itself(call):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)
    return call


RELEASE = threading.Event()


async def never_ends(call):
    while not RELEASE.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)
    RELEASE.clear()
    return call


ODD = {
    "no truth": with_payload({"topic": Odd(ValueError("ambiguous")), "shelf": "s"}),
    "system exit": with_payload({"topic": Odd(SystemExit(3)), "shelf": "s"}),
    "interrupt": with_payload({"topic": Odd(KeyboardInterrupt()), "shelf": "s"}),
    "none": with_payload(None),
    "list": with_payload(["a"]),
    "hint": raises_hint,
    "cancels itself": cancels_itself,
    "never ends": never_ends,
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_a_misbehaving_interceptor_fails_only_its_calls(serve, traces, until, odd):
    """The calls of an agent and of an external tool fail, a worker's beside them runs, and the plan is made once."""

    class Misbehaves:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            made = call if "text" in call.payload else odd(call)
            return await made if inspect.isawaitable(made) else made

    setup = Setup(Misbehaves(), timeout=1)
    client = await serve(setup.app)
    run = await client.start("test.agent", "go")
    assert (await asyncio.wait_for(run.result(), 60)).text == "done"
    assert len(setup.planner.turns) == 2
    assert {id: result.ok for id, result in setup.results.items()} == {
        "worker": True,
        "child": False,
        "outside": False,
    }
    assert all(result.ok or result.error.message for result in setup.results.values())
    await traces(run).check()
    if odd is never_ends:
        for _ in range(2):  # once for each of the two calls
            RELEASE.set()
            await until(lambda: not RELEASE.is_set())


@pytest.mark.parametrize("raw", [False, True])
async def test_a_payload_changed_in_place_is_executed_but_not_recorded(serve, status_when, raw):
    """Every kind of call runs with the change, the transcript keeps the planner's `payload` or `raw`."""

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
    setup = Setup(Sets(), calls=calls)
    client = await serve(setup.app)
    run = await client.start("test.agent", "go")
    status = await status_when(run, lambda status: status.awaits)
    assert [item.payload for item in status.awaits[0].items] == [{"shelf": "set"}]
    await run.provide_tool_results(None, [{"tool_call_id": "outside", "result": 3}])
    await run.result()
    assert setup.ran == ["set"]
    assert json.loads(setup.child.turns[0].messages[0].text) == {"topic": "set"}
    asked = [part.request for message in await run.transcript() for part in message.tool_calls]
    assert "set" not in str(asked)


async def test_payloads_that_interceptors_enlarge_have_to_fit_into_the_plan(serve, traces):
    """Calls that become too large for the plan are answered `not_executed`; the plan is not refused."""

    class Enlarges:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            return call.model_copy(update={"payload": {"topic": "x" * 400_000}})

    calls = [ToolRequest(name="test.asked.ask", payload={"topic": "t"}) for _ in range(8)]
    setup = Setup(Enlarges(), calls=calls)
    client = await serve(setup.app)
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"
    codes = [result.error and result.error.code for result in setup.planner.turns[1].tool_results]
    assert codes == [None] * 3 + ["not_executed"] * 5
    await traces(run).check()


@pytest.mark.parametrize(
    "error", [RuntimeError, SystemExit, KeyboardInterrupt], ids=lambda kind: kind.__name__
)
async def test_a_validator_that_raises_answers_its_call(serve, traces, error):
    """A call that needs approval, and an external call, are validated with the plan; the exception is their answer."""

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
    """The child runs of the other calls start, and the run completes."""
    planner = ScriptedPlanner([PlanResult.final("answered")] * 3)
    child = Agent("test.child", planner=planner)

    def message_of(question: Question) -> str:
        return prompt(question) if question.topic == "bad" else question.topic

    asked = child.export("test.asked", tools=[AgentTool("ask", args=Question, user=message_of)])
    topics = ("a", "bad", "b")
    calls = [ToolRequest(name="test.asked.ask", payload={"topic": topic}) for topic in topics]
    inner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=inner, uses=[asked]), child])
    run = await (await serve(app)).start("test.agent", "go")
    assert (await asyncio.wait_for(run.result(), 60)).text == "done"
    assert [result.ok for result in inner.turns[1].tool_results] == [True, False, True]
    await traces(run).check()


async def test_a_prompt_that_cancels_its_task_cancels_no_plan(serve, traces):
    """The author's function that makes the prompt runs in a task of its own."""
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
    """A call of 480 KB runs: where it and the model's message do not both fit, the plan omits the message."""
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
    """Calls with hints that are too large for the plan keep their errors, and the plan is not refused."""

    class Refuses:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            raise ToolFailed(
                "no", hint=RetryHint(reason="x", tool="x", example_input={"topic": "x" * 900_000})
            )

    calls = [ToolRequest(name="test.asked.ask", payload={"topic": "t"}) for _ in range(3)]
    setup = Setup(Refuses(), calls=calls)
    run = await (await serve(setup.app)).start("test.agent", "go")
    assert (await run.result()).text == "done"
    results = setup.planner.turns[1].tool_results
    assert [result.error.message for result in results] == ["no"] * 3
    assert [result.retry_hint is None for result in results] == [False, True, True]  # one fits
    assert len(setup.planner.turns[1].hints) == 1
    await traces(run).check()


async def test_after_an_interceptor_that_uses_up_the_time_budget_no_call_begins(serve, traces):
    """The last turn follows, even from the first plan, before which the run does not know its policy."""

    class Slow:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            await asyncio.sleep(3)
            return call

    setup = Setup(Slow())
    agent = setup.app.agent("test.agent")
    agent.policy = RunPolicy(time_budget=timedelta(seconds=2), finalizer_grace=timedelta(seconds=60))
    run = await (await serve(setup.app)).start("test.agent", "go")
    output = await run.result()
    assert (output.reason, output.tool_calls) == ("time_budget", 0)
    assert setup.ran == []
    assert setup.child.turns == []
    await traces(run).check()


async def test_the_interceptors_of_a_fork_see_the_key_of_the_origins_effect(serve, status_when):
    """Whoever carries the call out, a worker, a child run or a program outside, its interceptor knows the effect as the origin's did."""
    seen: list[ToolCallMeta] = []

    class Notes:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            seen.append(meta)
            return call

    setup = Setup(Notes())
    client = await serve(setup.app)
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    await run.provide_tool_results(None, [{"tool_call_id": "outside", "result": 3}])
    await run.result()
    started = next(e.event_id for e in [e async for e in run.events()] if e.type == "tool_start")
    fork = await client.fork(run.id, at=started)
    await status_when(fork, lambda status: status.awaits)
    await fork.provide_tool_results(None, [{"tool_call_id": "outside", "result": 3}])
    await fork.result()
    keys = [
        {meta.tool_call_id: meta.idempotency_key for meta in seen if meta.run_id == each.id}
        for each in (run, fork)
    ]
    assert keys[1] == {id: keys[0][id] for id in keys[1]}
    assert set(keys[1]) >= {"child", "outside"}
