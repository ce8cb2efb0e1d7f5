"""The arguments that decide about a call are parsed before anybody decides, whoever planned it."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from activities.planning import Planning
from sojourn import Agent, App, Message, PlanResult, ToolCallMeta, ToolRequest, ToolResult, Toolset
from sojourn.contracts.run_policy import Caps, Limits
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.policy import PolicyDecision, PolicyInput
from sojourn.testing import ScriptedPlanner

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    # A whole number of 2**53 or more has its digits, as an integer, also where it was written with a point.
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not 2**53 <= abs(number) < 10**300
    )
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.dictionaries(TEXT, VALUES, max_size=4)
UNREADABLE = [
    "{",
    "[1]",
    "no",
    '{"path": NaN}',
    '{"path": 1, "path": 2}',
    "{} {}",
    '{"a": ',
]


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class Watcher:
    """A policy engine and interceptor that record what they are given."""

    def __init__(self) -> None:
        self.engine: list[ToolRequest] = []
        self.interceptor: list[ToolRequest] = []
        self.asked = 0

    async def decide(self, given: PolicyInput) -> PolicyDecision:
        self.asked += 1
        self.engine.extend(given.requested)
        return PolicyDecision()

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        self.interceptor.append(call.model_copy())
        return call


async def planned(watcher: Watcher, *calls: ToolRequest) -> PlanOutcome:
    """Plan these calls of an external tool, whose interceptors run as it is dispatched."""
    outside = Toolset("test.outside", external=True)
    outside.declare("do", args=Anything, result=int)
    agent = Agent("test.agent", planner=ScriptedPlanner([PlanResult.calls(*calls)]), uses=[outside])
    app = App(agents=[agent], policy_engine=watcher, interceptors=[watcher])
    planning = Planning(
        app=app,
        agent=agent,
        task=PlanTask(agent_id="test.agent"),
        run_id="r",
        messages=[Message.user("go")],
        memory={},
        limits=Limits(),
        caps=Caps(),
        attempt=1,
        waited=timedelta(0),
    )
    return await planning.outcome()


def call(call_id: str, payload: dict[str, Any] | None = None, raw: str | None = None) -> ToolRequest:
    return ToolRequest(name="test.outside.do", payload=payload or {}, raw=raw, tool_call_id=call_id)


@settings(max_examples=200, deadline=None)
@given(
    payload=PAYLOADS,
    shape=st.sampled_from(["{}", "```json\n{}\n```", " {} \n"]),
    broken=st.sampled_from(UNREADABLE),
)
def test_everybody_sees_the_same_arguments(payload, shape, broken):
    """Engine and interceptor get equal arguments of a dict and of its text; text that cannot be read reaches neither."""
    watcher, text = Watcher(), shape.replace("{}", json.dumps(payload))
    calls = [call("code", payload), call("model", raw=text), call("broken", raw=broken)]
    outcome = asyncio.run(planned(watcher, *calls))
    for seen in (watcher.engine, watcher.interceptor):
        assert [each.tool_call_id for each in seen] == ["code", "model"]
        for each in seen:
            assert each.arguments == each.payload == payload
            assert repr(each.arguments) == repr(payload)  # 1 is not True, and not 1.0
        assert [each.raw for each in seen] == [None, None if "`" in shape else text]
    if "`" not in shape:
        assert outcome.calls == calls
    *_, refused = outcome.dispatches
    assert refused.kind == "answered"
    assert refused.result
    assert refused.result.retry_hint
    assert refused.result.retry_hint.reason == "invalid_arguments"


async def test_the_plan_holds_the_arguments_once():
    """A recorded call has only the model's text, as before it was parsed."""
    outcome = await planned(Watcher(), call("model", raw='{"path": "a.old"}'))
    recorded = outcome.recorded().model_dump_json(by_alias=True, exclude_defaults=True)
    assert recorded.count("a.old") == 1
    assert '"payload"' not in recorded


async def test_an_engine_is_not_asked_about_no_call():
    """An engine whose input has no call was asked before the plan; it is not asked again about calls that nobody can read."""
    watcher = Watcher()
    await planned(watcher, call("broken", raw="{"))
    assert watcher.asked == 1


async def test_an_engine_cannot_change_the_call():
    """What an engine does to the arguments it gets changes neither the call that runs nor its record."""

    class Spoiler(Watcher):
        async def decide(self, given: PolicyInput) -> PolicyDecision:
            for each in given.requested:
                each.arguments["to"].append("x")
            return PolicyDecision()

    watcher = Spoiler()
    outcome = await planned(watcher, call("code", {"to": ["a"]}), call("model", raw='{"to": ["a"]}'))
    assert [each.arguments for each in watcher.interceptor] == [{"to": ["a"]}] * 2
    assert [each.payload for each in outcome.calls] == [{"to": ["a"]}, {}]


def test_text_that_nobody_has_parsed_is_never_an_empty_object():
    """`arguments` of a recorded call raises in place of an empty object, which a rule would take for the arguments."""
    recorded = ToolRequest(name="a.b.c", raw='{"amount": 5}')
    with pytest.raises(ValueError, match="not parsed"):
        _ = recorded.arguments
    read = recorded.with_arguments({"amount": 5})
    assert (read.arguments, read.raw, recorded.is_parsed) == ({"amount": 5}, recorded.raw, False)
    assert read.model_copy(update={"payload": {}}).arguments == {}
    assert ToolRequest(name="a.b.c").arguments == {}


@pytest.mark.parametrize("decodes", [False, True], ids=["checked", "decode_in_executor"])
async def test_executors_and_their_interceptors_get_the_arguments(serve, decodes):
    """On a worker both get the arguments parsed and the model's text; the text goes once an interceptor changes the arguments."""
    seen: list[tuple[str, str, dict[str, Any], str | None]] = []
    tools = Toolset("test.tools")
    tools.declare("do", args=Anything, result=int, decode_in_executor=decodes)

    async def execute(meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
        seen.append(("executor", call.tool_call_id, dict(call.arguments), call.raw))
        return ToolResult(result=1)

    class Intercepts:
        async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
            seen.append(("interceptor", call.tool_call_id, dict(call.arguments), call.raw))
            if call.tool_call_id == "changed":
                call.payload["by"] = "interceptor"
            if call.tool_call_id == "text":
                return call.model_copy(update={"raw": '{"amount": 1000}'})
            return call

    calls = [
        ToolRequest(name="test.tools.do", payload={"amount": 5}, tool_call_id="code"),
        ToolRequest(name="test.tools.do", raw='{"amount": 5}', tool_call_id="model"),
        ToolRequest(name="test.tools.do", raw='{"amount": 5}', tool_call_id="changed"),
        ToolRequest(name="test.tools.do", raw='{"amount": 5}', tool_call_id="text"),
        ToolRequest(name="test.tools.do", raw='{"amount": ', tool_call_id="broken"),
    ]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    agent = Agent("test.agent", planner=planner, uses=[tools])
    client = await serve(App(agents=[agent], executors={tools: execute}, interceptors=[Intercepts()]))
    await client.execute("test.agent", "go")
    raw = '{"amount": 5}'
    assert sorted(seen, key=lambda each: each[:2]) == [
        ("executor", "changed", {"amount": 5, "by": "interceptor"}, None),
        ("executor", "code", {"amount": 5}, None),
        ("executor", "model", {"amount": 5}, raw),
        ("interceptor", "changed", {"amount": 5}, raw),
        ("interceptor", "code", {"amount": 5}, None),
        ("interceptor", "model", {"amount": 5}, raw),
        ("interceptor", "text", {"amount": 5}, raw),
    ]
    results = {result.tool_call_id: result for result in planner.turns[1].tool_results}
    assert results["broken"].retry_hint.reason == "invalid_arguments"
    assert results["text"].retry_hint.reason == "tool_unavailable"
