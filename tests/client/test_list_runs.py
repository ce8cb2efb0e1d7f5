"""Listings: runs found by agent, session and status."""

import uuid
from itertools import product

import pytest

from sojourn import Agent, App, AwaitClarification, InvalidInput, PlanResult, RunPolicy, RunStatus, Toolset
from sojourn.testing.scripted import ScriptedPlanner

LISTED = {"run_id", "agent_id", "session_id", "status", "awaiting", "gave_up", "started_at", "closed_at"}


async def test_runs_are_found_by_agent_session_and_status(serve, until, status_when):
    """A listing has exactly the runs that fit every filter, newest first, with their status."""
    service = f"s{uuid.uuid4().hex[:8]}"
    asking = ScriptedPlanner(
        [PlanResult.ask(AwaitClarification(id="q", question="which?")), PlanResult.final("done")]
    )
    client = await serve(
        App(
            agents=[
                Agent(f"{service}.done", planner=ScriptedPlanner([PlanResult.final("done")])),
                Agent(f"{service}.asks", planner=asking, policy=RunPolicy(interrupts_allowed=True)),
            ]
        )
    )
    sessions = [f"{service} é ☃ (%_)", f"{service}-two"]
    ids = {}
    for agent in ("done", "asks"):
        for session in sessions:
            run = await client.start(f"{service}.{agent}", "go", session_id=session)
            ids[agent, session] = run.id
            if agent == "done":
                await run.result()
            else:
                await status_when(run, lambda status: status.awaits)

    async def listed(**filters):
        return [run.run_id async for run in client.list_runs(**filters)]

    async def becomes(expected, **filters):
        async def fits():
            return set(await listed(**filters)) == set(expected)

        await until(fits)

    done, asks = f"{service}.done", f"{service}.asks"
    await becomes([ids["done", session] for session in sessions], agent_id=done)
    await becomes([ids[agent, sessions[0]] for agent in ("done", "asks")], session_id=sessions[0])
    await becomes([ids["asks", session] for session in sessions], agent_id=asks, status="waiting")
    await becomes([ids["asks", sessions[1]]], session_id=sessions[1], status="waiting")
    await becomes([ids["done", sessions[1]]], session_id=sessions[1], status="completed")
    await becomes([], session_id=sessions[1], status="timed_out")
    await becomes([ids["asks", session] for session in sessions], agent_id=asks, status="running")
    assert await listed(agent_id=asks) == [ids["asks", session] for session in reversed(sessions)]
    (found,) = [run async for run in client.list_runs(agent_id=asks, session_id=sessions[0])]
    assert (found.agent_id, found.session_id, found.status) == (asks, sessions[0], "waiting")
    paused = client.get_run(ids["asks", sessions[1]])
    await paused.pause("for lunch")
    await becomes([paused.id], agent_id=asks, status="paused")
    await becomes([ids["asks", session] for session in sessions], agent_id=asks, status="waiting")
    (found,) = [run async for run in client.list_runs(agent_id=asks, status="paused")]
    assert found.status == "paused"
    async for found in client.list_runs(session_id=sessions[1]):  # one is paused, the other has ended
        known = (await client.get_run(found.run_id).status()).model_dump(include=LISTED)
        assert found == RunStatus(**known), (
            "a listing has the fields of the status that the store knows, and no others"
        )
    await paused.resume()
    await becomes([], agent_id=asks, status="paused")
    for session in sessions:
        await client.get_run(ids["asks", session]).answer("q", "this")
        await client.get_run(ids["asks", session]).result()
    await becomes([], agent_id=asks, status="waiting")


async def test_a_run_that_gave_up_is_no_run_that_answered(serve, until):
    """Completed runs are listed by whether they answered or a limit ended them, and their status says which limit."""
    agent, tools = f"s{uuid.uuid4().hex[:8]}.agent", Toolset("test.tools")

    @tools.tool
    async def note(text: str) -> str:
        """Take a note."""
        return text

    async def plan(turn):
        text = turn.messages[0].text
        is_last = text == "answer" or getattr(turn, "finalize", None)
        return (
            PlanResult.final("done") if is_last else PlanResult.calls(note.call(text=f"{len(turn.messages)}"))
        )

    policy = RunPolicy(max_tool_rounds=1)
    client = await serve(App(agents=[Agent(agent, planner=plan, uses=[tools], policy=policy)]))
    answered, stopped = [await client.start(agent, text) for text in ("answer", "go on for ever")]
    outputs = [await run.result() for run in (answered, stopped)]
    assert [output.reason for output in outputs] == ["answered", "max_tool_rounds"]
    wanted = {
        "completed": {answered.id: "", stopped.id: "max_tool_rounds"},
        "answered": {answered.id: ""},
        "gave_up": {stopped.id: "max_tool_rounds"},
    }
    for status, expected in wanted.items():

        async def fits(status=status, expected=expected):
            runs = client.list_runs(agent_id=agent, status=status)
            return {run.run_id: run.gave_up async for run in runs} == expected

        await until(fits)
    assert [(await run.status()).gave_up for run in (answered, stopped)] == ["", "max_tool_rounds"]


async def test_an_unknown_status_is_refused(serve):
    """A misspelt status is an error that the caller sees, not an empty list."""
    client = await serve(planner=ScriptedPlanner([PlanResult.final("done")]))
    with pytest.raises(InvalidInput):
        _ = [run async for run in client.list_runs(status="finnished")]


async def test_a_quote_in_what_is_listed_by_is_part_of_it(serve, subtests):
    """Whatever a text holds, it is compared as a whole: it neither ends the literal of the query nor makes one that cannot be read."""
    client = await serve(App(agents=[Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("x")]))]))
    for field, quote in product(
        ("agent_id", "session_id", "fork_of", "tenant"), ("'", "\\", "\\'", '"', "''")
    ):
        for text in (
            f"a{quote}",
            f"a{quote} OR WorkflowId != {quote}",
            f"{quote} OR {quote}a{quote} = {quote}a",
        ):
            with subtests.test(field=field, text=text):
                assert [run async for run in client.list_runs(**{field: text})] == []
