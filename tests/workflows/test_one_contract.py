"""One contract for every kind of tool: the same bad payload gets the same error and hint (SR-1, SR-120 to SR-141).

The tool, which places an order, exists five times: as a function, bound to a method, with an executor, as an
agent, and at a real MCP server.
"""

import json
import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from sojourn import (
    Agent,
    AgentTool,
    App,
    PlanResult,
    PlanResumeInput,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    mcp,
)
from sojourn.testing import ScriptedPlanner

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
    "digits as a text": line(count="2"),
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


@pytest.fixture
async def answered(serve, traces, tmp_path):
    """Send each payload to every kind in one run: results by case and kind, the desk and the run's output."""

    async def run(cases: dict[str, dict[str, Any] | str]):
        desk, schema, calls = Desk(), tmp_path / "schema.json", tmp_path / "calls.jsonl"
        schema.write_text(json.dumps({"place": SCHEMA}))
        calls.touch()
        plans = [
            PlanResult.calls(*(request(kind, sent, f"{kind}-{n}") for n, sent in enumerate(cases.values())))
            for kind in KINDS
        ]
        planner = ScriptedPlanner([*plans, PlanResult.final("done")])
        client = await serve(shop(desk, schema, calls, planner))
        run = await client.start("test.agent", "go", policy=None)
        out = await run.result()
        await traces(run).check()
        by_id = {
            result.tool_call_id: result
            for turn in planner.turns
            if isinstance(turn, PlanResumeInput)
            for result in turn.tool_results
        }
        found = {case: {kind: by_id[f"{kind}-{n}"] for kind in KINDS} for n, case in enumerate(cases)}
        desk.placed += ["mcp"] * len(calls.read_text().splitlines())
        return found, desk, out

    return run


async def test_the_same_fault_has_the_same_answer(answered):
    """Errors, reasons, issues, examples, questions and messages are equal, and only the good order ran."""
    good = dict.fromkeys(["good, so that the run's failures are no streak"], GOOD)
    found, desk, out = await answered({**BAD, **good})
    assert len(BAD) >= 30
    for case in BAD:
        answers = {kind: anonymous(result, kind) for kind, result in found[case].items()}
        assert all(result.error for result in found[case].values()), case
        for kind in KINDS:
            assert answers[kind] == answers["function"], f"{case}: {kind}"
    assert sorted(desk.placed) == sorted(KINDS)
    assert out.tool_calls == (len(BAD) + 1) * len(KINDS)


async def test_every_hint_can_be_acted_on(answered):
    """Each has a reason, a message of at most 600 characters and a mended call that is an order (SR-116, SR-144)."""
    found, _, _ = await answered({**BAD, "good": GOOD})
    without = []
    for case in BAD:
        hint = found[case]["function"].retry_hint
        assert hint.reason in ("missing_fields", "invalid_arguments"), case
        assert hint.restrict_to_tool, case
        assert 20 < len(hint.message) <= 600, case
        assert hint.issues, case
        mended = hint.mended()
        if mended is None:
            without.append(case)
            continue
        assert mended.name == "shop.function.place", case
        Order.model_validate(mended.payload)
    assert without == []


async def test_a_good_order_is_the_same_everywhere(answered):
    """As payload or raw, in a code fence or with a trailing comma, the order has one result."""
    cases = {
        "payload": GOOD,
        "raw": json.dumps(GOOD),
        "fenced": f"```json\n{json.dumps(GOOD)}\n```",
        "trailing comma": json.dumps(GOOD)[:-1] + ",}",
    }
    found, desk, _ = await answered(cases)
    for case in cases:
        assert {result.result for result in found[case].values()} == {"5 pieces"}, case
    assert len(desk.placed) == len(cases) * len(KINDS)


async def test_missing_fields_are_listed_by_name(answered):
    """The reason is `missing_fields` when nothing else is wrong; the list is filled in beside other faults too (SR-128, SR-139)."""
    found, _, _ = await answered(
        {**{k: BAD[k] for k in ("two fields missing", "several at once")}, "good": GOOD}
    )
    for result in found["two fields missing"].values():
        assert result.retry_hint.reason == "missing_fields"
        assert result.retry_hint.missing_fields == ["customer", "email"]
        assert result.retry_hint.prior_input == BAD["two fields missing"]
    for result in found["several at once"].values():
        assert result.retry_hint.reason == "invalid_arguments"
        assert result.retry_hint.missing_fields == ["email"]
        fields = {issue.field for issue in result.retry_hint.issues}
        assert {"/email", "/extra", "/customer", "/lines/0/sku", "/lines/0/count"} <= fields
