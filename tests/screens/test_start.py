"""What Temporal's CLI shows of a run, its child runs, calls and timers: memo, summaries and details."""

import json
import re
from datetime import timedelta

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolRequest,
)


class Question(BaseModel):
    """What to ask."""

    text: str


async def ask(turn):
    """Wait, then ask a question that expires after a day."""
    if turn.reminders:
        return PlanResult.ask(
            AwaitClarification(id="which", question="Which?", expires_after=timedelta(days=1))
        )
    return PlanResult.wait(timedelta(milliseconds=10))


async def delegate(turn):
    """Have the other agent ask."""
    return PlanResult.calls(ToolRequest(name="ops.desk.ask", payload={"text": "Where is [it](http://x)?"}))


ASKS = RunPolicy(interrupts_allowed=True, time_budget=timedelta(hours=1))
desk = Agent("ops.asker", planner=ask, policy=ASKS)
exported = desk.export("ops.desk", tools=[AgentTool("ask", args=Question, user="{text}")])
app = App(agents=[desk, Agent("ops.boss", planner=delegate, uses=[exported], policy=ASKS)])


@pytest.fixture
async def tree(serve, status_when):
    """A run and its child run, which waits."""
    client = await serve(app)
    run = await client.start("ops.boss", "Look `it` up.", labels={"branch": "north"}, session_id="s-1")
    status = await status_when(run, lambda status: status.child_awaits)
    yield run, client.get_run(status.calls[0].run_link.run_id)
    await run.cancel()


async def test_a_run_and_its_child_run_are_introduced(tree, shell):
    """Each has its agent and its first message in the summary and the details, and readable in memo and search attributes."""
    run, child = tree
    for each, summary, asked, agent in (
        (run, "ops.boss: ``Look `it` up.``", "Look `it` up.", "ops.boss"),
        (child, "ops.asker: ops.desk.ask", "Where is [it](http://x)?", "ops.asker"),
    ):
        _, printed = await shell(f"temporal workflow describe --workflow-id {each.id}")
        details = f"**Asked:**\n\n```\n{asked}\n```\n\n**Labels:**\n\n```\nbranch: north\n```"
        assert f"StaticSummary  {json.dumps(summary)}" in printed
        assert f"StaticDetails  {json.dumps(details)}" in printed
        for name, value in (("SojournAgent", agent), ("SojournSession", "s-1")):
            assert re.search(
                rf'{name}:metadata:[^"]*"encoding"[^"]*"json/plain".*?data:"\\"{value}\\""', printed
            )
        _, printed = await shell(f"temporal workflow show --workflow-id {each.id} --detailed")
        assert f"\nmemo.fields.message: {asked}\n" in printed


async def test_plans_calls_and_timers_have_summaries(tree, shell):
    """The summaries are `plan n`, the tool's id, and the purpose of each timer."""
    run, child = tree
    _, printed = await shell(f"temporal workflow show --workflow-id {child.id} --detailed")
    summaries = re.findall(r"^userMetadata\.summary: (.*)$", printed, re.MULTILINE)
    assert [each for each in summaries if each != "time budget"] == [
        "ops.asker: ops.desk.ask",
        "plan 1",
        "the planner waits",
        "plan 2",
        "expiry of which",
    ]
    assert "time budget" in summaries
    _, printed = await shell(f"temporal workflow show --workflow-id {run.id} --detailed")
    summaries = re.findall(r"^userMetadata\.summary: (.*)$", printed, re.MULTILINE)
    assert "ops.asker: ops.desk.ask" in summaries
