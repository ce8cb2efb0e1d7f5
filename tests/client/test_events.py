"""Events of a run: complete, ordered, resumable, live, and without cost to the run."""

import asyncio
import uuid
from collections import Counter

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.service import RPCError, RPCStatusCode

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Client,
    InvalidInput,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
    Usage,
)
from sojourn.connection import rpc_errors
from sojourn.errors import ServerUnavailable
from sojourn.events.one_run import events_of
from sojourn.testing.scripted import ScriptedPlanner


class Question(BaseModel):
    text: str


def make_tools() -> Toolset:
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Succeed."""
        return text

    return tools


def note(**payload) -> ToolRequest:
    return ToolRequest(name="test.tools.note", payload=payload)


STORY = [
    PlanResult(tool_calls=[note(text="a"), note()], notes=["look first"], usage=Usage(input_tokens=3)),
    PlanResult.ask(AwaitClarification(id="q", question="which?")),
    PlanResult.final("done"),
]
TYPES = [
    "run_started",
    "plan_started",
    "planner_note",
    "usage",
    "assistant_message",
    "tool_start",
    "tool_start",
    "tool_result_received",
    "tool_end",
    "tool_result_received",
    "tool_end",
    "plan_started",
    "await_clarification",
    "await_answered",
    "plan_started",
    "assistant_message",
    "run_completed",
    "run_stream_end",
]


async def followed(serve, followers: int = 1):
    """Play `STORY` before some followers, of whom the first answers; return the run, and the events of each follower."""
    policy = RunPolicy(interrupts_allowed=True)
    client = await serve(planner=ScriptedPlanner(STORY), uses=(make_tools(),), policy=policy)
    run = await client.start("test.agent", "go", session_id="s")

    async def follow(answers: bool):
        seen = []
        async for event in run.events():
            seen.append(event)
            if answers and event.type == "await_clarification":
                await run.answer(event.question.id, "this", by="ana")
        return seen

    return run, await asyncio.gather(*[follow(number == 0) for number in range(followers)])


async def test_a_stream_is_complete_and_ordered(serve):
    """Every step of a run has its event once, with its content, in ascending order of ids and times (SR-133)."""
    run, (events,) = await followed(serve)
    assert [event.type for event in events] == TYPES
    ids = [event.event_id for event in events]
    assert ids == sorted(set(ids))
    assert [event.time for event in events] == sorted(event.time for event in events)
    assert {(event.run_id, event.session_id, event.agent_id) for event in events} == {
        (run.id, "s", "test.agent")
    }
    assert [event.turn_id for event in events] == ["t1"] * 14 + ["t2"] * 4
    starts = {event.call.tool_call_id for event in events if event.type == "tool_start"}
    ends = [event.result for event in events if event.type == "tool_end"]
    assert {result.tool_call_id for result in ends} == starts
    assert sorted((result.retry_hint.reason if result.retry_hint else result.result) for result in ends) == [
        "a",
        "missing_fields",
    ]
    answered = next(event for event in events if event.type == "await_answered")
    assert (answered.await_id, answered.text, answered.by) == ("q", "this", "ana")
    assert events[-2].output.text == "done"


async def test_a_stream_resumes_after_any_event(serve):
    """Read again, whole or from any event on, the stream is the same as it was live."""
    run, (live,) = await followed(serve)
    assert [event async for event in run.events()] == live
    for position in range(0, len(live), 3):
        rest = [event async for event in run.events(after=live[position].event_id)]
        assert rest == live[position + 1 :]


@pytest.mark.parametrize("after", ["nonsense", "1", "0-000001", "0-000001-00000 ", {"another": "nonsense"}])
async def test_a_stream_after_no_event_id_is_refused(temporal_address, after):
    """`after` takes ids of the form that events have; another text would count as later than every event."""
    run = (await Client.connect(temporal_address)).get_run("r")
    with pytest.raises(InvalidInput, match="is no event_id"):
        run.events(after=after)


class Away:
    """A Temporal client whose server is unavailable for some of its requests, given by their numbers."""

    error = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    def __init__(self, inner, *times: int) -> None:
        self._inner = inner
        self._times = times
        self.requests = 0

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def get_workflow_handle(self, workflow_id: str, **more):
        self.requests += 1
        if self.requests in self._times:
            raise self.error
        return self._inner.get_workflow_handle(workflow_id, **more)


async def test_each_outage_is_bridged_by_itself(serve, monkeypatch):
    """After an answer the next outage may last as long again; one that lasts too long raises `ServerUnavailable`."""
    monkeypatch.setattr(rpc_errors, "LONGEST_OUTAGE", 0.05)  # less than the pause after the first failure
    run, (live,) = await followed(serve)
    temporal = run.client.temporal
    away = Away(temporal, 1, 3)
    assert [event async for event in events_of(away, run.id, follow=True)] == live
    assert away.requests == 5
    with pytest.raises(ServerUnavailable):
        await anext(events_of(Away(temporal, 1, 2), run.id, follow=True))
    with pytest.raises(ServerUnavailable):
        await anext(events_of(Away(temporal, 1), run.id, follow=False))


class Outdated(Away):
    """Refuses, as a server that has loaded the run anew refuses the token of a page."""

    error = RPCError(
        "Current and request branch tokens don't match.",
        RPCStatusCode.INVALID_ARGUMENT,
        b"type.googleapis.com/temporal.server.api.errordetails.v1.CurrentBranchChangedFailure",
    )


@pytest.mark.parametrize("follow", [True, False])
async def test_a_page_that_no_longer_fits_is_read_anew(serve, follow):
    run, (live,) = await followed(serve)
    outdated = Outdated(run.client.temporal, 1, 3)
    assert [event async for event in events_of(outdated, run.id, follow=follow)] == live
    assert outdated.requests > 3


async def test_followers_cost_nothing(serve, traces):
    """Three followers see the same events, and the history is as long as with one."""
    alone, _ = await followed(serve)
    crowded, streams = await followed(serve, followers=3)
    assert [event.type for event in streams[0]] == TYPES
    assert streams[0] == streams[1] == streams[2]
    assert await kinds_of(traces(crowded)) == await kinds_of(traces(alone))


async def kinds_of(trace) -> Counter[int]:
    """The number of history events by type, without workflow tasks: two activities may end in one task."""
    kinds = Counter(event.event_type for event in await trace.history())
    tasks = {number for name, number in EventType.items() if name.startswith("EVENT_TYPE_WORKFLOW_TASK_")}
    return Counter({kind: count for kind, count in kinds.items() if kind not in tasks})


async def test_a_follower_sees_a_call_before_it_ends(serve):
    """The stream is live: the tool ends only after a follower has seen its start."""
    tools, seen = Toolset("test.tools"), asyncio.Event()

    @tools.tool
    async def hold() -> str:
        """Wait to be seen."""
        await seen.wait()
        return "seen"

    planner = ScriptedPlanner(
        [PlanResult.calls(ToolRequest(name="test.tools.hold")), PlanResult.final("done")]
    )
    client = await serve(planner=planner, uses=(tools,))
    run = await client.start("test.agent", "go")
    async for event in run.events():
        if event.type == "tool_start":
            so_far = [earlier.type async for earlier in run.events(follow=False)]
            assert so_far[-1] == "tool_start"
            seen.set()
    assert event.type == "run_stream_end"


async def test_the_link_to_a_child_run_comes_between_start_and_end(serve):
    """The events of a call that a child run answers are start, link and end, with the child run's id (SR-54)."""
    child = Agent("test.child", planner=ScriptedPlanner([PlanResult.final("42")]))
    asked = child.export("test.oracle", tools=[AgentTool("ask", args=Question)])
    request = ToolRequest(name="test.oracle.ask", payload={"text": "?"}, tool_call_id="c1")
    parent = Agent(
        "test.agent",
        planner=ScriptedPlanner([PlanResult.calls(request), PlanResult.final("done")]),
        uses=[asked],
    )
    client = await serve(App(agents=[parent, child]))
    run = await client.start("test.agent", "go")
    events = [event async for event in run.events()]
    start, link, received, end = [event for event in events if event.type.startswith(("tool_", "agent_"))]
    types = [start.type, link.type, received.type, end.type]
    assert types == ["tool_start", "agent_run_started", "tool_result_received", "tool_end"]
    assert {event.tool_call_id for event in (start, link, received, end)} == {"c1"}
    assert start.call == request
    assert (link.run_link.run_id, link.run_link.agent_id) == (f"{run.id}/c1", "test.child")
    assert end.result.run_link == link.run_link
    assert end.result.result == "42"
    inner = [event.type async for event in client.get_run(link.run_link.run_id).events()]
    assert inner == ["run_started", "plan_started", "assistant_message", "run_completed", "run_stream_end"]


@pytest.mark.parametrize("after", ["", "0-000000-00000"], ids=["nothing", "before the first"])
async def test_a_stream_after_nothing_is_whole(serve, after):
    """An empty id, and one before the first event, leave nothing out."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    run = await client.start("test.agent", "go", run_id=uuid.uuid4().hex)
    events = [event.type async for event in run.events(after=after)]
    assert events[0] == "run_started"
    assert events[-1] == "run_stream_end"
