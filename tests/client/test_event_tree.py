"""Events of a run and its child runs in one stream, and events that only followers get."""

import asyncio
import uuid

import pytest
from pydantic import BaseModel
from temporalio.service import RPCError, RPCStatusCode

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    InvalidInput,
    PlanResult,
    RateLimited,
    RunNotFound,
    RunPolicy,
    ToolRequest,
    Toolset,
    progress,
)
from sojourn.events.cursor import Cursor, Position
from sojourn.events.stream import stream
from sojourn.testing.scripted import ScriptedPlanner


class Question(BaseModel):
    text: str


def call(name: str, id: str, **payload) -> ToolRequest:
    return ToolRequest(name=name, payload=payload, tool_call_id=id)


def tree(asks: bool = False) -> App:
    """An app whose `test.agent` starts three child runs on two levels; the lowest call a tool, and first ask if `asks`."""
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Succeed."""
        return text

    first = PlanResult.ask(AwaitClarification(id="q", question="which?")) if asks else None
    steps = [PlanResult.calls(call(note.id, "n1", text="a")), PlanResult.final("leaf")]
    policy = RunPolicy(interrupts_allowed=True)
    leaf = Agent(
        "test.leaf", planner=ScriptedPlanner([first, *steps] if first else steps), uses=[tools], policy=policy
    )
    leaves = leaf.export("test.leaves", tools=[AgentTool("ask", args=Question)])
    middle = Agent(
        "test.middle",
        planner=ScriptedPlanner(
            [PlanResult.calls(call("test.leaves.ask", "m1", text="?")), PlanResult.final("middle")]
        ),
        uses=[leaves],
        policy=policy,
    )
    middles = middle.export("test.middles", tools=[AgentTool("ask", args=Question)])
    calls = PlanResult.calls(
        call("test.middles.ask", "c1", text="?"),
        call("test.leaves.ask", "c2", text="?"),
        call(note.id, "c3", text="b"),
    )
    top = Agent(
        "test.agent",
        planner=ScriptedPlanner([calls, PlanResult.final("done")]),
        uses=[middles, leaves, tools],
        policy=policy,
    )
    return App(agents=[top, middle, leaf])


def by_run(events) -> dict[str, list]:
    """The events of each run, in order."""
    runs: dict[str, list] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    return runs


def assert_nested(events, run_id: str) -> None:
    """Assert that a child run's events come after its `agent_run_started` and before its call's `tool_end` (SR-54, SR-67)."""
    order = {(event.run_id, event.event_id): number for number, event in enumerate(events)}
    runs = by_run(events)
    links = [event for event in events if event.type == "agent_run_started"]
    assert {run_id, *(link.run_link.run_id for link in links)} == set(runs)
    for link in links:
        inner = runs[link.run_link.run_id]
        (end,) = [
            e for e in runs[link.run_id] if e.type == "tool_end" and e.tool_call_id == link.tool_call_id
        ]
        places = [order[event.run_id, event.event_id] for event in inner]
        assert order[link.run_id, link.event_id] < min(places)
        assert max(places) < order[end.run_id, end.event_id]
        assert {event.parent_tool_call_id for event in inner} == {link.tool_call_id}
        assert inner[-1].type == "run_stream_end"
    assert {event.parent_tool_call_id for event in runs[run_id]} == {None}
    assert events[-1].type == "run_stream_end"
    assert events[-1].run_id == run_id


async def test_events_of_child_runs_come_inside_their_calls(serve):
    """One stream has the events of a tree of runs, live and afterwards; those of each run are its own stream's, in order."""
    client = await serve(tree())
    run = await client.start("test.agent", "go")
    live = [event async for event in run.events(children=True) if event.event_id]
    late = [event async for event in run.events(children=True, follow=False)]
    for events in (live, late):
        assert_nested(events, run.id)
    assert by_run(live) == by_run(late)
    assert set(by_run(live)) == {run.id, f"{run.id}/c1", f"{run.id}/c1/m1", f"{run.id}/c2"}
    for child, nested in by_run(live).items():
        alone = [event async for event in client.get_run(child).events()]
        assert alone == nested


async def test_a_tree_resumes_by_a_cursor_for_each_run(serve):
    """With a cursor for each run, a stream continues after the last seen event of each."""
    client = await serve(tree())
    run = await client.start("test.agent", "go")
    whole = [event async for event in run.events(children=True) if event.event_id]
    for cut in range(0, len(whole), 7):
        seen = {event.run_id: event.event_id for event in whole[:cut]}
        rest = [event async for event in run.events(after=seen, children=True) if event.event_id]
        assert by_run(rest) == by_run(whole[cut:])


async def test_a_tree_resumes_by_one_text(serve):
    """The text of a cursor continues a stream of a tree after any event, with none twice and none left out."""
    client = await serve(tree())
    run = await client.start("test.agent", "go")
    whole = [event async for event in run.events(children=True) if event.event_id]
    cursor, after = Cursor(run.id), ""
    for cut, event in enumerate(whole):
        rest = [each async for each in run.events(after=after, children=True) if each.event_id]
        assert by_run(rest) == by_run(whole[cut:])
        after = Cursor(run.id, after).add(event)
        assert after == cursor.add(event)
        assert after.isascii()
        assert " " not in after
    assert after == f"{whole[-1].event_id};"


async def test_an_event_of_the_run_leaves_the_child_runs_that_had_ended_behind(serve):
    """After an event_id come all events of the child runs whose calls are open there, and none of the others'."""
    client = await serve(tree())
    run = await client.start("test.agent", "go")
    whole = [event async for event in run.events(children=True) if event.event_id]
    own = by_run(whole)[run.id]
    for cut, seen in enumerate(own, start=1):
        ended = [
            f"{run.id}/{event.tool_call_id}" for event in own[:cut] if event.type == "tool_result_received"
        ]
        expected = {
            child: own[cut:] if child == run.id else events
            for child, events in by_run(whole).items()
            if not any(child == each or child.startswith(f"{each}/") for each in ended)
        }
        for follow in (True, False):
            later = run.events(after=seen.event_id, children=True, follow=follow)
            rest = by_run([event async for event in later if event.event_id])
            assert rest == {child: events for child, events in expected.items() if events}


async def test_the_events_so_far_hold_those_of_child_runs_that_are_open(serve, until):
    """Without `follow`, the recorded events of child runs come too whose calls have not ended, on every level."""
    client = await serve(tree(asks=True))
    run = await client.start("test.agent", "go")

    async def ask() -> bool:
        return len((await run.status()).child_awaits) == 2

    await until(ask)
    so_far = by_run([event async for event in run.events(children=True, follow=False)])
    for child, events in so_far.items():
        assert events == [event async for event in client.get_run(child).events(follow=False)]
    assert {f"{run.id}/c1", f"{run.id}/c1/m1", f"{run.id}/c2"} < set(so_far)
    await run.cancel()


async def test_a_child_run_that_is_open_at_the_last_event_is_followed(serve, until):
    """Its events come at once, although the run itself has no further one before the child is answered."""
    client = await serve(tree(asks=True))
    run = await client.start("test.agent", "go")

    async def ask() -> bool:
        return len((await run.status()).child_awaits) == 2

    await until(ask)
    last = [event async for event in run.events(follow=False)][-1]
    async for event in run.events(after=last.event_id, children=True):
        if event.type == "await_clarification":
            await client.get_run(event.run_id).answer(event.question.id, "this")
    assert (await run.result()).text == "done"


async def test_a_turn_has_the_child_runs_of_its_own_calls_alone(serve):
    """A turn of a conversation has no events of an earlier turn's child runs, also for a program that comes back."""
    leaf = Agent("test.leaf", planner=ScriptedPlanner([PlanResult.final("leaf")]))
    leaves = leaf.export("test.leaves", tools=[AgentTool("ask", args=Question)])

    async def plan(turn):
        if turn.messages[-1].role == "tool" or turn.messages[-1].text != "go":
            return PlanResult.final("done")
        return PlanResult.calls(call("test.leaves.ask", f"c{len(turn.messages)}", text="?"))

    top = Agent("test.agent", planner=plan, uses=[leaves])
    client = await serve(App(agents=[top, leaf]))
    session = client.session("test.agent", uuid.uuid4().hex)
    runs = []
    for again in (session, session, client.session("test.agent", session.session_id)):
        for text in ("go", "hello"):
            events = [event async for event in (await again.send(text)).events(children=True, earlier=True)]
            runs += [set(by_run(events)) - {session.run.id}]
    links = [event async for event in session.events(follow=False) if event.type == "agent_run_started"]
    assert len(links) == 3
    assert runs == [found for link in links for found in ({link.run_link.run_id}, set())]


async def test_a_question_of_a_child_run_can_be_answered(serve):
    """A follower of a run can answer the questions of its child runs."""
    client = await serve(tree(asks=True))
    run = await client.start("test.agent", "go")
    asked = []
    async for event in run.events(children=True):
        if event.type == "await_clarification":
            asked.append(event.run_id)
            await client.get_run(event.run_id).answer(event.question.id, "this")
    assert sorted(asked) == [f"{run.id}/c1/m1", f"{run.id}/c2"]
    assert (await run.result()).text == "done"


async def test_closing_a_stream_stops_its_tasks(serve):
    """Closing a stream early stops all of its tasks."""
    client = await serve(tree(asks=True))
    run = await client.start("test.agent", "go")
    events = run.events(children=True)
    async for event in events:
        if event.type == "await_clarification":
            break
    await events.aclose()
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in names if run.id in name] == []
    await run.cancel()


async def test_an_unknown_run_raises_at_once(serve):
    """The stream of a run that does not exist raises `RunNotFound`."""
    client = await serve(tree())
    with pytest.raises(RunNotFound):
        async for _ in client.get_run("nobody").events(children=True):
            pass


class Refusing:
    """A Temporal client whose server answers for one run with an error."""

    def __init__(self, inner, run_id: str, status: RPCStatusCode) -> None:
        self._inner = inner
        self._run_id = run_id
        self._status = status

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def get_workflow_handle(self, workflow_id: str, **more):
        if workflow_id == self._run_id:
            raise RPCError("no", self._status, b"")
        return self._inner.get_workflow_handle(workflow_id, **more)


@pytest.mark.parametrize("follow", [False, True])
async def test_a_deleted_child_run_is_left_out_and_another_error_is_raised(serve, follow):
    """A child run that Temporal has deleted is left out, and the rest stays; any other error is raised."""
    client = await serve(tree())
    run = await client.start("test.agent", "go")
    await run.result()

    async def streamed(temporal) -> dict[str, list]:
        events = stream(temporal, run.id, after=Position({}), follow=follow, children=True)
        return by_run([event async for event in events if event.event_id])

    whole = await streamed(client.temporal)
    for child in (f"{run.id}/c2", f"{run.id}/c1/m1"):
        rest = {run_id: events for run_id, events in whole.items() if run_id != child}
        assert await streamed(Refusing(client.temporal, child, RPCStatusCode.NOT_FOUND)) == rest
        with pytest.raises(InvalidInput):
            await streamed(Refusing(client.temporal, child, RPCStatusCode.PERMISSION_DENIED))


async def test_retries_and_progress_come_live_only(serve):
    """`tool_retry` and `tool_update` come while a call is in flight, without an `event_id` (SR-133), and never again."""
    tools, tries = Toolset("test.tools"), []
    go = asyncio.Event()

    @tools.tool
    async def slow() -> str:
        """Fail once, then report progress and wait."""
        tries.append(1)
        if len(tries) == 1:
            raise RateLimited("busy", retry_after=4.0)
        progress("half", done=1, total=2)
        await go.wait()
        return "done"

    planner = ScriptedPlanner([PlanResult.calls(call(slow.id, "c1")), PlanResult.final("done")])
    client = await serve(planner=planner, uses=(tools,))
    run = await client.start("test.agent", "go")
    live_only = []
    async for event in run.events():
        if event.type in ("tool_retry", "tool_update"):
            live_only.append(event)
        if event.type == "tool_update":
            go.set()
    retry, update = live_only[0], live_only[-1]
    assert (retry.type, retry.tool_call_id, retry.tool_name, retry.attempt) == (
        "tool_retry",
        "c1",
        slow.id,
        2,
    )
    assert "busy" in retry.error
    assert (update.type, update.note, update.done, update.total) == ("tool_update", "half", 1, 2)
    assert {event.event_id for event in live_only} == {""}
    assert {event.type async for event in run.events()}.isdisjoint({"tool_retry", "tool_update"})
