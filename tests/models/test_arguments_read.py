"""What models write in other forms reaches tools of every kind as it was meant, and goes back to the model as it was read."""

import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sojourn import Agent, AgentTool, App, Client, ModelPlanner, PlanResult, Toolset, Turn, Worker, mcp
from sojourn.testing.providers import PROTOCOLS, Protocol, ProviderServer, ToolCall, calls, says

SERVER = str(Path(__file__).parents[1] / "mcp" / "order_server.py")
SCHEMAS = {
    "find": {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "country": {"type": "string"},
            "cursor": {"type": "string", "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
            "count": {"type": "integer"},
            "pages": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["q"],
    },
    "health": {"type": "object", "properties": {}},
    "shot": {
        "type": "object",
        "properties": {"scale": {"enum": ["css", "device"], "default": "css"}},
        "required": ["scale"],
    },
}
done: list[Any] = []
tools = Toolset("test.tools")


class User(BaseModel):
    """A user."""

    age: int
    name: str = ""


@tools.tool
async def health() -> str:
    """Say how it is."""
    return "well"


@tools.tool
async def find(
    q: str,
    country: str = "de",
    tags: list[str] | None = None,
    n: int = 3,
    on: bool = True,
    user: User | None = None,
) -> str:
    """Find."""
    done.append([q, country, tags, n, on, user and user.age])
    return "found"


@tools.tool
async def book(at: datetime, day: date | None = None) -> str:
    """Book."""
    done.append([at.isoformat(), day and day.isoformat()])
    return "booked"


class Question(BaseModel):
    """A question."""

    text: str
    words: int = 5
    tone: str = "plain"


async def answering(turn: Turn) -> PlanResult:
    """Answer with the first message, the arguments."""
    return PlanResult.final(turn.messages[0].text)


clerk = Agent("test.clerk", planner=answering)
clerks = clerk.export("test.clerks", tools=[AgentTool("ask", args=Question, description="Ask.")])

NATIVE, AGENT, SERVED = "test__tools__", "test__clerks__", "test__orders__"
READ: list[tuple[str, str, Any, list[str]]] = [
    (f"{NATIVE}health", "", {}, ["absent "]),
    (f"{NATIVE}health", "  ", {}, ["absent "]),
    (f"{NATIVE}health", "null", {}, ["absent "]),
    (f"{NATIVE}find", '"{\\"q\\": \\"whole\\"}"', {"q": "whole"}, ["json_text "]),
    (f"{SERVED}health", "", {}, ["absent "]),
    (
        f"{NATIVE}find",
        '{"q": "1", "country": null, "tags": "[\\"a\\"]", "n": "100", "on": "false", "user": "{\\"age\\": 25}"}',
        {"q": "1", "tags": ["a"], "n": 100, "on": False, "user": {"age": 25}},
        ["left_out /country", "json_text /tags", "json_text /n", "json_text /on", "json_text /user"],
    ),
    (f"{NATIVE}find", '{"q": "2", "n": ""}', {"q": "2"}, ["left_out /n"]),
    (f"{NATIVE}find", '{"q": "[1]", "n": 10.0}', {"q": "[1]", "n": 10}, ["whole_number /n"]),
    (f"{NATIVE}book", '{"at": "2026-12-01T10:00:00"}', {"at": "2026-12-01T10:00:00"}, []),
    (f"{NATIVE}book", '{"at": "2026-12-01 10:00", "day": "null"}', {"at": "2026-12-01 10:00", "day": None}, ["json_text /day"]),
    (f"{AGENT}ask", '{"text": "x", "words": 10.0, "tone": null}', {"text": "x", "words": 10}, ["left_out /tone", "whole_number /words"]),
    (
        f"{SERVED}find",
        '{"q": "x", "country": null, "cursor": null, "tags": "[\\"a\\"]", "count": 10.0, "pages": [1.0, 2]}',
        {"q": "x", "tags": ["a"], "count": 10, "pages": [1, 2]},
        ["left_out /country", "left_out /cursor", "json_text /tags", "whole_number /count", "whole_number /pages/0"],
    ),
    (f"{SERVED}shot", "{}", {"scale": "css"}, ["default /scale"]),
]  # fmt: skip
EXECUTED = [
    ["whole", "de", None, 3, True, None],
    ["1", "de", ["a"], 100, False, 25],
    ["2", "de", None, 3, True, None],
    ["[1]", "de", None, 10, True, None],
    ["2026-12-01T10:00:00", None],
    ["2026-12-01T10:00:00", None],
]

Start = Callable[..., Awaitable[tuple[Client, ProviderServer, Path]]]


@pytest.fixture
async def start(processes, temporal_address: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Start a worker whose model gives the scripted answers, with tools of every kind."""
    done.clear()
    schemas, called = tmp_path / "schemas.json", tmp_path / "calls.jsonl"
    schemas.write_text(json.dumps(SCHEMAS))
    called.touch()
    async with AsyncExitStack() as stack:

        async def started(protocol: Protocol, *script: Any) -> tuple[Client, ProviderServer, Path]:
            standin = await stack.enter_async_context(ProviderServer())
            standin.script = list(script)
            orders = mcp.McpToolset(
                "test.orders", transport=mcp.Stdio(sys.executable, SERVER, str(schemas), str(called))
            )
            planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
            agent = Agent("test.agent", planner=planner, uses=[tools, clerks, orders])
            client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
            await stack.enter_async_context(Worker(App(agents=[agent, clerk]), client))
            return client, standin, called

        yield started


@pytest.mark.parametrize("protocol", ["openai-chat", "google"])  # one with texts, one with objects
async def test_what_models_write_is_carried_out(start: Start, protocol: Protocol) -> None:
    """One step with each form: each call succeeds with what was meant; events, transcript and the next request have it."""
    objects_only = protocol == "google"
    rows = [row for row in READ if not objects_only or row[1].startswith("{")]
    sent = [ToolCall(name=name, arguments=raw, id=f"call_{n}") for n, (name, raw, *_) in enumerate(rows)]
    client, standin, called = await start(protocol, calls(*sent), says("done"))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "done"

    messages = await run.transcript()
    results = [result for message in messages for result in message.tool_results]
    assert [result.error for result in results] == [None] * len(rows)
    wanted = [(json.dumps(payload), sorted(readings)) for _, _, payload, readings in rows]
    parts = [part for message in messages for part in message.tool_calls]
    events = [event.call async for event in run.events() if event.type == "tool_start"]
    by_id = {call.tool_call_id: call for call in events}
    for found in (parts, [by_id[part.tool_call_id] for part in parts]):
        assert [
            (
                json.dumps(each.payload if each.raw is None else json.loads(each.raw)),
                sorted(f"{reading.kind} {reading.field}" for reading in each.readings),
            )
            for each in found
        ] == wanted
    back = [call.arguments for call in standin.requests[-1].tool_calls]
    assert [json.dumps(json.loads(text)) for text in back] == [payload for payload, _ in wanted]
    assert [part.written for part in parts if part.readings] == [
        raw for _, raw, _, readings in rows if readings
    ]

    executed = [each for each in EXECUTED if not objects_only or each[0] != "whole"]
    assert sorted(map(str, done)) == sorted(map(str, executed))
    asked = next(
        result for call, result in zip(parts, results, strict=True) if call.name == "test.clerks.ask"
    )
    assert json.loads(asked.result) == {"text": "x", "words": 10}
    served = [json.loads(line) for line in called.read_text().splitlines()]
    lines = [row[2] for row in rows if row[0].startswith(SERVED)]
    assert sorted(map(json.dumps, served)) == sorted(map(json.dumps, lines))


async def test_a_fault_is_told_of_what_was_read(start: Start) -> None:
    """What remains wrong is told of the arguments as read, so that a hint asks for no more than what is missing."""
    sent = ToolCall(name=f"{NATIVE}find", arguments='{"q": 7, "n": "5", "country": null}')
    nothing = ToolCall(name=f"{NATIVE}book", arguments="")
    client, _, _ = await start(PROTOCOLS[0], calls(sent, nothing), says("done"))
    run = await client.start("test.agent", "go")
    await run.result()
    first, second = [result for message in await run.transcript() for result in message.tool_results]
    assert [issue.field for issue in first.retry_hint.issues] == ["/q"]
    assert first.retry_hint.prior_input == {"q": 7, "n": 5}
    assert (second.retry_hint.reason, second.retry_hint.missing_fields) == ("missing_fields", ["at"])
