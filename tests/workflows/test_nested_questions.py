"""Questions about nested fields: a JSON Pointer names each missing field, and the answer fills it in (SR-94)."""

import json

import pytest
from pydantic import BaseModel, Field

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    InvalidInput,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
)
from sojourn.repair import clarification_for, repair_calls

shop = Toolset("nested.shop")
SENT = {"zip": "10115", "to": {"street": "Ufer 1"}, "lines": [{"sku": "a"}, {"sku": "b", "qty": 2}]}
PLACED: list[dict] = []


class To(BaseModel):
    street: str
    zip: str = Field(description="Postal code", min_length=5, max_length=5)


class Line(BaseModel):
    sku: str
    qty: int = Field(ge=1, le=9)


class Order(BaseModel):
    zip: str = ""
    to: To
    lines: list[Line]


@shop.tool
async def place(order: Order) -> str:
    """Place an order."""
    PLACED.append(order.model_dump())
    return "placed"


async def by_auto_repair(turn):
    """Ask with `clarification_for`, as `docs/` does, and repair the call with the answer."""
    if turn.messages[-1].role == "user" and len(turn.messages) == 1:
        return PlanResult.calls(ToolRequest(name=place.id, payload=SENT))
    return (
        repair_calls(turn)
        or clarification_for(turn)
        or PlanResult.final(turn.messages[-1].tool_results[-1].result)
    )


async def by_the_hint(turn):
    """Ask the hint's own question, and repair the call with the answer."""
    if len(turn.messages) == 1:
        return PlanResult.calls(ToolRequest(name=place.id, payload=SENT))
    return repair_calls(turn) or (
        PlanResult.ask(turn.hints[0].question())
        if turn.hints
        else PlanResult.final(str(turn.tool_results[0].result))
    )


async def by_bare_names(turn):
    """Ask for what `hint.missing_fields` names, as the sample of SR-94 does."""
    if len(turn.messages) == 1:
        return PlanResult.calls(ToolRequest(name=place.id, payload=SENT))
    if not turn.hints:
        return repair_calls(turn) or PlanResult.final(str(turn.tool_results[0].result))
    hint = turn.hints[0]
    assert hint.missing_fields == ["zip", "qty"]
    return PlanResult.ask(
        AwaitClarification(
            question=hint.clarifying_question, missing_fields=hint.missing_fields, restrict_to_tool=hint.tool
        )
    )


@pytest.mark.parametrize(
    "planner", [by_auto_repair, by_the_hint, by_bare_names], ids=lambda one: one.__name__
)
async def test_a_field_of_a_field_is_asked_for_and_filled_in(serve, status_when, planner):
    """The answer does not fill the field of the same name above it; a name that was not asked for is refused."""
    PLACED.clear()
    agent = Agent("nested.clerk", planner=planner, uses=[shop], policy=RunPolicy(interrupts_allowed=True))
    client = await serve(App(agents=[agent]))
    run = await client.start("nested.clerk", "go")
    (question,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert question.missing_fields == ["/to/zip", "/lines/0/qty"]
    assert list(question.form["properties"]) == ["/to/zip", "/lines/0/qty"]
    assert question.form["properties"]["/lines/0/qty"]["type"] == "integer"
    for wrong in ({"zip": "10999"}, {"/lines/0/qyt": 3}, {"/lines/1/qty": 3}, json.dumps({"qty": 3})):
        with pytest.raises(
            InvalidInput, match=r"there is no field .*, only /to/zip, /lines/0/qty; did you mean"
        ):
            await run.answer(None, wrong)
    await run.answer(None, {"/to/zip": "10999", "/lines/0/qty": 3})
    assert (await run.result()).text == "placed"
    assert PLACED == [
        {
            "zip": "10115",
            "to": {"street": "Ufer 1", "zip": "10999"},
            "lines": [{"sku": "a", "qty": 3}, {"sku": "b", "qty": 2}],
        }
    ]


async def test_a_misspelt_field_answers_no_question_of_a_planner(serve, status_when):
    """A question about fields of no tool accepts these fields, or text."""

    async def plan(turn):
        answers = [message.text for message in turn.messages[1:] if message.role == "user"]
        question = AwaitClarification(question="How high?", missing_fields=["level"])
        return PlanResult.final(answers[-1]) if len(answers) == 2 else PlanResult.ask(question)

    client = await serve(planner=plan, policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    await status_when(run, lambda status: status.awaits)
    with pytest.raises(InvalidInput, match="there is no field 'levl', only level; did you mean 'level'"):
        await run.answer(None, {"levl": 2})
    await run.answer(None, {"level": 2})
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "two")
    assert (await run.result()).text == "two"
