"""What docs/agents-as-tools.md says is so: its module is served, and its claims are tried."""

import pytest

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    PlanResumeInput,
    RunPolicy,
    ToolRequest,
)
from sojourn.testing import ScriptedPlanner


@pytest.fixture
def library(module_of):
    """The module of the page."""
    return module_of("agents-as-tools.md", "library")


@pytest.fixture
def answer_to(serve, library):
    """Play one call of the page's desk; gives its result, the run and its output."""

    async def play(call):
        planner = ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
        library.assistant.planner = planner
        client = await serve(library.app)
        run = await client.start("library.assistant", "go", session_id="s")
        output = await run.result()
        return planner.turns[1].tool_results[0], run, output

    return play


async def test_the_app_of_the_page_answers(serve, library):
    """The assistant leaves its question to the researcher and reads the typed answer."""
    client = await serve(library.app)
    assert (await client.execute("library.assistant", "Birds")).text == "Read Birds, volume 1."
    assert (await client.execute("library.assistant", "B")).text.startswith("No advice: invalid arguments")


async def test_what_comes_back_from_a_child(answer_to, library):
    """Answer, link, count and cost, as the page's table has them."""
    ask = library.desk[library.advise]
    result, run, output = await answer_to(ask.call(library.Question(topic="Birds")))
    assert ask.result_of(result) == library.Advice(
        books=["Birds, volume 1", "Birds, volume 2"], why="the titles say so"
    )
    assert result.run_link.run_id == f"{run.id}/{result.tool_call_id}"
    assert (result.run_link.agent_id, result.children_count) == ("library.researcher", 1)
    assert (result.telemetry.input_tokens, output.telemetry.cost) == (900, 0.002)


async def test_an_untyped_answer_is_text(answer_to, library):
    """`name_books` has a prompt made by a function, and no type."""
    result, *_ = await answer_to(library.desk["name_books"].call(library.Question(topic="Birds")))
    assert result.result == "birds, volume 1, birds, volume 2"


async def test_prompts_fill_declared_fields_only(serve, library):
    """The child starts with the filled system and user messages."""
    planner = ScriptedPlanner([PlanResult.final("x", result={"books": ["one"], "why": ""})])
    library.researcher.planner = planner
    client = await serve(library.app)
    await client.execute("library.assistant", "{depth}")
    assert [message.text for message in planner.turns[0].messages] == ["Be short.", "{depth}"]


async def test_an_answer_that_does_not_fit_is_corrected_twice(serve, library):
    """Three plans of the child, then `malformed_response` for the parent."""
    planner = ScriptedPlanner([PlanResult.final("just text")])
    library.researcher.planner = planner
    client = await serve(library.app)
    assert "gave no answer that fits" in (await client.execute("library.assistant", "Birds")).text
    assert len(planner.turns) == 3
    assert "does not fit" in planner.turns[1].reminders[0]


async def test_a_circle_and_a_depth_are_refused(serve, library):
    """An agent above the call, and one level too deep, are `tool_unavailable` with the reason."""
    told = {}

    async def again(turn):
        if isinstance(turn, PlanResumeInput):
            told[turn.run.agent_id] = turn.tool_results[0]
            return PlanResult.final("done")
        called = f"library.{next_of[turn.run.agent_id]}.ask"
        return PlanResult.calls(ToolRequest(name=called, payload={"topic": "xx"}))

    next_of = {"library.a": "b", "library.b": "a"}
    a, b = (Agent(name, planner=again, policy=RunPolicy(max_depth=3)) for name in next_of)
    tool = AgentTool("ask", args=library.Question)
    a.uses.append(b.export("library.b", tools=[tool]))
    b.uses.append(a.export("library.a", tools=[tool]))
    client = await serve(App(agents=[a, b]))
    await client.execute("library.a", "go")
    assert told["library.b"].retry_hint.reason == "tool_unavailable"
    assert "library.a > library.b > library.a" in told["library.b"].error.message
    a.policy = RunPolicy(max_depth=1)
    await client.execute("library.a", "go")
    assert "nest at most 1 deep" in told["library.a"].error.message


async def test_a_child_is_answered_by_its_own_id(serve, library):
    """Its question is put to the child, whose run the parent's events name."""
    answer = PlanResult.final("x", result={"books": ["the one"], "why": "you said so"})
    question = PlanResult.ask(AwaitClarification(question="Which shelf?"))
    library.researcher.planner = ScriptedPlanner([question, answer])
    library.researcher.policy = RunPolicy(interrupts_allowed=True)
    client = await serve(library.app)
    run = await client.start("library.assistant", "Birds")
    async for event in run.events():
        if event.type == "agent_run_started":
            child = client.get_run(event.run_link.run_id)
            async for inner in child.events():
                if inner.type == "await_clarification":
                    await child.answer(inner.question.id, "the left one")
    assert (await run.result()).text == "Read the one."
