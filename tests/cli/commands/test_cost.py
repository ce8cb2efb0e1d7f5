"""`sojourn cost`: sums over runs whose usage is known."""

import asyncio
import json
import uuid
from datetime import date

import pytest
from pydantic import BaseModel

from sojourn import Agent, AgentTool, App, AwaitClarification, PlanResult, Principal, RunPolicy, Turn
from sojourn.contracts.plan import Usage

BELOW = Usage(input_tokens=100, output_tokens=10, cost=0.5, model="small")
ABOVE = Usage(input_tokens=1_000, output_tokens=1, cost=0.25, model="large")
UNPRICED = Usage(input_tokens=7, output_tokens=3, model="local")


class Question(BaseModel):
    """What to ask below."""

    text: str


def used(plan: PlanResult, usage: Usage) -> PlanResult:
    """The plan, with what it used."""
    return plan.model_copy(update={"usage": usage})


async def below(_turn: Turn) -> PlanResult:
    """Answer."""
    return used(PlanResult.final("done"), BELOW)


@pytest.fixture
async def spent(serve, command, temporal_address, until, status_when):
    """A command on a server with four runs of one session: answered, unpriced, open after a call, and failed after a call."""
    service = f"s{uuid.uuid4().hex[:8]}"
    child = Agent(f"{service}.below", planner=below)
    asking = child.export(f"{service}.asking", tools=[AgentTool("ask", args=Question, user="{text}")])

    async def above(turn: Turn) -> PlanResult | None:
        word = turn.messages[0].text
        if word == "cheap":
            return used(PlanResult.final("done"), UNPRICED)
        if not turn.tool_results:
            return used(PlanResult.calls(asking.tools["ask"].call(Question(text="?"))), ABOVE)
        if word == "fail":
            return PlanResult.fail("no")
        return PlanResult.ask(AwaitClarification(question="?")) if word == "ask" else PlanResult.final("done")

    policy = RunPolicy(interrupts_allowed=True)
    parent = Agent(f"{service}.above", planner=above, uses=[asking], policy=policy)
    client = await serve(App(agents=[parent, child]))
    runs = {}
    for word in ("answer", "cheap", "ask", "fail"):
        principal = Principal(subject="ana", tenant="acme") if word == "cheap" else None
        runs[word] = await client.start(parent.id, word, session_id=service, principal=principal)
    await runs["answer"].result()
    await runs["cheap"].result()
    await status_when(runs["ask"], lambda status: status.awaits)
    await status_when(runs["fail"], lambda status: status.status == "failed")

    async def are_listed() -> bool:
        found = [run async for run in client.list_runs(session_id=service, children=False)]
        return sorted(run.status for run in found) == ["completed", "completed", "failed", "waiting"]

    await until(are_listed)

    async def run(*arguments: str):
        return await command(
            "cost", "--session", service, *arguments, env={"TEMPORAL_ADDRESS": temporal_address}
        )

    return service, run


async def test_runs_are_summed_with_their_child_runs(spent):
    """Each run counts once with its child runs, whether it answered, failed or is open; a cost that is unknown is said."""
    service, cost = spent
    found = json.loads((await cost("--json")).out)
    sums = {
        "runs": 4,
        "input_tokens": 3 * 1_100 + 7,
        "output_tokens": 3 * 11 + 3,
        "cost": 3 * 0.75,
        "unpriced": 1,
    }
    assert found["rows"] == [{"agent_id": f"{service}.above", **sums}]
    assert found["total"] == sums
    assert {name: found[name] for name in ("looked_at", "has_more", "open", "unread", "by")} == {
        "looked_at": 4,
        "has_more": False,
        "open": 1,
        "unread": [],
        "by": "agent",
    }
    table = (await cost("--since", "1h", "--by", "session")).out.splitlines()
    assert table[0].split() == ["SESSION", "RUNS", "TOKENS", "IN", "OUT", "COST"]
    assert table[1].split() == [service, "4", "3,307", "36", "$2.25"]
    assert table[2].split() == ["total", "4", "3,307", "36", "$2.25"]
    assert table[3].startswith("looked at 4 runs since ")
    assert table[4:] == [
        "1 not ended, counted up to now",
        "the cost of 1 is unknown, and counted as nothing",
    ]


async def test_runs_are_summed_by_model_tenant_and_day(spent):
    """A run counts for each model that it or a child run used; days are those of this machine, tenants those of the runs."""
    _service, cost = spent
    by_model, by_tenant, by_day, table = await asyncio.gather(
        cost("--by", "model", "--json"),
        cost("--by", "tenant", "--json"),
        cost("--by", "day", "--json"),
        cost("--by", "tenant"),
    )
    total = json.loads(by_tenant.out)["total"]
    priced = {"input_tokens": 3_000, "output_tokens": 3, "cost": 0.75, "unpriced": 0}
    below = {"input_tokens": 300, "output_tokens": 30, "cost": 1.5, "unpriced": 0}
    assert json.loads(by_model.out)["rows"] == [
        {"model": "small", "runs": 3, **below},
        {"model": "large", "runs": 3, **priced},
        {"model": "local", "runs": 1, "input_tokens": 7, "output_tokens": 3, "cost": None, "unpriced": 1},
    ]
    assert json.loads(by_model.out)["total"] == total
    assert [row["tenant"] for row in json.loads(by_tenant.out)["rows"]] == ["", "acme"]
    days = [row["day"] for row in json.loads(by_day.out)["rows"]]
    assert days
    assert all(date.fromisoformat(day) for day in days)
    assert "(no tenant)" in table.out


async def test_runs_that_are_left_out_are_not_counted(spent):
    """A child's agent has no line of its own, and a later start leaves nothing."""
    service, cost = spent
    assert json.loads((await cost("--agent", f"{service}.below", "--json")).out)["looked_at"] == 0
    assert json.loads((await cost("--since", "2100-01-01", "--json")).out)["rows"] == []


async def test_a_bad_group_or_period_is_bad_usage(command):
    """The error names what is possible, also without a server."""
    env = {"TEMPORAL_ADDRESS": "127.0.0.1:1"}
    by, since = (
        await command("cost", "--by", "planet", env=env),
        await command("cost", "--since", "x", env=env),
    )
    assert (by.code, "agent, session" in by.err) == (2, True)
    assert (since.code, "30m, 2h or 7d" in since.err) == (2, True)
