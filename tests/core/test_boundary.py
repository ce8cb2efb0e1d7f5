"""The tool boundary: what goes in, what comes out, each once (SR-51, SR-118, SR-128, SR-140)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, field_validator, model_validator

from sojourn import Bounds, RetryHint, ToolError, ToolRequest, ToolResult, ToolSpec, TypeSpec
from sojourn.core.boundary import Oversized, checked, delivered, issues_of, refusal, refused
from sojourn.core.limits import MAX_RESULT_BYTES
from sojourn.core.validate import Validator

SCHEMA = {
    "type": "object",
    "properties": {"site": {"type": "string"}, "limit": {"type": "integer", "maximum": 500}},
    "required": ["site"],
    "additionalProperties": False,
}
VALIDATOR = Validator(SCHEMA)
SPEC = ToolSpec(
    id="ops.devices.list",
    title="",
    description="",
    payload=TypeSpec(name="Args", json_schema=SCHEMA, example={"site": "s-1"}),
    result=TypeSpec(name="R", json_schema={}),
)
BOUNDED = SPEC.model_copy(update={"bounded": True})


def request(payload: dict[str, Any] | None = None, raw: str | None = None) -> ToolRequest:
    return ToolRequest(name="ops.devices.list", payload=payload or {}, raw=raw, tool_call_id="c1")


def plain(value: Any) -> Any:
    return TypeAdapter(Any).dump_python(value, mode="json")


def test_a_valid_payload_goes_in_as_it_is() -> None:
    """What fits the schema is handed on unchanged, with no default added and nothing coerced."""
    assert checked(SPEC, VALIDATOR, request({"site": "s-1", "limit": 500})) == {"site": "s-1", "limit": 500}


def test_arguments_as_a_model_wrote_them_are_parsed() -> None:
    """Raw arguments are read at the boundary, by whatever harmless repairs reading allows (SR-13)."""
    assert checked(SPEC, VALIDATOR, request(raw='{"site": "s-1"}')) == {"site": "s-1"}


@pytest.mark.parametrize(
    "call",
    [request(raw='{"site": '), request(raw="[1]"), request({"site": "\ud800"}), request({"site": float("nan")})],
    ids=["cut off", "a list", "half a character", "no number"],
)  # fmt: skip
def test_what_is_no_payload_is_answered(call: ToolRequest) -> None:
    """Arguments that cannot be read are `invalid_arguments` with an example (SR-90, SR-144)."""
    result = checked(SPEC, VALIDATOR, call)
    assert isinstance(result, ToolResult)
    assert result.retry_hint.reason == "invalid_arguments"
    assert result.retry_hint.example_input == {"site": "s-1"}


def test_an_invalid_payload_is_answered_with_every_fault() -> None:
    """A payload against the schema is answered as data, field by field (SR-128, SR-139)."""
    result = checked(SPEC, VALIDATOR, request({"limit": 501, "sit": "s-1"}))
    assert isinstance(result, ToolResult)
    assert {(issue.field, issue.constraint) for issue in result.retry_hint.issues} >= {
        ("/site", "missing_field"),
        ("/limit", "invalid_range"),
    }
    assert (result.name, result.tool_call_id, result.result) == ("ops.devices.list", "c1", None)


def test_what_a_models_own_validator_refuses_is_an_issue() -> None:
    """The schema accepts it, the author's validator does not: `invalid_arguments` that names the field (SR-93)."""

    class Line(BaseModel):
        sku: str

        @field_validator("sku")
        @classmethod
        def known(cls, value: str) -> str:
            raise ValueError("no such article")

    class Order(BaseModel):
        lines: dict[str, list[Line]]

    with pytest.raises(ValueError, match="sku") as caught:
        Order.model_validate({"lines": {"a/b~c": [{"sku": "x"}]}})
    result = refused(SPEC, request(), {"site": "s-1"}, issues_of(caught.value), VALIDATOR)
    (issue,) = result.retry_hint.issues
    assert issue.field == "/lines/a~1b~0c/0/sku"
    assert issue.constraint == "rejected"
    assert "no such article" in result.error.message
    assert result.retry_hint.reason == "invalid_arguments"


def test_a_refusal_of_the_whole_is_an_issue_of_the_whole() -> None:
    """A validator over several fields names the payload itself."""

    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def ordered(self) -> "Range":
            raise ValueError("low is above high")

    with pytest.raises(ValueError, match="low is above high") as caught:
        Range(low=2, high=1)
    result = refused(SPEC, request(), {"site": "s-1"}, issues_of(caught.value), VALIDATOR)
    assert [issue.field for issue in result.retry_hint.issues] == [""]


def test_a_refusal_carries_the_call() -> None:
    """An error, with or without a hint, is a result of this call (SR-59, SR-132)."""
    error, hint = ToolError.new("no"), RetryHint(reason="timeout", tool="x")
    for given in (None, hint):
        result = refusal(request(), (error, given))
        assert result == ToolResult(name="ops.devices.list", tool_call_id="c1", error=error, retry_hint=given)


def test_a_value_comes_out_encoded() -> None:
    """A tool's value is its result as JSON; there is no error and no hint (SR-131)."""
    result = delivered(SPEC, request(), {"at": datetime(2024, 1, 1, tzinfo=UTC)}, plain)
    assert result == ToolResult(
        name="ops.devices.list", tool_call_id="c1", result={"at": "2024-01-01T00:00:00Z"}
    )


def test_a_value_of_another_type_is_malformed() -> None:
    """A result that does not fit the tool's own type is `malformed_response`, naming the place (SR-90)."""

    class Inner(BaseModel):
        n: int

    for kind, value, said in ((list[Inner], [{"n": "x"}], "0.n: "), (int, "x", "valid integer")):
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        result = delivered(SPEC, request(), value, lambda v, a=adapter: a.dump_python(a.validate_python(v)))
        assert result.retry_hint.reason == "malformed_response"
        assert said in result.error.message


@pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "half a character"])
def test_a_value_that_is_no_json_is_malformed(value: object) -> None:
    """What cannot be written never reaches the wire."""
    result = delivered(SPEC, request(), value, lambda given: given)
    assert result.retry_hint.reason == "malformed_response"


def test_a_result_that_is_too_large_is_not_cut() -> None:
    """More than a megabyte is handed on whole, with its size, for storage or a refusal (SR-28)."""
    result = delivered(SPEC, request(), "x" * MAX_RESULT_BYTES, plain)
    assert isinstance(result, Oversized)
    assert len(result.result.result) == MAX_RESULT_BYTES < result.size


def test_a_bounded_result_has_its_bounds() -> None:
    """Bounds are read from a bounded tool's result and delivered beside it, unmodified (SR-28, SR-37)."""
    value = {"devices": [1], "returned": 1, "total": 4, "truncated": True, "refinement_hint": "by kind"}
    result = delivered(BOUNDED, request(), value, plain)
    assert result.result == value
    assert result.bounds == Bounds(returned=1, total=4, truncated=True, refinement_hint="by kind")
    assert delivered(SPEC, request(), value, plain).bounds is None


def test_bounds_that_contradict_themselves_are_malformed() -> None:
    """The contract of a bounded result is enforced (SR-22)."""
    result = delivered(BOUNDED, request(), {"returned": 3, "total": 1}, plain)
    assert result.retry_hint.reason == "malformed_response"
    assert "less than" in result.error.message


def test_a_tools_own_result_is_taken_as_its_answer() -> None:
    """A ToolResult that a tool returns keeps its error, hint and telemetry; the call is filled in (SR-61)."""
    given = ToolResult(
        name="other", tool_call_id="zz", error=ToolError.new("no"), retry_hint=RetryHint(reason="x", tool="y")
    )
    result = delivered(BOUNDED, request(), given, plain)
    assert result == given.model_copy(update={"name": "ops.devices.list", "tool_call_id": "c1"})


def test_a_tools_own_result_is_judged_too() -> None:
    """Size and bounds hold for a ToolResult as for a value; bounds that it states itself are its own."""
    large = ToolResult(result="x" * MAX_RESULT_BYTES)
    assert isinstance(delivered(SPEC, request(), large, plain), Oversized)
    assert delivered(BOUNDED, request(), ToolResult(result={"returned": 2}), plain).bounds == Bounds(
        returned=2
    )
    assert (
        delivered(BOUNDED, request(), ToolResult(result=3), plain).retry_hint.reason == "malformed_response"
    )
    stated = ToolResult(result=[1], bounds=Bounds(returned=1))
    assert delivered(BOUNDED, request(), stated, plain).bounds == Bounds(returned=1)
