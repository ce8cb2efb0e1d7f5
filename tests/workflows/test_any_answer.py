"""Whatever a tool returns or raises, its call is answered once, and executed no more often than its retries allow."""

import asyncio
import functools
import math
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer

from sojourn import (
    Agent,
    App,
    PlanResult,
    RateLimited,
    RetryHint,
    RunPolicy,
    ToolCallMeta,
    ToolError,
    ToolFailed,
    ToolRequest,
    ToolResult,
    Toolset,
    ToolUnavailable,
)
from sojourn.contracts import Artifact, ToolTelemetry
from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_spec import Retry
from sojourn.testing import ScriptedPlanner

TOKEN = "tok-5f2c91d7"  # a secret that an interceptor injects
QUICK = Retry(initial_interval=timedelta(milliseconds=10))


class Way(BaseModel):
    way: str


class ForeignError(BaseException):
    """An exception of foreign code that is no `Exception`."""


class MuteError(Exception):
    """An exception whose text and code cannot be read."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    @property
    def code(self) -> str:
        raise ForeignError


class Nonsense(str):
    """A `str` whose methods raise."""

    __slots__ = ()

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise ForeignError(TOKEN)

    encode = __getitem__ = __len__ = __str__ = __format__ = __add__ = __hash__ = __eq__ = _raise  # type: ignore[assignment]


def hostile(name: str, value: Any = ForeignError) -> BaseException:
    """An exception with one attribute that raises, or has this value."""

    def get(_: Any) -> Any:
        if value is ForeignError:
            raise ForeignError(TOKEN)
        return value

    return type("HostileError", (Exception,), {name: property(get)})("hostile")


class Nameless(type):
    @property
    def __name__(cls) -> str:
        raise ForeignError(TOKEN)


class NamelessError(Exception, metaclass=Nameless):
    """An exception whose class has no readable name."""


class ClosedError(Exception):
    """An exception without a readable attribute."""

    def __getattribute__(self, name: str) -> Any:
        raise ForeignError(TOKEN)


SLOTS = ("__cause__", "__context__", "__suppress_context__", "__traceback__", "__class__")


def deep(levels: int) -> Any:
    return functools.reduce(lambda inner, _: {"a": inner}, range(levels), {"b": 1})


def hinted(value: Any) -> ToolFailed:
    hint = RetryHint(reason="closed", tool="x").model_copy(update={"example_input": {"a": value}})
    return ToolFailed(f"closed to {TOKEN}", hint=hint)


HINTS: dict[str, Callable[[], Any]] = {
    "hint_204": lambda: hinted(deep(204)),
    "hint_252": lambda: hinted(deep(252)),
    "hint_3_MB": lambda: hinted("x" * 3_000_000),
    "hint_object": lambda: hinted(object()),
    "hint_surrogate": lambda: hinted("\ud800"),
    "hint_none": lambda: ToolFailed("closed", hint="later"),  # type: ignore[arg-type]
    "hint_issue": lambda: ToolFailed(
        "closed", hint=RetryHint(reason="x", tool="x", issues=[FieldIssue(field="", constraint="\ud800")])
    ),
}
RAISED: dict[str, Callable[[], BaseException]] = {
    "own": lambda: ForeignError(TOKEN),
    "generator": lambda: GeneratorExit(TOKEN),
    "keyboard": lambda: KeyboardInterrupt(TOKEN),
    "exit": lambda: SystemExit(TOKEN),
    "group": lambda: BaseExceptionGroup(TOKEN, [ForeignError(TOKEN)]),
    "canceled": lambda: asyncio.CancelledError(TOKEN),
    "mute": MuteError,
    "surrogate": lambda: ValueError(f"\ud800 {TOKEN}"),
    "large": lambda: ValueError(TOKEN * 1_000_000),
    "nameless": NamelessError,
    "closed": ClosedError,
    "text": lambda: hostile("__str__", lambda: Nonsense(TOKEN)),
    "code": lambda: hostile("code", Nonsense("code")),
    "error": lambda: hostile("error", hostile("__class__")),
    "hint": lambda: type(
        "HostileFailed", (ToolFailed,), {"hint": property(lambda _: hostile("__class__"), lambda *_: None)}
    )("no"),
    **{name: functools.partial(hostile, name) for name in SLOTS},
    **{f"{name} nonsense": functools.partial(hostile, name, 7) for name in SLOTS},
    **HINTS,
}
TRANSIENT: dict[str, Callable[[], BaseException]] = {
    "away_10_MB": lambda: ConnectionError(f"{TOKEN} " * 800_000),
    "away_surrogate": lambda: ConnectionError(f"\ud800 {TOKEN}"),
    "away_caused": lambda: caused(ConnectionError(TOKEN), ForeignError("x" * 10_000_000)),
    "away_hostile": lambda: caused(RateLimited(TOKEN), hostile("__context__")),
    "away_until": lambda: type(
        "Hostile", (RateLimited,), {"retry_after": property(lambda _: raise_it("own"), lambda *_: None)}
    )("x"),
    "away_nameless": lambda: Nameless("Hostile", (ToolUnavailable,), {"__context__": property(lambda _: 7)})(
        "x"
    ),
    "away_when": lambda: caused(RateLimited(TOKEN, retry_after="soon"), ValueError()),  # type: ignore[arg-type]
}


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


class Injector:
    """An interceptor that injects the token, and raises where `way` begins with `before_`."""

    def __init__(self, tools: dict[str, Any]) -> None:
        self.tools = tools
        self.asked: Counter[str] = Counter()

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        filled = self.tools[call.name].inject(call, token=TOKEN)
        way = call.payload["way"]
        if way.startswith("before_"):
            self.asked[way] += 1
            raise_it(way.removeprefix("before_"))
        return filled


def raise_it(way: str) -> str:
    error = (RAISED | TRANSIENT)[way]()
    raise error


def made_tools(executed: Counter[tuple[str, str]]) -> tuple[Toolset, dict[str, Any]]:
    tools = Toolset("test.any")

    @tools.tool(inject=["token"], retry=QUICK)
    async def asynchronous(way: str, token: str) -> str:
        executed["asynchronous", way] += 1
        return raise_it(way)

    @tools.tool(inject=["token"], retry=QUICK)
    def synchronous(way: str, token: str) -> str:
        executed["synchronous", way] += 1
        return raise_it(way)

    @tools.tool(inject=["token"], retry=QUICK, local=True, read_only=True)
    async def beside(way: str, token: str) -> str:
        executed["beside", way] += 1
        return raise_it(way)

    return tools, {tool.id: tool for tool in (asynchronous, synchronous, beside)}


@pytest.mark.parametrize("name", ["asynchronous", "synchronous", "beside"])
async def test_whatever_a_tool_raises_is_its_answer(serve, traces, caplog, name):
    """A lasting error is executed once, a transient one three times; the secret is in no history and no log line."""
    executed: Counter[tuple[str, str]] = Counter()
    tools, by_id = made_tools(executed)
    ways = [*RAISED, *TRANSIENT, *(f"before_{way}" for way in RAISED if way not in HINTS)]
    calls = [ToolRequest(name=f"test.any.{name}", payload={"way": way}) for way in ways]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    injector = Injector(by_id)
    app = App(agents=[Agent("test.agent", planner=planner, uses=[tools])], interceptors=[injector])
    run = await (await serve(app)).start("test.agent", "go")
    await asyncio.wait_for(run.result(), 120)
    answers = dict(zip(ways, planner.turns[1].tool_results, strict=True))
    assert all(answer.error and len(answer.error.message) <= 2_000 for answer in answers.values())
    assert executed == {(name, way): 1 for way in RAISED} | {(name, way): 3 for way in TRANSIENT}
    assert set(injector.asked.values()) == {1}
    for way in HINTS:
        assert answers[way].error.message.startswith("closed"), way
        assert answers[way].retry_hint is None
    assert {answers[way].retry_hint.reason for way in TRANSIENT} == {"tool_unavailable", "rate_limited"}
    await traces(run).check()
    history = "\n".join(str(event) for event in await traces(run).history())
    assert "closed to [token]" in history
    assert TOKEN not in history
    assert TOKEN not in caplog.text


async def test_a_pending_attempt_shows_no_secret(serve, until):
    """The last failure of a pending activity has the secret masked, and no cause."""
    tools = Toolset("test.any")

    @tools.tool(inject={"token": lambda meta: TOKEN}, retry=Retry(initial_interval=timedelta(seconds=30)))
    async def away(token: str) -> str:
        raise ToolUnavailable(f"no answer to {token}") from ForeignError(f"asked with {token}")

    planner = ScriptedPlanner([PlanResult.calls(away.call()), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools])]))
    run = await client.start("test.agent", "go")
    handle = client.temporal.get_workflow_handle(run.id)

    async def failed() -> Any:
        pending = (await handle.describe()).raw_description.pending_activities
        return pending and pending[0].HasField("last_failure") and pending[0].last_failure

    failure = await until(failed)
    assert failure.message == "no answer to [token]"
    assert not failure.HasField("cause")
    assert TOKEN not in str((await handle.describe()).raw_description)
    await run.cancel("seen")


def spent(**figures: Any) -> ToolTelemetry:
    return ToolTelemetry().model_copy(update=figures)


ANSWERED: dict[str, ToolResult] = {
    "children": ToolResult(result=1, children_count=-(10**12)),
    "cost": ToolResult(result=1, telemetry=spent(cost=-1e9)),
    "nan": ToolResult(result=1, telemetry=spent(cost=float("nan"))),
    "tokens": ToolResult(result=1, telemetry=spent(input_tokens=-5)),
    "float": ToolResult(result=float("nan")),
    "extra": ToolResult(result=1, telemetry=spent(extra={"a": deep(250)})),
    "object": ToolResult(result=1, telemetry=spent(extra={"a": object()})),
    "text": ToolResult(result=1).model_copy(update={"children_count": "many"}),
    "kind": ToolResult(result=1, artifacts=[Artifact(kind="chart", data=[1])]),
    "data": ToolResult(result=1, artifacts=[Artifact(kind="series", data="none")]),
}


async def test_whatever_an_executor_returns_is_checked(serve, traces):
    """A result with impossible figures or artifacts is `malformed_response`, executed once, and lifts no limit."""
    tools, executed = Toolset("test.any"), Counter[str]()
    answer = tools.declare("answer", args=Way, result=float, artifacts={"series": list[int]})

    async def execute(meta: ToolCallMeta, call: ToolRequest) -> Any:
        way = call.payload["way"]
        executed[way] += 1
        if way == "good":
            return ToolResult(
                result=1.5,
                telemetry=spent(cost=2.0),
                artifacts=[Artifact(kind="series", data=[1, 2], ref="x#y/z")],
            )
        if way == "long":
            return ToolResult(error=ToolError(message="m" * 3_000_000, code="c" * 1_000))
        return ANSWERED[way]

    ways = [*ANSWERED, "good", "long"]
    calls = [answer.call(way=way) for way in ways]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    app = App(
        agents=[Agent("test.agent", planner=planner, uses=[tools], policy=RunPolicy(max_cost=5.0))],
        executors={tools: execute},
    )
    run = await (await serve(app)).start("test.agent", "go")
    out = await asyncio.wait_for(run.result(), 120)
    answers = dict(zip(ways, planner.turns[1].tool_results, strict=True))
    assert executed == dict.fromkeys(ways, 1)
    assert {answers[way].retry_hint.reason for way in ANSWERED} == {"malformed_response"}
    assert answers["good"].artifacts[0].ref == f"{run.id}#{answers['good'].tool_call_id}/series"
    assert answers["good"].telemetry.cost == 2.0
    assert [len(answers["long"].error.message), len(answers["long"].error.code)] == [2_000, 100]
    assert (out.telemetry.cost, out.children_count) == (2.0, len(ways))
    await traces(run).check()


async def test_after_a_time_out_only_a_repeatable_tool_runs_again(serve):
    """An `idempotent` tool runs three times, a tool that writes or has no annotation once (SR-90)."""
    tools, executed = Toolset("test.any"), Counter[str]()
    soon = timedelta(milliseconds=500)

    async def hang(name: str) -> str:
        executed[name] += 1
        await asyncio.Event().wait()
        return ""

    @tools.tool(timeout=soon, retry=QUICK)
    async def undeclared() -> str:
        return await hang("undeclared")

    @tools.tool(timeout=soon, retry=QUICK, read_only=False)
    async def writes() -> str:
        return await hang("writes")

    @tools.tool(timeout=soon, retry=QUICK, idempotent=True)
    async def idempotent() -> str:
        return await hang("idempotent")

    @tools.tool(retry=QUICK, idempotent=False)
    async def once() -> str:
        executed["once"] += 1
        raise ToolUnavailable("gone")

    calls = [tool.call() for tool in (undeclared, writes, idempotent, once)]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools])]))
    await client.execute("test.agent", "go")
    results = planner.turns[1].tool_results
    assert [result.retry_hint.reason for result in results] == [*["timeout"] * 3, "tool_unavailable"]
    assert executed == {"undeclared": 1, "writes": 1, "idempotent": 3, "once": 1}
    assert [result.telemetry and result.telemetry.attempts for result in results] == [None, None, 3, None]


async def test_a_tools_own_telemetry_is_completed(serve):
    """Figures that a tool reports stay; a missing duration or number of attempts is filled in (SR-91)."""
    tools = Toolset("test.any")

    @tools.tool(retry=QUICK)
    async def model(meta: ToolCallMeta) -> ToolResult:
        await asyncio.sleep(0.02)
        if meta.attempt == 1:
            raise RateLimited(retry_after=0.01)
        return ToolResult(result="ok", telemetry=ToolTelemetry(input_tokens=7, model="m"))

    @tools.tool
    async def timed() -> ToolResult:
        return ToolResult(result="ok", telemetry=ToolTelemetry(duration_ms=70_000, attempts=4))

    planner = ScriptedPlanner([PlanResult.calls(model.call(), timed.call()), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools])]))
    run = await client.start("test.agent", "go")
    await run.result()
    ended = {event.tool_name: event.result async for event in run.events() if event.type == "tool_end"}
    ends = [ended[tool.id].telemetry for tool in (model, timed)]
    assert (ends[0].input_tokens, ends[0].model, ends[0].attempts) == (7, "m", 2)
    assert ends[0].duration_ms >= 20
    assert (ends[1].duration_ms, ends[1].attempts) == (70_000, 4)
    assert planner.turns[1].tool_results[0].telemetry == ends[0]


class Point:
    """An object that only its type's serializer can write."""


async def test_a_value_that_only_its_type_can_write_is_a_result(serve):
    """The search for NaN and infinity passes over such an object, and over bytes that are no UTF-8."""
    tools = Toolset("test.any")

    @tools.tool
    async def point() -> Annotated[Any, PlainSerializer(lambda _: "x=1", return_type=str)]:
        """Point."""
        return Point()

    @tools.tool
    async def octets() -> Annotated[bytes, PlainSerializer(bytes.hex, return_type=str)]:
        """Octets."""
        return b"\xff"

    planner = ScriptedPlanner([PlanResult.calls(point.call(), octets.call()), PlanResult.final("done")])
    run = await (await serve(planner=planner, uses=(tools,))).start("test.agent", "go")
    await run.result()
    assert [answer.result for answer in planner.turns[1].tool_results] == ["x=1", "ff"]


async def test_a_number_that_json_lacks_is_malformed_at_any_depth(serve):
    """NaN and infinity are refused at any depth of a result, without a declared type too (SR-131)."""
    tools, executed = Toolset("test.any"), []
    values = [{"v": math.nan}, [1, -math.inf], {"a": {"b": [math.inf]}}]

    @tools.tool
    async def untyped(which: int) -> Any:
        """Anything."""
        executed.append(which)
        return values[which]

    calls = [untyped.call(which=which) for which in range(len(values))]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    run = await (await serve(planner=planner, uses=(tools,))).start("test.agent", "go")
    await run.result()
    answers = planner.turns[1].tool_results
    assert [answer.retry_hint.reason for answer in answers] == ["malformed_response"] * 3
    assert all("is no number of JSON" in answer.error.message for answer in answers)
    assert sorted(executed) == [0, 1, 2]
