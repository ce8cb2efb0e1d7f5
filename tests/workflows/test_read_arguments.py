"""Arguments are read before anybody decides about a call: what is decided, shown, carried out and remembered is one."""

import html
import re
from typing import Any

import pytest

from sojourn import (
    Agent,
    App,
    AwaitConfirmation,
    Case,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    flow,
)
from sojourn.asgi import create_app
from sojourn.network import http_client
from sojourn.policy import PolicyDecision, PolicyInput
from sojourn.testing import ScriptedPlanner
from tests.http.conftest import listening

WRITTEN = '{"amount": "10.0", "note": null, "to": "[\\"a\\"]"}'
READ = {"amount": 10, "to": ["a"]}
paid: list[tuple[int, str, list[str]]] = []
bank = Toolset("test.bank")


@bank.tool(confirmation="Pay {amount}?", destructive=True)
async def pay(amount: int, to: list[str], note: str = "") -> str:
    """Pay."""
    paid.append((amount, note, to))
    return "paid"


class Watching:
    """A policy engine and interceptor that record what they are given."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, Any], str | None]] = []

    async def decide(self, given: PolicyInput) -> PolicyDecision:
        self.seen += [(call.arguments, call.raw) for call in given.requested]
        return PolicyDecision()

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        self.seen.append((call.arguments, call.raw))
        return call


@pytest.mark.parametrize("written", ["by a model", "by code"])
async def test_what_is_approved_is_what_runs(serve, until, written) -> None:
    """A person is shown the arguments as read; policy engine, interceptor and tool get the same."""
    paid.clear()
    sent: dict[str, Any] = {"amount": "10.0", "note": None, "to": '["a"]'}
    call = (
        ToolRequest(name=pay.id, raw=WRITTEN)
        if written == "by a model"
        else ToolRequest(name=pay.id, payload=sent)
    )
    watching, planner = Watching(), ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
    agent = Agent("test.agent", planner=planner, uses=[bank], policy=RunPolicy(interrupts_allowed=True))
    client = await serve(App(agents=[agent], policy_engine=watching, interceptors=[watching]))
    run = await client.start("test.agent", "go")

    async def waiting() -> AwaitConfirmation | None:
        waits = (await run.status()).awaits
        return waits[0] if waits else None

    wait = await until(waiting)
    assert (wait.payload, wait.prompt) == (READ, "Pay 10?")
    await run.approve(wait.id)
    await run.result()
    assert paid == [(10, "", ["a"])]
    assert watching.seen == [(READ, None), (READ, None)]
    (part,) = [part for message in await run.transcript() for part in message.tool_calls]
    assert (part.payload, part.raw) == (READ, None)
    assert sorted((each.kind, each.field) for each in part.readings) == [
        ("json_text", "/amount"),
        ("json_text", "/to"),
        ("left_out", "/note"),
    ]


async def test_a_flow_knows_its_own_calls(serve) -> None:
    """A flow whose arguments were read finds its calls by what it wrote, and does not call them changed."""
    taken: list[int] = []
    tools = Toolset("test.tools")

    @tools.tool
    async def take(n: int, note: str = "") -> int:
        """Take."""
        taken.append(n)
        return n

    @flow
    def desk(case: Case) -> str:
        """Take two."""
        first = case.call("test.tools.take", n=10.0, note=None)
        second = case.call("test.tools.take", n="11")
        return f"{first} {second}"

    client = await serve(planner=desk, uses=(tools,))
    run = await client.start("test.agent", "go")
    output = await run.result()
    assert (output.text, output.notes, taken) == ("10 11", [], [10, 11])


async def test_calls_for_the_outside_have_their_arguments_read(serve, until) -> None:
    """A program outside gets the arguments as read."""
    outside = Toolset("test.outside", external=True)
    outside.declare("pay", args=pay.payload.source, result=str)
    call = ToolRequest(name="test.outside.pay", raw=WRITTEN)
    planner = ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
    client = await serve(planner=planner, uses=(outside,))
    run = await client.start("test.agent", "go")

    async def waiting() -> Any:
        waits = (await run.status()).awaits
        return waits[0] if waits else None

    wait = await until(waiting)
    assert [item.payload for item in wait.items] == [READ]
    await run.cancel("seen")


async def test_the_console_shows_what_was_read(serve) -> None:
    """The page of a call has the arguments as read, what was read, and what was written."""
    tools = Toolset("test.tools")

    @tools.tool(read_only=True)
    async def look(n: int, note: str = "") -> int:
        """Look."""
        return n

    call = ToolRequest(name="test.tools.look", raw='{"n": "5", "note": null}')
    planner = ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=planner, uses=[tools])])
    client = await serve(app)
    run = await client.start("test.agent", "go")
    await run.result()
    (part,) = [part for message in await run.transcript() for part in message.tool_calls]
    async with (
        listening(create_app(app, client=client)) as url,
        http_client(base_url=url, timeout=30) as http,
    ):
        page = html.unescape((await http.get(f"/runs/{run.id}/calls/{part.tool_call_id}")).text)
    text = " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert "Read without loss: /n decoded from a text; /note left out (null or blank). Written as:" in text
    assert '"note": null' in text
