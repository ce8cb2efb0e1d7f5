"""Live text of real runs: told while it is said, once, and at no cost to the run."""

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
    """The sink, once somebody follows."""
    while (deltas := current_deltas()) is None:
        await asyncio.sleep(0.005)
    return deltas


class Talker:
    """Says two pieces, waits until they were seen, says a third, and answers."""

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
    """All that a subscriber is told; `seen` is set with the second piece."""
    told, text = [], ""
    async for event in run.events(deltas=True, **options):
        told.append(event)
        if event.type == "text_delta":
            text += event.text
            if seen and text.endswith("The site is "):
                seen.set()
    return told


def texts(events) -> list[str]:
    """What was shown, anew with each restart."""
    shown = [""]
    for event in events:
        if event.type == "stream_restarted":
            shown.append("")
        elif event.type == "text_delta":
            shown[-1] += event.text
    return shown


async def test_text_is_told_before_the_message(serve):
    """Between the plan's start and its message, with no id; the rest of the stream is what it is without."""
    talker = Talker()
    client = await serve(planner=talker.plan)
    run = await client.start("test.agent", "go", session_id="s")
    told = await followed(run, talker.seen)
    deltas = [event for event in told if event.type in DELTAS]
    assert texts(told) == ["The site is dark."]
    first, last = told.index(deltas[0]), told.index(deltas[-1])
    assert (told[first - 1].type, told[last + 1].type) == ("plan_started", "assistant_message")
    assert {(event.event_id, event.run_id, event.session_id, event.agent_id) for event in deltas} == {
        ("", run.id, "s", "test.agent")
    }
    rest = [event for event in told if event not in deltas]
    assert rest == [event async for event in run.events()]
    assert [event async for event in run.events(deltas=True)] == rest


async def test_after_a_failed_attempt_the_text_is_told_anew(serve):
    """`stream_restarted` comes first, so that nothing is shown twice."""
    talker, tries = Talker(), []

    async def plan(turn):
        tries.append(1)
        if len(tries) > 1:
            return await talker.plan(turn)
        await (await wanted()).text("The site is ")
        await talker.seen.wait()
        raise RuntimeError("the model hung up")

    client = await serve(planner=plan)
    told = await followed(await client.start("test.agent", "go"), talker.seen)
    assert texts(told) == ["The site is ", "The site is dark."]
    (restarted,) = [event for event in told if event.type == "stream_restarted"]
    assert (restarted.plan, restarted.attempt, restarted.event_id) == (1, 2, "")


async def test_each_plan_tells_its_own(serve):
    """Thinking and calls too; what a plan said ends with its message."""
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
    told = await followed(await client.start("test.agent", "go"))
    kinds = ("plan_started", "assistant_message", "tool_start", *DELTAS)
    assert [event.type for event in told if event.type in kinds] == [
        "plan_started",
        "thinking_delta",
        "tool_call_delta",
        "assistant_message",
        "tool_start",
        "plan_started",
        "text_delta",
        "assistant_message",
    ]
    (call,) = [event for event in told if event.type == "tool_call_delta"]
    assert (call.tool_name, call.index, call.text) == (note.id, 0, '{"text": "a"}')


async def test_child_runs_tell_theirs(serve):
    """With their run's id and the call that they answer, before the call's end."""
    talker = Talker()
    child = Agent("test.child", planner=talker.plan)
    asked = child.export("test.oracle", tools=[AgentTool("ask", args=Question)])
    request = ToolRequest(name="test.oracle.ask", payload={"text": "?"}, tool_call_id="c1")

    async def plan(turn):
        if turn.messages[-1].role == "tool":
            return PlanResult.final("done")
        return PlanResult.calls(request)

    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[asked]), child]))
    run = await client.start("test.agent", "go")
    told = await followed(run, talker.seen, children=True)
    deltas = [event for event in told if event.type == "text_delta"]
    assert texts(told) == ["The site is dark."]
    assert {(event.run_id, event.parent_tool_call_id) for event in deltas} == {(f"{run.id}/c1", "c1")}
    types = [event.type for event in told]
    assert types.index("agent_run_started") < told.index(deltas[0])
    assert told.index(deltas[-1]) < types.index("tool_end")


@pytest.mark.parametrize("over", ["this process", "redis"])
async def test_fifty_subscribers_add_nothing_to_the_history(serve, redis, traces, over):
    """Each is told all of it, those that come in mid-answer too; the run's history is that of an unseen one."""
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
    assert {tuple(texts(told)) for told in streams} == {("The site is dark.",)}
    kinds = [[event.event_type for event in await traces(each).history()] for each in (run, unseen)]
    assert kinds[0] == kinds[1]


async def test_nobody_asks_and_the_planner_makes_a_plain_request(serve):
    """Who follows without deltas asks for none."""
    sinks, go = [], asyncio.Event()

    async def plan(turn):
        await go.wait()
        sinks.append(current_deltas())
        return PlanResult.final("done")

    client = await serve(planner=plan)
    run = await client.start("test.agent", "go")
    async for event in run.events():
        if event.type == "plan_started":
            go.set()
        assert event.type not in DELTAS
    assert sinks == [None]


async def test_a_handler_is_told(serve):
    """`subscribe` calls its methods for deltas as for events."""
    talker, told = Talker(), []

    class Show(EventHandler):
        def on_text_delta(self, event):
            told.append(event.text)
            if "".join(told) == "The site is ":
                talker.seen.set()

    client = await serve(planner=talker.plan)
    run = await client.start("test.agent", "go")
    await subscribe(run.events(deltas=True), Show())
    assert "".join(told) == "The site is dark."


async def test_a_redis_killed_in_mid_answer_costs_only_the_deltas(serve, redis):
    """The run is answered, and its subscriber told so; what it was shown is the beginning of the message."""
    talker = Talker()
    app = App(agents=[Agent("test.agent", planner=talker.plan)], live=redis.url)
    client = await serve(app)
    run = await Client(client.temporal, task_queue=client.task_queue, live=redis.url).start(
        "test.agent", "go"
    )
    told, text = [], ""
    async for event in run.events(deltas=True):
        told.append(event.type)
        if event.type == "text_delta":
            text += event.text
            if text == "The site is ":
                redis.kill()
                talker.seen.set()
    assert "The site is dark.".startswith(text)
    assert told[-3:] == ["assistant_message", "run_completed", "run_stream_end"]
    assert (await run.result()).text == "The site is dark."


async def test_a_run_that_is_reset_tells_its_new_turn(serve):
    """The turn after the reset is another, whatever its number and attempt."""
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
    told = []
    async for event in run.events(deltas=True):
        told.append(event)
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
        for event in told
        if event.type in ("plan_started", *DELTAS)
    )
    assert plans == "|Let me look.|Let me look.|The site is dark."
    assert "planner_note" in [event.type for event in told]


async def test_who_follows_before_the_worker_starts_misses_nothing(temporal_address):
    """The subscription stands as soon as the stream is read."""
    talker = Talker()

    async def plan(turn):
        assert current_deltas() is not None
        return await talker.plan(turn)

    client = await Client.connect(temporal_address, task_queue="not-served-yet")
    run = await client.start("test.agent", "go", wait_for_worker=True)
    told = run.events(deltas=True)
    first = await anext(told)
    async with Worker(App(agents=[Agent("test.agent", planner=plan)]), client):
        talker.seen.set()
        assert texts([first, *[event async for event in told]]) == ["The site is dark."]
