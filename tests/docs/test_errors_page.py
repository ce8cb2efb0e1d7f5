"""docs/errors.md: every answer on the page is the real one."""

import json
import re
from pathlib import Path

import pytest

from sojourn import Agent, App, PlanResult, RetryReason, RunPolicyOverride
from sojourn.testing import ScriptedPlanner

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
ANSWERED = re.findall(r"^`([^`\n]+\))`\n\n```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
"""The calls of the page as expressions, each with the JSON below it."""


@pytest.fixture
def mill(module_of):
    """The module of the page."""
    return module_of("errors.md", "mill")


async def test_every_answer_on_the_page_is_real(serve, mill):
    """The error and hint of each call equal the page's JSON; where the page shows a list, the hint's issues do."""
    calls = [eval(expression, vars(mill)) for expression, _ in ANSWERED]
    planner = ScriptedPlanner([PlanResult.calls(*calls), PlanResult.final("done")])
    client = await serve(App(agents=[Agent("mill.test", planner=planner, uses=[mill.visits])]))
    await client.execute("mill.test", "go")
    results = planner.turns[1].tool_results
    assert len(results) == len(calls) == 9
    for result, (expression, shown) in zip(results, ANSWERED, strict=True):
        answer = result.model_dump(mode="json", exclude_defaults=True, include={"error", "retry_hint"})
        if cause := answer.get("error", {}).get("cause"):  # the line on the page moves with the page
            cause["place"] = re.sub(r":\d+$", ":81", cause["place"])
        expected = json.loads(shown)
        assert (answer["retry_hint"]["issues"] if isinstance(expected, list) else answer) == expected, (
            expression
        )


def test_every_reason_has_its_example():
    """The table, the headings and `RetryReason` have the same reasons."""
    reasons = {value for name, value in vars(RetryReason).items() if name.isupper()}
    assert set(re.findall(r"^### (\w+_\w+|timeout)$", PAGE, re.MULTILINE)) == reasons
    table = PAGE.split("| reason |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == reasons


async def test_the_planner_repairs_asks_and_books(serve, mill):
    """The planner repairs `free_days` by its hint, asks about a missing day and a Sunday, and books a Monday."""
    client = await serve(mill.app)
    run = await client.start("mill.clerk", "s-1")
    answers, questions, made = iter(["2027-01-03", "2027-01-04"]), [], []
    async for event in run.events():
        if event.type == "tool_start":
            made.append((event.call.name, event.call.payload))
        if event.type == "await_clarification":
            questions.append(event.question)
            await run.answer(event.question.id, next(answers))
    assert (await run.result()).text == "Booked: 1 h on 2027-01-04."
    assert [question.question for question in questions] == [
        "What should `day` (On which day) be?",
        "Which other day suits you?",
    ]
    assert questions[0].id == "fix-mill.visits.book"
    assert questions[0].missing_fields == ["day"]
    assert made[:2] == [
        (mill.free_days.id, {"siteId": "s-1", "limit": 3}),
        (mill.free_days.id, {"site_id": "s-1", "limit": 3}),
    ]


async def test_the_planner_answers_if_it_may_not_ask(serve, mill):
    """With `interrupts_allowed=False` the planner answers that the day is missing."""
    client = await serve(mill.app)
    override = RunPolicyOverride(interrupts_allowed=False)
    output = await client.execute("mill.clerk", "s-1", policy=override)
    expected = "Nothing is booked: invalid arguments for mill.visits.book: `day` is required (a date like YYYY-MM-DD)."
    assert output.text == expected


async def test_the_repairing_planner_asks_for_the_day_alone(serve, mill):
    """The repairing planner repairs what is safe and asks for the day; the inner planner answers with both results."""
    client = await serve(mill.app)
    run = await client.start("mill.porter", "s-1")
    questions, made = [], []
    async for event in run.events():
        if event.type == "tool_start":
            made.append((event.call.name, event.call.payload))
        if event.type == "await_clarification":
            questions.append(event.question)
            await run.answer(event.question.id, "2027-01-04")
    days = ["2027-01-04", "2027-01-05", "2027-01-06"]
    assert (await run.result()).text == f"{days}; 2 h on 2027-01-04"
    assert [question.missing_fields for question in questions] == [["day"]]
    assert made[2:] == [
        (mill.free_days.id, {"site_id": "s-1", "limit": 3}),
        (mill.book.id, {"site_id": "s-1", "hours": 2, "day": "2027-01-04"}),
    ]
