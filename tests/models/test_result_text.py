"""The text of a tool's answer for a model: compact, complete, and with the tools' names for the model (SR-124, SR-128)."""

import json
from datetime import timedelta
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from sojourn import ToolError, ToolResult, Toolset
from sojourn.contracts import Artifact
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import check_payload
from sojourn.core.schema.validate import Validator
from sojourn.models.names import Names
from sojourn.models.result_text import MAX_ISSUES, MAX_JSON, result_text

NAMES = Names(["shop.orders.place", "shop.orders.cancel"])


class Line(BaseModel):
    sku: str = Field(pattern="^[A-Z]{3}$")
    count: int = Field(ge=1, le=99)


class Order(BaseModel):
    """Place an order."""

    customer: str
    speed: Literal["slow", "fast"]
    lines: list[Line]


orders = Toolset("shop.orders")


@orders.tool(examples=[{"customer": "c-1", "speed": "fast", "lines": [{"sku": "ABC", "count": 1}]}])
async def place(args: Order) -> str:
    """Place an order."""
    return args.customer


def read(payload: dict) -> str:
    refused = check_payload(place.spec, Validator(place.spec.payload.json_schema), place.call(**payload))
    assert isinstance(refused, ToolResult)
    return result_text(refused, NAMES)


def test_a_success_is_its_result():
    """A result that is a text is unchanged, and any other is JSON on one line."""
    assert result_text(ToolResult(name="a.b.c", result="as it is"), NAMES) == "as it is"
    assert result_text(ToolResult(name="a.b.c", result={"ä": [1, None]}), NAMES) == '{"ä":[1,null]}'
    assert result_text(ToolResult(name="a.b.c"), NAMES) == "null"


def test_artifacts_are_named():
    """The text of a result with artifacts names their kinds and sizes."""
    chart = Artifact(kind="chart", source_tool="a.b.c", size=2048)
    text = result_text(ToolResult(name="a.b.c", result="done", artifacts=[chart]), NAMES)
    assert text.splitlines() == [
        "done",
        "[kept for the people who follow the run, and not shown to you: chart (2,048 bytes)]",
    ]


def test_an_artifact_of_one_byte():
    """Its size is told in the right number."""
    dot = Artifact(kind="dot", source_tool="a.b.c", size=1)
    assert "dot (1 byte)]" in result_text(ToolResult(name="a.b.c", result="done", artifacts=[dot]), NAMES)


def test_a_refusal_says_all_that_a_repair_needs():
    """A refusal has the reason, each fault with what would be valid, arguments to complete, and the arguments sent."""
    sent = {"customer": 7, "speed": "fats", "lines": [{"sku": "abc", "count": 100}]}
    first, second, template, advice, prior = read(sent).splitlines()
    assert first == "failed: invalid_arguments"
    assert "call shop__orders__place again" in second
    for fact in (
        "`customer`",
        "string",
        '"slow", "fast"',
        "`lines[0].sku`",
        "^[A-Z]{3}$",
        "`lines[0].count`",
        "99",
    ):
        assert fact in second
    assert json.loads(template.removeprefix("arguments to complete: ")) == {
        "customer": "7",
        "speed": "<speed>",
        "lines": [{"sku": "ABC", "count": "<count>"}],
    }
    assert advice.startswith("Put values that you were given in place of <...>")
    assert json.loads(prior.removeprefix("you sent: ")) == sent


def test_missing_fields_are_named():
    """Missing fields are named under their own reason, `missing_fields`."""
    text = read({"customer": "c-1"})
    assert text.startswith("failed: missing_fields\n")
    assert "`speed`" in text
    assert "`lines`" in text


def test_many_faults_are_listed_one_by_one():
    """When one sentence cannot hold all faults, each has a line, up to a bound."""
    sent = {"customer": "c-1", "speed": "slow", "lines": [{"sku": "abc", "count": 0}] * 60}
    lines = read(sent).splitlines()
    faults = [line for line in lines if line.startswith("- ")]
    assert len(faults) == MAX_ISSUES
    assert faults[0].startswith("- `lines[0].")
    assert "and 10 more" in lines
    assert max(map(len, lines)) <= MAX_JSON + 30


def test_arguments_that_follow_from_the_call_are_shown_as_they_are():
    """An example without invented values is the arguments to send."""
    *_, example, _ = read({"customer": 7, "speed": "FAST", "lines": []}).splitlines()
    assert example == 'arguments that fit: {"customer":"7","speed":"fast","lines":[]}'


@pytest.mark.parametrize(
    ("failure", "facts"),
    [
        (hints.timeout("shop.orders.place", timedelta(seconds=3)), ["timeout", "3 s", "shop__orders__place"]),
        (hints.rate_limited("shop.orders.place", "busy", timedelta(seconds=9)), ["rate_limited", "9 s"]),
        (hints.unavailable("shop.orders.place", "away"), ["tool_unavailable", "another tool"]),
        (
            hints.unknown_tool("shop.orders.plaice", ["shop.orders.place"]),
            ["tool_unavailable", "Did you mean shop__orders__place?"],
        ),
    ],
    ids=["timeout", "rate limited", "unavailable", "unknown"],
)
def test_other_failures(failure, facts):
    """Each failure says what to do, without the arguments sent, which are not at fault."""
    error, hint = failure
    text = result_text(ToolResult(name="shop.orders.place", error=error, retry_hint=hint), NAMES)
    assert [fact for fact in facts if fact not in text] == []
    assert "you sent" not in text
    assert "shop.orders." not in text.replace("shop.orders.plaice", "")


def test_an_error_without_a_hint_has_its_causes():
    """The text of an error without a hint has its message and its cause's."""
    error = ToolError.with_cause("cannot place", ToolError.new("no stock"))
    text = result_text(ToolResult(name="shop.orders.place", error=error), NAMES)
    assert text.startswith("failed\n")
    assert "cannot place" in text
    assert "no stock" in text


def test_only_whole_ids_are_renamed():
    """Only the ids of known tools are replaced by names, not texts that merely contain such an id."""
    error = ToolError.new(
        "see shop.orders.place2, xshop.orders.place and shop.orders.place/x; or shop.orders.cancel."
    )
    text = result_text(ToolResult(name="other.tools.it", error=error), NAMES)
    assert (
        "see shop.orders.place2, xshop.orders.place and shop.orders.place/x; or shop__orders__cancel." in text
    )


def test_a_model_reads_that_a_failed_call_may_have_taken_effect():
    """A tool's exception has no hint, so the text says it; a hint that says it is not repeated."""
    error = ToolError(message="no receipt", code="KeyError", outcome_unknown=True)
    text = result_text(ToolResult(name="a.b.c", error=error), NAMES)
    assert text.splitlines()[1:] == [
        "no receipt",
        "The call may have taken effect. Check what happened before you make it again, and then with the same arguments.",
    ]
    cut = error.model_copy(update={"message": "canceled; the call may have taken effect"})
    assert result_text(ToolResult(name="a.b.c", error=cut), NAMES).splitlines()[1:] == [
        "canceled; the call may have taken effect",
        "Check what happened before you make it again, and then with the same arguments.",
    ]
    known = error.model_copy(update={"outcome_unknown": False})
    assert "taken effect" not in result_text(ToolResult(name="a.b.c", error=known), NAMES)
    error, hint = hints.malformed_response(place.spec, "not a receipt")
    assert result_text(ToolResult(error=error, retry_hint=hint), NAMES).count("taken effect") == 1


def test_an_edited_call_says_first_what_ran():
    """A success and a failure of a call that its approver edited begin with its arguments."""
    edited = {"edited_arguments": {"customer": "c-2"}, "name": "shop.orders.place"}
    first = '[the approver changed the arguments of this call to: {"customer":"c-2"}]'
    assert result_text(ToolResult(result="placed", **edited), NAMES) == f"{first}\nplaced"
    failed = ToolResult(error=ToolError.new("sold out"), **edited)
    assert result_text(failed, NAMES).splitlines() == [first, "failed", "sold out"]
