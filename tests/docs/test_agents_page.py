"""docs/agents-as-tools.md: its module works as written, and its claims are tested."""

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
    """Execute one call of the page's desk; returns its result, the run and its output."""

    async def play(call):
        planner = ScriptedPlanner([PlanResult.calls(call), PlanResult.final("done")])
        library.assistant.planner = planner
        client = await serve(library.app)
        run = await client.start("library.assistant", "go", session_id="s")
        output = await run.result()
        return planner.turns[1].tool_results[0], run, output

    return play


async def test_the_app_of_the_page_answers(serve, library):
    """The assistant calls the researcher and uses its typed answer."""
    client = await serve(library.app)
    assert (await client.execute("library.assistant", "Birds")).text == "Read Birds, volume 1."
    assert (await client.execute("library.assistant", "B")).text.startswith("No advice: invalid arguments")


async def test_the_result_of_a_child_run(answer_to, library):
    """The result has the typed answer, the run link, the number of child calls and the cost."""
    ask = library.desk[library.advise]
    result, run, output = await answer_to(ask.call(library.Question(topic="Birds")))
    assert ask.result_of(result) == library.Advice(
        books=["Birds, volume 1", "Birds, volume 2"], why="the titles say so"
    )
    assert result.run_link.run_id == f"{run.id}/{result.tool_call_id}"
    assert (result.run_link.agent_id, result.children_count) == ("library.researcher", 1)
    assert (result.telemetry.input_tokens, output.telemetry.cost) == (900, 0.002)


async def test_an_untyped_answer_is_text(answer_to, library):
    """The result of `name_books`, which declares no type, is the answer's text."""
    result, *_ = await answer_to(library.desk["name_books"].call(library.Question(topic="Birds")))
    assert result.result == "birds, volume 1, birds, volume 2"


async def test_prompts_fill_declared_fields_only(serve, library):
    """The child run starts with the filled messages; braces in an argument's value stay as they are."""
    planner = ScriptedPlanner([PlanResult.final("x", result={"books": ["one"], "why": ""})])
    library.researcher.planner = planner
    client = await serve(library.app)
    await client.execute("library.assistant", "{depth}")
    assert [message.text for message in planner.turns[0].messages] == ["Be short.", "{depth}"]


async def test_an_answer_that_does_not_fit_is_corrected_twice(serve, library):
    """The child run makes three plans, the second with a reminder; then its call fails."""
    planner = ScriptedPlanner([PlanResult.final("just text")])
    library.researcher.planner = planner
    client = await serve(library.app)
    assert "gave no answer that fits" in (await client.execute("library.assistant", "Birds")).text
    assert len(planner.turns) == 3
    assert "does not fit" in planner.turns[1].reminders[0]


async def test_a_circle_and_a_depth_are_refused(serve, library):
    """A call of an agent above, and a call one level too deep, are `tool_unavailable` with the reason."""
    results = {}

    async def again(turn):
        if isinstance(turn, PlanResumeInput):
            results[turn.run.agent_id] = turn.tool_results[0]
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
    assert results["library.b"].retry_hint.reason == "tool_unavailable"
    assert "library.a > library.b > library.a" in results["library.b"].error.message
    a.policy = RunPolicy(max_depth=1)
    await client.execute("library.a", "go")
    assert "nest at most 1 deep" in results["library.a"].error.message


async def test_a_child_is_answered_by_its_own_id(serve, library):
    """A child run's question is answered on the child run, whose id is in the parent's events."""
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
