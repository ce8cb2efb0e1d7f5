"""One contract for every kind of tool: the same bad payload gets the same error and hint (SR-1, SR-120 to SR-141).

The tool, which places an order, exists five times: as a function, bound to a method, with an executor, as an
agent, and at an MCP server.
"""

import json
import sys
import uuid
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    PlanResult,
    PlanResumeInput,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Worker,
    mcp,
)
from sojourn.testing import ScriptedPlanner
from tests.conftest import Traces

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.essential]

SERVER = Path(__file__).parent.parent / "mcp" / "order_server.py"


class Line(BaseModel):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d+$", description="Article number", examples=["ABC-7"])]
    count: Annotated[int, Field(ge=1, le=99)]


class Order(BaseModel):
    customer: Annotated[str, Field(min_length=2, max_length=40, description="Who orders")]
    email: Annotated[str, Field(json_schema_extra={"format": "email"})]
    lines: Annotated[list[Line], Field(min_length=1, max_length=3)]
    priority: Literal["low", "high"] = "low"
    due: date | None = None
    weight: Annotated[float, Field(gt=0)] | None = None
    tags: dict[str, str] = {}


GOOD: dict[str, Any] = {
    "customer": "Ana",
    "email": "ana@example.org",
    "lines": [{"sku": "ABC-1", "count": 2}, {"sku": "ABC-2", "count": 3}],
}


def but(**changes: Any) -> dict[str, Any]:
    """The good order with changes; `...` in place of a value leaves the field out."""
    changed = {**GOOD, **changes}
    return {name: value for name, value in changed.items() if value is not ...}


def line(**changes: Any) -> dict[str, Any]:
    return but(lines=[GOOD["lines"][0], {**GOOD["lines"][1], **changes}])


BAD: dict[str, dict[str, Any] | str] = {
    "nothing": {},
    "one field missing": but(email=...),
    "two fields missing": but(email=..., customer=...),
    "a nested field missing": but(lines=[{"sku": "ABC-1"}]),
    "misspelt": but(customer=..., custommer="Ana"),
    "unknown": but(colour="red"),
    "unknown, nested": line(color="red"),
    "null for a text": but(customer=None),
    "number for a text": but(customer=7),
    "text for a number": line(count="two"),
    "fraction for a count": line(count=1.5),
    "boolean for a count": line(count=True),
    "object for a list": but(lines={"sku": "ABC-1", "count": 1}),
    "list for an object": but(tags=["a"]),
    "text for an object": but(tags="a"),
    "wrong type inside a map": but(tags={"a": 1}),
    "empty list": but(lines=[]),
    "list too long": but(lines=[GOOD["lines"][0]] * 4),
    "text too short": but(customer="A"),
    "text too long": but(customer="A" * 41),
    "below the minimum": line(count=0),
    "above the maximum": line(count=100),
    "exclusive minimum": but(weight=0),
    "not in the enum": but(priority="urgent"),
    "enum in another case": but(priority="HIGH"),
    "pattern": line(sku="abc-1"),
    "format email": but(email="nobody"),
    "format date": but(due="tomorrow"),
    "several at once": {"customer": 1, "lines": [{"sku": "x", "count": 0}], "extra": 1},
    "an endless integer": '{"customer": ' + "9" * 400 + "}",
    "deep": '{"customer": ' + "[" * 80 + "]" * 80 + "}",
    "raw: empty": "",
    "raw: blank": "  \n",
    "raw: no JSON": "place the order",
    "raw: cut off": json.dumps(GOOD)[:40],
    "raw: a list": "[1]",
    "raw: null": "null",
    "raw: NaN": '{"customer": NaN}',
    "raw: a name twice": '{"customer": "a", "customer": "b"}',
    "raw: two objects": "{} {}",
    "raw: a field missing": json.dumps(but(email=...)),
    "raw: wrong type": json.dumps(but(customer=7)),
}
"""Bad arguments that a model may send; a text is sent as `raw`."""

FORMS: dict[str, dict[str, Any] | str] = {
    "payload": GOOD,
    "raw": json.dumps(GOOD),
    "fenced": f"```json\n{json.dumps(GOOD)}\n```",
    "trailing comma": json.dumps(GOOD)[:-1] + ",}",
    "a text that holds the whole": json.dumps(json.dumps(GOOD)),
    "digits as a text": line(count="3"),
    "a whole float": line(count=3.0),
    "a list as a text": but(lines=json.dumps(GOOD["lines"])),
    "null and blanks for optional fields": but(priority=None, tags="", weight="null", due=""),
}
"""Forms of one good order."""


class Desk:
    """Places orders for every kind of tool, and records the kinds."""

    def __init__(self) -> None:
        self.placed: list[str] = []

    def place(self, kind: str, order: Order) -> str:
        self.placed.append(kind)
        return f"{sum(each.count for each in order.lines)} pieces"


class OrderService:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def place(self, order: Order) -> str:
        return self.desk.place("bound", order)


bound = Toolset("shop.bound")
bound.bind(OrderService.place)
declared = Toolset("shop.declared")
place_declared = declared.declare("place", args=Order, result=str)
SCHEMA = place_declared.spec.payload.json_schema

KINDS = ("function", "bound", "declared", "agent", "mcp")


def shop(desk: Desk, schema: Path, calls: Path, planner: Any) -> App:
    """An app whose agent uses the same tool five times, once of each kind."""
    function = Toolset("shop.function")

    @function.tool
    def place(order: Order) -> str:
        return desk.place("function", order)

    async def execute(meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
        assert meta.tool_call_id == call.tool_call_id
        return place_declared.result(call, desk.place("declared", place_declared.decode(call)))

    async def answer(turn: Any) -> PlanResult:
        return PlanResult.final(desk.place("agent", Order.model_validate_json(turn.messages[0].text)))

    clerk = Agent("shop.clerk", planner=answer)
    agent = clerk.export("shop.agent", tools=[AgentTool("place", args=Order)])
    server = mcp.McpToolset(
        "shop.mcp", transport=mcp.Stdio(sys.executable, str(SERVER), str(schema), str(calls))
    )
    return App(
        agents=[
            Agent("test.agent", planner=planner, uses=[function, bound, declared, agent, server]),
            clerk,
        ],
        services=[OrderService(desk)],
        executors={declared: execute},
    )


def request(kind: str, sent: dict[str, Any] | str, call_id: str) -> ToolRequest:
    name = f"shop.{kind}.place"
    if isinstance(sent, str):
        return ToolRequest(name=name, raw=sent, tool_call_id=call_id)
    return ToolRequest(name=name, payload=sent, tool_call_id=call_id)


def anonymous(result: ToolResult, kind: str) -> str:
    """A result as JSON, without the tool's name, the call's id, telemetry and counts."""
    text = result.model_dump_json(
        exclude={"tool_call_id", "telemetry", "run_link", "children_count"}, indent=1
    )
    return text.replace(f"shop.{kind}.place", "TOOL")


@dataclass
class Answers:
    """What the tools of every kind answered in one run."""

    found: dict[str, dict[str, ToolResult]]
    """The results, by case and kind."""
    placed: list[str]
    """The kinds of the tools that were executed."""
    tool_calls: int
    """The calls that the run counted."""


@pytest.fixture(scope="module")
async def answers(temporal_address, tmp_path_factory) -> Answers:
    """The answers of one run that sends every bad payload, and then every form of the good one, to every kind."""
    folder, desk, cases = tmp_path_factory.mktemp("orders"), Desk(), BAD | FORMS
    schema, calls = folder / "schema.json", folder / "calls.jsonl"
    schema.write_text(json.dumps({"place": SCHEMA}))
    calls.touch()
    plans = [
        PlanResult.calls(*(request(kind, sent, f"{kind}-{n}") for n, sent in enumerate(cases.values())))
        for kind in KINDS
    ]
    planner = ScriptedPlanner([*plans, PlanResult.final("done")])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(shop(desk, schema, calls, planner), client):
        run = await client.start("test.agent", "go")
        out = await run.result()
        await Traces(run).check()
    by_id = {
        result.tool_call_id: result
        for turn in planner.turns
        if isinstance(turn, PlanResumeInput)
        for result in turn.tool_results
    }
    found = {case: {kind: by_id[f"{kind}-{n}"] for kind in KINDS} for n, case in enumerate(cases)}
    placed = desk.placed + ["mcp"] * len(calls.read_text().splitlines())
    return Answers(found, placed, out.tool_calls)


def test_the_same_fault_has_the_same_answer(answers):
    """Errors, reasons, issues, examples, questions and messages are equal, and only the good orders ran."""
    assert len(BAD) >= 30
    for case in BAD:
        found = {kind: anonymous(result, kind) for kind, result in answers.found[case].items()}
        assert all(result.error for result in answers.found[case].values()), case
        for kind in KINDS:
            assert found[kind] == found["function"], f"{case}: {kind}"
    assert sorted(answers.placed) == sorted([*KINDS] * len(FORMS))
    assert answers.tool_calls == (len(BAD) + len(FORMS)) * len(KINDS)


def test_every_hint_can_be_acted_on(answers):
    """Each has a reason, a message of at most 600 characters and an example that is an order (SR-116, SR-144)."""
    without = []
    for case in BAD:
        hint = answers.found[case]["function"].retry_hint
        assert hint.reason in ("missing_fields", "invalid_arguments"), case
        assert hint.restrict_to_tool, case
        assert 20 < len(hint.message) <= 600, case
        assert hint.issues, case
        if hint.example_input is None:
            without.append(case)
            continue
        assert hint.tool == "shop.function.place", case
        Order.model_validate(hint.example_input)
    assert without == []


@pytest.mark.parametrize("form", FORMS)
def test_a_good_order_is_the_same_everywhere(answers, form):
    """As payload or raw, in a code fence or with a trailing comma, or read without loss, the order has one result."""
    assert {result.result for result in answers.found[form].values()} == {"5 pieces"}


def test_missing_fields_are_listed_by_name(answers):
    """The reason is `missing_fields` when nothing else is wrong; the list is filled in beside other faults too (SR-128, SR-139)."""
    for result in answers.found["two fields missing"].values():
        assert result.retry_hint.reason == "missing_fields"
        assert result.retry_hint.missing_fields == ["customer", "email"]
        assert result.retry_hint.prior_input == BAD["two fields missing"]
    for result in answers.found["several at once"].values():
        assert result.retry_hint.reason == "invalid_arguments"
        assert result.retry_hint.missing_fields == ["email"]
        fields = {issue.field for issue in result.retry_hint.issues}
        assert {"/email", "/extra", "/customer", "/lines/0/sku", "/lines/0/count"} <= fields
