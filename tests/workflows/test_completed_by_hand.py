"""Activities completed by hand: a value that is no result or plan is answered, and fails no workflow task."""

import asyncio

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.common import RawValue

from sojourn import Agent, App, PlanResult, RunFailed, RunPolicy, Toolset
from sojourn.contracts.tool_result import ToolResult
from sojourn.converter.codec import UnreadableError
from sojourn.converter.data_converter import SojournPayloadConverter
from sojourn.values.undecodable import OrUndecodable
from tests.chain import replay


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


BODIES = [
    pytest.param("garbage", id="a text"),
    pytest.param(None, id="null"),
    pytest.param(raw(b"null"), id="null as JSON"),
    pytest.param([1, 2], id="a list"),
    pytest.param(raw(b"{"), id="broken JSON"),
    pytest.param(raw(b"\xff\0", b"binary/plain"), id="bytes"),
    pytest.param(raw(b"{}", b"json/protobuf"), id="a message of no known type"),
    pytest.param(raw(b'{"result":' + b"[" * 300 + b"]" * 300 + b"}"), id="too deep"),
    pytest.param({"error": 5, "calls": 5}, id="fields of another type"),
]
NO_PLANS = [
    pytest.param({}, "nothing to do", id="an empty object"),
    pytest.param({"unheard": 1}, "nothing to do", id="unknown fields"),
    pytest.param({"calls": [{"name": "test.held.hold"}]}, "a call's id", id="a call with no id"),
    pytest.param(
        {"calls": [{"name": "test.held.hold", "tool_call_id": "x"}] * 2}, "a call's id", id="an id twice"
    ),
]


class Held:
    """An app whose first plan, or whose tool, waits until its gate is opened."""

    def __init__(self, stage: str) -> None:
        self.gate = asyncio.Event()
        self.stage = stage
        self.plans = 0
        self.left: list[int | None] = []
        tools = Toolset("test.held")

        @tools.tool
        async def hold(n: int) -> str:
            """Hold."""
            if stage == "ExecuteToolActivity":
                await self.gate.wait()
            return "held"

        async def plan(turn):
            self.plans += 1
            self.left.append(turn.caps.tokens)
            if stage == "PlanActivity" and self.plans == 1:
                await self.gate.wait()
            if turn.tool_results:
                return PlanResult.final(str(turn.tool_results[0].error or turn.tool_results[0].result))
            return PlanResult.calls(hold.call(n=1))

        policy = RunPolicy(max_tokens=1_000, max_cost=10.0)
        self.app = App(agents=[Agent("test.agent", planner=plan, uses=[tools], policy=policy)])

    async def completed(self, serve, until, body):
        """Start a run, and complete its waiting activity with this."""
        run = await (await serve(self.app)).start("test.agent", "go")
        await by_hand(run, until, self.stage, body)
        return run

    async def ended(self, run, traces) -> str:
        """Return a run's answer; assert that its events equal its transcript, and that its history replays."""
        output = await asyncio.wait_for(run.result(), 60)
        self.gate.set()
        messages = await traces(run).check()
        ends = [event.result async for event in run.events(follow=False) if event.type == "tool_end"]
        results = [result for message in messages for result in message.tool_results]
        assert [(one.result, one.error) for one in ends] == [(one.result, one.error) for one in results]
        await replayed(run, self.app)
        return output.text


async def by_hand(run, until, kind: str, body) -> None:
    """Complete the pending activity of this kind."""
    temporal = run.client.temporal

    async def pending():
        described = await temporal.get_workflow_handle(run.id).describe()
        return next(
            (
                one.activity_id
                for one in described.raw_description.pending_activities
                if one.activity_type.name == kind
                and one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
            ),
            None,
        )

    activity = await until(pending)
    handle = temporal.get_async_activity_handle(workflow_id=run.id, run_id=None, activity_id=activity)
    await handle.complete(body)


async def replayed(run, app) -> None:
    """Replay a run's history on the same code."""
    await replay(run.client.temporal, run.id)


@pytest.mark.parametrize("body", BODIES)
async def test_a_value_that_is_no_result_is_the_calls_error(serve, until, traces, body):
    """The call is answered with the reason, and the planner goes on."""
    held = Held("ExecuteToolActivity")
    run = await held.completed(serve, until, body)
    answer = await held.ended(run, traces)
    assert "test.held.hold was completed by hand with a value that is not a call's result" in answer
    (status,) = (await run.status()).calls
    assert status.state == "failed"


@pytest.mark.parametrize("body", BODIES)
async def test_a_value_that_is_no_plan_is_a_planner_fault(serve, until, traces, body):
    """The planner is asked again; the run then gets its limits, which the first plan's result should have brought."""
    held = Held("PlanActivity")
    run = await held.completed(serve, until, body)
    assert await held.ended(run, traces) == "held"
    assert held.left == [1_000] * 3
    (note,) = [event.text async for event in run.events(follow=False) if event.type == "planner_note"]
    assert "completed by hand with a value that is not a plan" in note
    assert note in (await run.status()).notes


@pytest.mark.parametrize(("body", "why"), NO_PLANS)
async def test_a_plan_that_cannot_be_carried_out_is_a_planner_fault(serve, until, traces, body, why):
    """A plan that holds nothing to do, or calls without unique ids, is refused."""
    held = Held("PlanActivity")
    run = await held.completed(serve, until, body)
    assert await held.ended(run, traces) == "held"
    assert why in (await run.status()).notes[0]


async def test_a_planner_that_is_always_completed_by_hand_ends_the_run(serve, until, traces):
    """Three in a row end the run, as with any planner fault."""
    held = Held("PlanActivity")

    async def plan(turn):
        await held.gate.wait()

    app = App(agents=[Agent("test.agent", planner=plan)])
    run = await (await serve(app)).start("test.agent", "go")
    for n in range(3):
        await until(lambda n=n: noted(run, n))
        await by_hand(run, until, "PlanActivity", "garbage")
    with pytest.raises(RunFailed, match=r"refused 3 times in a row.*completed by hand"):
        await run.result()
    held.gate.set()
    await traces(run).check()
    await replayed(run, app)


async def noted(run, n: int) -> bool:
    return len((await run.status()).notes) == n


@pytest.mark.parametrize("kind", ["ExecuteToolActivity", "PlanActivity"])
async def test_impossible_figures_count_as_nothing(serve, until, traces, kind):
    """A figure below zero, or too large, neither lifts a limit nor uses it up."""
    spent = {"cost": -5.0, "input_tokens": -3, "output_tokens": 2**60}
    call = {"name": "test.held.hold", "payload": {"n": 1}, "tool_call_id": "c1"}
    plan = {"calls": [call], "usage": {**spent, "cached_tokens": 7}}
    result = {"result": "forged", "children_count": -9, "telemetry": {**spent, "duration_ms": 8}}
    held = Held(kind)
    run = await held.completed(serve, until, plan if kind == "PlanActivity" else result)
    assert await held.ended(run, traces) == ("held" if kind == "PlanActivity" else "forged")
    output = await run.result()
    assert output.reason == "answered"
    assert output.children_count == 1
    assert output.usage.cached_tokens == (7 if kind == "PlanActivity" else 0)
    for total in (output.usage, output.telemetry):
        assert (total.cost, total.input_tokens, total.output_tokens) == (None, 0, 0)


async def test_an_infinite_cost_counts_as_nothing(serve, until, traces):
    """`Infinity`, which Python's JSON reader accepts, is no cost."""
    held = Held("ExecuteToolActivity")
    body = raw(b'{"result": "forged", "telemetry": {"cost": Infinity}}')
    run = await held.completed(serve, until, body)
    assert await held.ended(run, traces) == "forged"
    assert (await run.result()).telemetry.cost is None


async def test_a_good_result_is_taken(serve, until, traces):
    """A valid result is the call's, and no marker is recorded."""
    held = Held("ExecuteToolActivity")
    run = await held.completed(serve, until, {"result": "by hand", "tool_call_id": "another"})
    assert await held.ended(run, traces) == "by hand"
    assert await traces(run).count(EventType.EVENT_TYPE_MARKER_RECORDED) == 0


def test_an_encrypted_payload_is_no_garbage():
    """A worker without the key fails its task: the next worker may have the key."""
    secret = Payload(metadata={"encoding": b"binary/encrypted"}, data=b"zz")
    with pytest.raises(UnreadableError):
        SojournPayloadConverter().from_payloads([secret], [OrUndecodable(ToolResult)])
