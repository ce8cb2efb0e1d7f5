"""The commands in a run's current details, pasted into a real shell: each does what the text above it says."""

import json
import re
import uuid

import pytest

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    AwaitExternalTools,
    ExternalCall,
    Message,
    PlanResult,
    RunPolicy,
    Toolset,
)
from sojourn.contracts.run import RunInput

IDS = {
    "plain": "q",
    "quotes": "what's \"up\"? \\ 'x",
    "substitutions": "$(touch pwned) `touch pwned` ${HOME} !! ~",
    "separators": "a; touch pwned & touch pwned | tee pwned > pwned # x",
    "options": "--name pause",
    "lines": "two\nlines\r\x1b[31m\u202e",
    "letters": "größe ☃ {0} %s",
    "fences": "``` ```` # *x*",
}
"""Ids of waits, as planners may choose them."""

stores = Toolset("ops.stores")


@stores.tool(destructive=True)
async def clear() -> str:
    """Clear."""
    return "cleared"


@pytest.fixture
def commands(metadata):
    """Return the commands in a run's current details, in order."""

    async def read(run) -> list[str]:
        found = re.findall(
            r"^temporal workflow signal .*$", (await metadata(run)).current_details, re.MULTILINE
        )
        assert all(line.isprintable() for line in found)
        return found

    return read


@pytest.fixture
def started(serve, status_when):
    """Start a run with this planner, and wait until it waits."""

    async def start(planner, run_id=None):
        agent = Agent("ops.agent", planner=planner, uses=[stores], policy=RunPolicy(interrupts_allowed=True))
        client = await serve(App(agents=[agent]))
        if run_id is None:
            run = await client.start("ops.agent", "go")
        else:  # only a client other than ours can choose such an id
            given = RunInput(agent_id="ops.agent", messages=[Message.user("go")])
            await client.temporal.start_workflow("AgentRun", given, id=run_id, task_queue=client.task_queue)
            run = client.get_run(run_id)
        await status_when(run, lambda status: status.awaits)
        return run

    return start


def asking(await_id: str):
    """A planner that asks under this id, then returns the answer."""

    async def plan(turn):
        if turn.run.turn_id == "t1":
            return PlanResult.ask(AwaitClarification(id=await_id, question="Which?"))
        return PlanResult.final(turn.messages[-1].text)

    return plan


async def clearing(turn):
    """Clear, then return the result."""
    if not turn.tool_results:
        return PlanResult.calls(clear.call())
    return PlanResult.final(str(turn.tool_results[0].error or turn.tool_results[0].result))


@pytest.mark.parametrize("await_id", IDS.values(), ids=IDS)
async def test_an_answer_reaches_the_question(started, commands, shell, tmp_path, await_id):
    """A question with any id can be answered; the shell executes no part of the id, and an apostrophe is escaped as in JSON."""
    run = await started(asking(await_id))
    (line,) = await commands(run)
    assert (await shell(line.replace("YOUR ANSWER", r"it\u0027s s-1")))[0] == 0
    assert (await run.result()).text == "it's s-1"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", ["it's $(touch pwned) a run", "--help", "a/b/c", "größe ☃"])
async def test_an_answer_reaches_the_run(started, commands, shell, tmp_path, name):
    """A run with any id can be answered: Temporal's own tools can start a run under any id."""
    run = await started(asking("q"), run_id=f"{name} {uuid.uuid4().hex[:8]}")
    (line,) = await commands(run)
    assert (await shell(line.replace("YOUR ANSWER", "s-1")))[0] == 0
    assert (await run.result()).text == "s-1"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(("which", "text"), [(0, "cleared"), (1, "denied: THE REASON")])
async def test_one_line_approves_and_the_other_denies(started, commands, shell, which, text):
    """The first command approves and the second denies, even with the placeholder left as it is."""
    run = await started(clearing)
    lines = await commands(run)
    assert len(lines) == 2
    assert (await shell(lines[which]))[0] == 0
    assert (await run.result()).text == text


async def test_a_result_from_outside_is_taken(started, commands, shell):
    """The command supplies the result of the first call, and with another call id that of the second."""
    items = [ExternalCall(tool=clear.id, tool_call_id=f"c{n}") for n in range(2)]

    async def plan(turn):
        if not turn.tool_results:
            return PlanResult.ask(AwaitExternalTools(id="it's outside", items=items))
        return PlanResult.final(json.dumps([result.result for result in turn.tool_results]))

    run = await started(plan)
    (line,) = await commands(run)
    assert (await shell(line.replace("THE RESULT", "first")))[0] == 0
    assert (await shell(line.replace("THE RESULT", "second").replace('"c0"', '"c1"')))[0] == 0
    assert json.loads((await run.result()).text) == ["first", "second"]


async def test_a_paused_run_goes_on(started, commands, shell, status_when):
    """The command that resumes a run comes first, before that of its open wait."""
    run = await started(asking("q"))
    await run.pause("let me look")
    resume, _ = await commands(run)
    assert (await shell(resume))[0] == 0
    await status_when(run, lambda status: status.status == "waiting")
    await run.cancel()
