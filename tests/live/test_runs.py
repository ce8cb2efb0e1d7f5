"""Live text of runs: each piece reaches followers once, while the planner writes, and does not change the run."""

import asyncio

import pytest
from pydantic import BaseModel
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from sojourn import Agent, AgentTool, App, Client, PlanResult, ToolRequest, Toolset, Worker
from sojourn.events import EventHandler, subscribe
from sojourn.live import current_deltas

DELTAS = ("text_delta", "thinking_delta", "tool_call_delta", "stream_restarted")


class Question(BaseModel):
    text: str


async def wanted():
    """Return the writer of deltas, once the run is followed."""
    while (deltas := current_deltas()) is None:
        await asyncio.sleep(0.005)
    return deltas


class Talker:
    """A planner that writes two pieces, waits until they were seen, writes a third, and answers."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()
        self.attempts = 0

    async def plan(self, turn):
        deltas = await wanted()
        await deltas.text("The site ")
        await deltas.text("is ")
        await self.seen.wait()
        await deltas.text("dark.")
        return PlanResult.final("The site is dark.")


async def followed(run, seen: asyncio.Event | None = None, **options) -> list:
    """Return all events of a run with deltas; `seen` is set with the second piece."""
    events, text = [], ""
    async for event in run.events(deltas=True, **options):
        events.append(event)
        if event.type == "text_delta":
            text += event.text
            if seen and text.endswith("The site is "):
                seen.set()
    return events


def texts(events) -> list[str]:
    """Return the text of the deltas: one before each restart, and the last."""
    shown = [""]
    for event in events:
        if event.type == "stream_restarted":
            shown.append("")
        elif event.type == "text_delta":
            shown[-1] += event.text
    return shown


async def test_deltas_come_before_the_message(serve):
    """Deltas come between the plan's start and its message, without an event id; all other events stay the same."""
    talker = Talker()
    client = await serve(planner=talker.plan)
    run = await client.start("test.agent", "go", session_id="s")
    events = await followed(run, talker.seen)
    deltas = [event for event in events if event.type in DELTAS]
    assert texts(events) == ["The site is dark."]
    first, last = events.index(deltas[0]), events.index(deltas[-1])
    assert (events[first - 1].type, events[last + 1].type) == ("plan_started", "assistant_message")
    assert {(event.event_id, event.run_id, event.session_id, event.agent_id) for event in deltas} == {
        ("", run.id, "s", "test.agent")
    }
    rest = [event for event in events if event not in deltas]
    assert rest == [event async for event in run.events()]
    assert [event async for event in run.events(deltas=True)] == rest


async def test_after_a_failed_attempt_the_text_begins_again(serve):
    """`stream_restarted` comes before the text of the next attempt, so that nothing is shown twice."""
    talker, tries = Talker(), []

    async def plan(turn):
        tries.append(1)
        if len(tries) > 1:
            return await talker.plan(turn)
        await (await wanted()).text("The site is ")
        await talker.seen.wait()
        raise RuntimeError("the model hung up")

    client = await serve(planner=plan)
    events = await followed(await client.start("test.agent", "go"), talker.seen)
    assert texts(events) == ["The site is ", "The site is dark."]
    (restarted,) = [event for event in events if event.type == "stream_restarted"]
    assert (restarted.plan, restarted.attempt, restarted.event_id) == (1, 2, "")


async def test_each_plan_has_its_own_deltas(serve):
    """The deltas of a plan, also of thinking and calls, come before the plan's message."""
    tools = Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Succeed."""
        return text

    async def plan(turn):
        deltas = await wanted()
        if turn.messages[-1].role == "tool":
            await deltas.text("done")
            return PlanResult.final("done")
        await deltas.thinking("hm")
        await deltas.tool_call(note.id, '{"text": "a"}')
        return PlanResult.calls(note.call(text="a"))

    client = await serve(planner=plan, uses=(tools,))
    events = await followed(await client.start("test.agent", "go"))
    kinds = ("plan_started", "assistant_message", "tool_start", *DELTAS)
    assert [event.type for event in events if event.type in kinds] == [
        "plan_started",
        "thinking_delta",
        "tool_call_delta",
        "assistant_message",
        "tool_start",
        "plan_started",
        "text_delta",
        "assistant_message",
    ]
    (call,) = [event for event in events if event.type == "tool_call_delta"]
    assert (call.tool_name, call.index, call.text) == (note.id, 0, '{"text": "a"}')


async def test_child_runs_have_deltas(serve):
    """The deltas of a child run have its run id and the call that it answers, and come before the call's end."""
    talker = Talker()
    child = Agent("test.child", planner=talker.plan)
    oracle = child.export("test.oracle", tools=[AgentTool("ask", args=Question)])
    request = ToolRequest(name="test.oracle.ask", payload={"text": "?"}, tool_call_id="c1")

    async def plan(turn):
        if turn.messages[-1].role == "tool":
            return PlanResult.final("done")
        return PlanResult.calls(request)

    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[oracle]), child]))
    run = await client.start("test.agent", "go")
    events = await followed(run, talker.seen, children=True)
    deltas = [event for event in events if event.type == "text_delta"]
    assert texts(events) == ["The site is dark."]
    assert {(event.run_id, event.parent_tool_call_id) for event in deltas} == {(f"{run.id}/c1", "c1")}
    types = [event.type for event in events]
    assert types.index("agent_run_started") < events.index(deltas[0])
    assert events.index(deltas[-1]) < types.index("tool_end")


@pytest.mark.parametrize("over", ["this process", "redis"])
async def test_fifty_subscribers_add_nothing_to_the_history(serve, redis, traces, over):
    """Every subscriber gets the whole text, even one that begins in mid-answer; the history is that of a run without subscribers."""
    live = redis.url if over == "redis" else None
    talker = Talker()

    async def quiet(turn):
        return PlanResult.final("The site is dark.")

    agents = [Agent("test.agent", planner=talker.plan), Agent("test.quiet", planner=quiet)]
    client = await serve(App(agents=agents, live=live))
    client = Client(client.temporal, task_queue=client.task_queue, live=live)
    unseen = await client.start("test.quiet", "go")
    await unseen.result()
    run = await client.start("test.agent", "go")
    early = asyncio.Event()
    crowd = [asyncio.create_task(followed(run, early))]
    await early.wait()
    late = [asyncio.Event() for _ in range(49)]
    crowd += [asyncio.create_task(followed(run, seen)) for seen in late]
    await asyncio.gather(*(seen.wait() for seen in late))
    talker.seen.set()
    streams = await asyncio.gather(*crowd)
    assert {tuple(texts(stream)) for stream in streams} == {("The site is dark.",)}
    kinds = [[event.event_type for event in await traces(each).history()] for each in (run, unseen)]
    assert kinds[0] == kinds[1]


async def test_a_follower_without_deltas_requests_none(serve):
    """While a run is followed without deltas, its planner has no writer."""
    writers, go = [], asyncio.Event()

    async def plan(turn):
        await go.wait()
        writers.append(current_deltas())
        return PlanResult.final("done")

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    async for event in run.events():
        if event.type == "plan_started":
            go.set()
        assert event.type not in DELTAS
    assert writers == [None]


async def test_a_handler_gets_deltas(serve):
    """`subscribe` calls the methods of a handler for deltas as for other events."""
    talker, pieces = Talker(), []

    class Show(EventHandler):
        def on_text_delta(self, event):
            pieces.append(event.text)
            if "".join(pieces) == "The site is ":
                talker.seen.set()

    client = await serve(planner=talker.plan)
    run = await client.start("test.agent", "go")
    await subscribe(run.events(deltas=True), Show())
    assert "".join(pieces) == "The site is dark."


async def test_a_redis_killed_in_mid_answer_costs_only_the_deltas(serve, redis):
    """The run completes, and its subscriber gets a beginning of the text and then the message."""
    talker = Talker()
    app = App(agents=[Agent("test.agent", planner=talker.plan)], live=redis.url)
    client = await serve(app)
    run = await Client(client.temporal, task_queue=client.task_queue, live=redis.url).start(
        "test.agent", "go"
    )
    types, text = [], ""
    async for event in run.events(deltas=True):
        types.append(event.type)
        if event.type == "text_delta":
            text += event.text
            if text == "The site is ":
                redis.kill()
                talker.seen.set()
    assert "The site is dark.".startswith(text)
    assert types[-3:] == ["assistant_message", "run_completed", "run_stream_end"]
    assert (await run.result()).text == "The site is dark."


async def test_a_plan_after_a_reset_has_its_own_deltas(serve):
    """A plan after the reset is another plan, even with the same number and attempt."""
    talker = Talker()
    talker.seen.set()
    held = asyncio.Event()
    tools = Toolset("test.tools")

    @tools.tool
    async def hold() -> str:
        """Wait until the run was reset."""
        await held.wait()
        return "held"

    async def plan(turn):
        if turn.messages[-1].role == "tool":
            return await talker.plan(turn)
        await (await wanted()).text("Let me look.")
        return PlanResult.calls(ToolRequest(name=hold.id))

    client = await serve(planner=plan, uses=(tools,))
    run = await client.start("test.agent", "go")
    events = []
    async for event in run.events(deltas=True):
        events.append(event)
        if event.type == "tool_start" and not held.is_set():
            await client.temporal.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace="default",
                    workflow_execution={"workflow_id": run.id},
                    reason="again",
                    request_id="again",
                    workflow_task_finish_event_id=4,
                )
            )
            held.set()
    plans = "".join(
        "|" if event.type == "plan_started" else getattr(event, "text", "") or ""
        for event in events
        if event.type in ("plan_started", *DELTAS)
    )
    assert plans == "|Let me look.|Let me look.|The site is dark."
    assert "planner_note" in [event.type for event in events]


async def test_a_follower_before_the_worker_starts_gets_every_delta(temporal_address):
    """The subscription begins with the first read of the stream, even before a worker has the run."""
    talker = Talker()

    async def plan(turn):
        assert current_deltas() is not None
        return await talker.plan(turn)

    client = await Client.connect(temporal_address, task_queue="not-served-yet")
    run = await client.start("test.agent", "go", wait_for_worker=True)
    events = run.events(deltas=True)
    first = await anext(events)
    async with Worker(App(agents=[Agent("test.agent", planner=plan)]), client):
        talker.seen.set()
        assert texts([first, *[event async for event in events]]) == ["The site is dark."]
