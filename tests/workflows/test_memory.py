"""The memory of a run: planners and tools read it, and change it by patches, which are recorded, continued and forked."""

import asyncio
import importlib
from typing import Any

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
    WithArtifacts,
)
from sojourn.contracts import WithMemory
from sojourn.contracts.memory import MAX_MEMORY_BYTES
from tests.workflows.test_endless import executions

room = importlib.import_module("workflows.history_budget")


class Question(BaseModel):
    text: str


notes = Toolset("memo.notes")
seen: list[dict] = []
ran: list[str] = []


@notes.tool(artifacts={"chart": list[int]})
async def keep(name: str, value: str) -> WithMemory[str]:
    """Keep a value."""
    ran.append(name)
    return WithMemory(f"kept {name}", {name: value or None})


@notes.tool(memory=True, read_only=True)
async def look(meta: ToolCallMeta) -> dict[str, Any]:
    """Say what is kept."""
    return dict(meta.memory)


@notes.tool(memory=True, read_only=True, local=True)
async def look_here(meta: ToolCallMeta) -> int:
    """Say how much is kept."""
    return len(meta.memory)


@notes.tool(memory=True, read_only=True)
def look_in_a_thread(meta: ToolCallMeta) -> list[str]:
    """Say what is kept, from a thread."""
    return sorted(meta.memory)


@notes.tool(read_only=True)
async def look_undeclared(meta: ToolCallMeta) -> int:
    """Read the memory without saying so."""
    return len(meta.memory)


@notes.tool(artifacts={"chart": list[int]})
async def draw() -> WithMemory[WithArtifacts[str]]:
    """Draw, and keep that it was drawn."""
    return WithMemory(WithArtifacts("drawn", chart=[1, 2]), {"drawn": {"charts": 1}})


@notes.tool
async def keep_a_class() -> WithMemory[str]:
    """Keep what is no JSON."""
    return WithMemory("ok", {"class": object()})


@notes.tool
async def fill(size: int) -> WithMemory[str]:
    """Keep a long text."""
    ran.append("fill")
    return WithMemory("filled", {f"text-{size}": "x" * size})


def kept(name: str, value: str, call_id: str = "") -> ToolRequest:
    return ToolRequest(name="memo.notes.keep", payload={"name": name, "value": value}, tool_call_id=call_id)


def looks(tool: str = "look") -> PlanResult:
    return PlanResult.calls(ToolRequest(name=f"memo.notes.{tool}"))


def by_turns(*steps):
    """A planner that notes the memory it reads, and plans the next step."""

    async def plan(turn: Turn) -> PlanResult:
        seen.append(dict(turn.memory))
        step = steps[min(len(seen), len(steps)) - 1]
        return step(turn) if callable(step) else step

    return plan


@pytest.fixture(autouse=True)
def _clean():
    seen.clear()
    ran.clear()


POLICY = RunPolicy(interrupts_allowed=True, max_tool_rounds=1000, max_tool_calls=1000)


async def test_planners_and_tools_read_what_they_have_changed(serve):
    """Each plan and each call reads the memory as the steps before have left it; events, status and queries agree."""
    client = await serve(
        planner=by_turns(
            PlanResult.calls(kept("a", "1"), kept("b", "2"), memory={"who": {"name": "ana", "age": 7}}),
            looks(),
            PlanResult.calls(kept("a", ""), memory={"who": {"age": None}}),
            looks("look_here"),
            looks("look_in_a_thread"),
            lambda turn: PlanResult.final(str(turn.results[-1].result), memory={"done": [1, {"x": None}]}),
        ),
        uses=(notes,),
        policy=POLICY,
    )
    run = await client.start("test.agent", "go")
    output = await run.result()
    first = {"who": {"name": "ana", "age": 7}, "a": "1", "b": "2"}
    second = {"who": {"name": "ana"}, "b": "2"}
    assert seen == [{}, first, first, second, second, second]
    assert output.text == str(["b", "who"])
    events = [event async for event in run.events()]
    changes = [(event.patch, event.tool_call_id) for event in events if event.type == "memory_changed"]
    ids = [event.call.tool_call_id for event in events if event.type == "tool_start"]
    assert changes == [
        ({"who": {"name": "ana", "age": 7}}, None),
        ({"a": "1"}, ids[0]),
        ({"b": "2"}, ids[1]),
        ({"who": {"age": None}}, None),
        ({"a": None}, ids[3]),
        ({"done": [1, {"x": None}]}, None),
    ]
    results = {e.result.tool_call_id: e.result.result for e in events if e.type == "tool_end"}
    assert [results[call_id] for call_id in ids] == ["kept a", "kept b", first, "kept a", 2, ["b", "who"]]
    assert await run.memory() == {**second, "done": [1, {"x": None}]}
    transcript = await run.transcript()
    assert not any(result.memory for message in transcript for result in message.tool_results)


async def test_a_tool_that_does_not_declare_it_gets_an_error_and_not_an_empty_memory(serve):
    """`meta.memory` of a tool without `memory=True` fails the call, and says what to declare."""
    client = await serve(
        planner=by_turns(
            looks("look_undeclared"),
            lambda turn: PlanResult.final(str(turn.tool_results[0].error)),
        ),
        uses=(notes,),
        policy=POLICY,
    )
    assert "declare it with memory=True" in (await client.execute("test.agent", "go")).text


async def test_the_memory_cannot_be_changed_in_place(serve):
    """A change in place would be lost, so that it raises, in planners and tools, at every depth."""

    def change(turn: Turn) -> PlanResult:
        faults = []
        for attempt in (
            lambda memory: memory.update(x=1),
            lambda memory: memory.__setitem__("x", 1),
            lambda memory: memory["list"].append(2),
            lambda memory: memory["object"].pop("a"),
        ):
            with pytest.raises(TypeError, match="read-only") as raised:
                attempt(turn.memory)
            faults.append(str(raised.value))
        return PlanResult.final(f"{len(faults)} {turn.memory['list']}")

    memory = {"list": [1], "object": {"a": {}}}
    client = await serve(
        planner=by_turns(PlanResult.calls(kept("x", ""), memory=memory), change), uses=(notes,), policy=POLICY
    )
    assert (await client.execute("test.agent", "go")).text == "4 [1]"


async def test_an_artifact_and_a_change_of_the_memory_come_with_one_result(serve):
    """`WithMemory(WithArtifacts(...), ...)` records all three."""
    client = await serve(
        planner=by_turns(looks("draw"), PlanResult.final("done")), uses=(notes,), policy=POLICY
    )
    run = await client.start("test.agent", "go")
    await run.result()
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    assert (end.result.result, [artifact.kind for artifact in end.result.artifacts]) == ("drawn", ["chart"])
    assert await run.memory() == {"drawn": {"charts": 1}}


async def test_a_patch_that_is_no_json_is_a_malformed_response(serve):
    """The call is answered with the reason, and the memory stays."""
    client = await serve(
        planner=by_turns(
            looks("keep_a_class"), lambda turn: PlanResult.final(str(turn.tool_results[0].error))
        ),
        uses=(notes,),
        policy=POLICY,
    )
    run = await client.start("test.agent", "go")
    assert "is not a JSON value" in (await run.result()).text
    assert await run.memory() == {}


async def test_a_plan_that_makes_the_memory_too_large_is_corrected(serve):
    """The planner is told why its plan is refused, and plans again; the memory stays as it was."""
    large = {"text": "x" * (MAX_MEMORY_BYTES - 100)}
    client = await serve(
        planner=by_turns(
            PlanResult.calls(kept("a", "1"), memory=large),
            PlanResult.final("too much", memory={"more": "y" * 100}),
            lambda turn: PlanResult.final(turn.reminders[0], memory={"text": None}),
        ),
        uses=(notes,),
        policy=POLICY,
    )
    run = await client.start("test.agent", "go")
    assert "has at most 64,000" in (await run.result()).text
    assert await run.memory() == {"a": "1"}
    assert [len(memory) for memory in seen] == [0, 2, 2]


async def test_a_call_that_would_make_the_memory_too_large_changes_nothing_and_is_told(serve):
    """The call has its result, the patch is refused whole, planner and people are told, and the next patch is judged anew."""
    calls = [
        ToolRequest(name="memo.notes.fill", payload={"size": size}, tool_call_id=f"c{size}")
        for size in (40_000, 30_000, 20_000)
    ]
    client = await serve(
        planner=by_turns(
            PlanResult.calls(*calls),
            lambda turn: PlanResult.final(" ".join(turn.reminders)),
        ),
        uses=(notes,),
        policy=POLICY,
    )
    run = await client.start("test.agent", "go")
    output = await run.result()
    assert "not changed by call c30000 of memo.notes.fill: it would have 70," in output.text
    assert sorted(await run.memory()) == ["text-20000", "text-40000"]
    events = [event async for event in run.events()]
    assert [e.tool_call_id for e in events if e.type == "memory_changed"] == ["c40000", "c20000"]
    assert any("c30000" in e.text for e in events if e.type == "planner_note")
    assert all(e.result.ok for e in events if e.type == "tool_end")


async def test_a_large_memory_is_not_recorded_with_each_plan_and_call(serve):
    """A memory of 50 KB costs its bytes once: plans and calls read it from the run."""
    steps = [PlanResult.calls(kept("a", "1"), memory={"text": "x" * 50_000})]
    steps += [looks("look_in_a_thread"), looks("look_here")] * 5
    client = await serve(
        planner=by_turns(*steps, lambda turn: PlanResult.final(str(turn.results[-1].result))),
        uses=(notes,),
        policy=POLICY,
    )
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "2"
    assert [len(memory) for memory in seen] == [0, *[2] * 11]
    history = await client.temporal.get_workflow_handle(run.id).describe()
    assert history.raw_description.workflow_execution_info.history_size_bytes < 50_000 + 40_000


@pytest.mark.parametrize("size", [10, 20_000])
async def test_a_conversation_remembers_over_turns_and_executions(serve, monkeypatch, size):
    """The memory goes on from turn to turn and from execution to execution; a turn that fails keeps what it changed."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 40)

    async def plan(turn: Turn) -> PlanResult:
        text = turn.messages[-1].text
        count = turn.memory.get("count", 0)
        if text == "fail":
            return PlanResult.fail("no", memory={"count": count + 1})
        return PlanResult.final(f"{count}", memory={"count": count + 1, "text": "x" * size})

    client = await serve(planner=plan, policy=POLICY)
    session = client.session("test.agent", f"memory-{size}")
    for n in range(20):
        turn = await session.send("fail" if n == 5 else f"m{n}")
        if n != 5:
            assert (await turn.result()).text == str(n)
    assert await session.memory() == {"count": 20, "text": "x" * size}
    assert len(await executions(client, session.run.id)) > 1
    events = [event async for event in session.events(follow=False)]
    assert [e.patch["count"] for e in events if e.type == "memory_changed"] == list(range(1, 21))


async def test_an_interrupted_turn_keeps_what_its_answered_calls_changed(serve, until):
    """The calls that ended before the interruption have changed the memory, the cancelled one has not."""
    slow = Toolset("memo.slow")
    begun = asyncio.Event()

    @slow.tool
    async def stand() -> WithMemory[str]:
        """Take for ever."""
        begun.set()
        await asyncio.sleep(600)
        return WithMemory("never", {"never": True})

    client = await serve(
        planner=by_turns(
            PlanResult.calls(kept("a", "1"), ToolRequest(name="memo.slow.stand")), PlanResult.final("ok")
        ),
        uses=(notes, slow),
        policy=POLICY,
    )
    session = client.session("test.agent", "interrupted")
    await session.send("go")
    await begun.wait()

    async def is_kept() -> bool:
        return ran == ["a"]

    assert await until(is_kept)
    turn = await session.send("stop", mode="interrupt")
    await turn.result()
    assert seen[1] == {"a": "1"}
    assert await session.memory() == {"a": "1"}
    events = [event async for event in session.events(follow=False)]
    assert [e.patch for e in events if e.type == "memory_changed"] == [{"a": "1"}]


async def test_a_fork_begins_with_the_memory_of_its_point(serve):
    """A fork knows what the run knew at that event, and changes its own memory only."""
    client = await serve(
        planner=by_turns(
            PlanResult.calls(kept("a", "1", "c1")),
            PlanResult.calls(kept("b", "2", "c2")),
            PlanResult.final("done"),
        ),
        uses=(notes,),
        policy=POLICY,
    )
    run = await client.start("test.agent", "go")
    await run.result()
    ends = [event async for event in run.events() if event.type == "tool_end"]
    seen[:] = [{}, {}]
    fork = await client.fork(run.id, at=ends[0].event_id)
    await fork.result()
    assert seen[2:] == [{"a": "1"}]
    assert await fork.memory() == {"a": "1"}
    assert await run.memory() == {"a": "1", "b": "2"}


async def test_a_child_run_has_a_memory_of_its_own(serve):
    """An agent used as a tool begins with an empty memory, and changes none but its own."""
    inner = Agent(
        "memo.inner",
        planner=by_turns(PlanResult.final("inner", memory={"of": "the child"})),
        policy=POLICY,
    )
    asking = inner.export("memo.tools", tools=[AgentTool("ask", args=Question)])
    outer: list[dict] = []

    async def plan(turn: Turn) -> PlanResult:
        outer.append(dict(turn.memory))
        if not turn.results:
            request = ToolRequest(name="memo.tools.ask", payload={"text": "x"})
            return PlanResult.calls(request, memory={"of": "the parent"})
        return PlanResult.final("done")

    outer_agent = Agent("test.agent", planner=plan, uses=[asking], policy=POLICY)
    client = await serve(App(agents=[outer_agent, inner]))
    run = await client.start("test.agent", "go")
    await run.result()
    assert seen == [{}]
    assert outer == [{}, {"of": "the parent"}]
    assert await run.memory() == {"of": "the parent"}
