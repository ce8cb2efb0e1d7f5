"""The tool boundary: the checks of a payload before a call, and of a result after it (SR-51, SR-118, SR-128, SR-140)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError, field_validator, model_validator

from sojourn import (
    FieldIssue,
    InputForm,
    InputRequired,
    RetryHint,
    ToolError,
    ToolRequest,
    ToolResult,
    WithArtifacts,
)
from sojourn.contracts import Artifact, Bounds, ToolSpec, TypeSpec
from sojourn.contracts.memory import WithMemory
from sojourn.contracts.taint import FromOutside
from sojourn.core.payload.boundary import (
    build_result,
    check_payload,
    issues_of,
    parse_call,
    refusal,
    refuse_payload,
)
from sojourn.core.payload.reading import fits_for_certain
from sojourn.core.schema.validate import Validator

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


def test_a_valid_payload_is_unchanged() -> None:
    """A payload that fits the schema gets no defaults, and no value is coerced."""
    assert check_payload(SPEC, VALIDATOR, request({"site": "s-1", "limit": 500})) == {
        "site": "s-1",
        "limit": 500,
    }


def test_raw_arguments_are_parsed() -> None:
    """The boundary parses the arguments that a model wrote (SR-13)."""
    assert check_payload(SPEC, VALIDATOR, request(raw='{"site": "s-1"}')) == {"site": "s-1"}


@pytest.mark.parametrize("as_text", [False, True])
def test_no_caller_sends_an_injected_field(as_text: bool) -> None:
    """What a model sends for a field that the server fills is left out, and the call is otherwise as it was."""
    sent, spec = {"site": "s-1", "tenant": "another's"}, SPEC.model_copy(update={"injected": ["tenant"]})
    call = request(raw=json.dumps(sent)) if as_text else request(sent)
    read = parse_call(call, spec.injected)
    assert isinstance(read, ToolRequest)
    assert (read.payload, read.name, read.tool_call_id) == ({"site": "s-1"}, call.name, call.tool_call_id)
    assert check_payload(spec, VALIDATOR, call) == {"site": "s-1"}


@pytest.mark.parametrize(
    "call",
    [request(raw='{"site": '), request(raw="[1]"), request({"site": "\ud800"}), request({"site": float("nan")})],
    ids=["cut off", "a list", "half a character", "no number"],
)  # fmt: skip
def test_unreadable_arguments_are_answered(call: ToolRequest) -> None:
    """Arguments that cannot be read become `invalid_arguments` with an example (SR-90, SR-144)."""
    result = check_payload(SPEC, VALIDATOR, call)
    assert isinstance(result, ToolResult)
    assert result.retry_hint.reason == "invalid_arguments"
    assert result.retry_hint.example_input == {"site": "s-1"}


def test_an_invalid_payload_is_answered_with_its_issues() -> None:
    """A payload that does not fit the schema becomes a result with an issue for each field (SR-128, SR-139)."""
    result = check_payload(SPEC, VALIDATOR, request({"limit": 501, "sit": "s-1"}))
    assert isinstance(result, ToolResult)
    assert {(issue.field, issue.constraint) for issue in result.retry_hint.issues} >= {
        ("/site", "missing_field"),
        ("/limit", "invalid_range"),
    }
    assert (result.name, result.tool_call_id, result.result) == ("ops.devices.list", "c1", None)


def test_the_refusal_of_a_pydantic_validator_is_an_issue() -> None:
    """A payload that only the author's validator refuses becomes `invalid_arguments` with the field's pointer (SR-93)."""

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
    result = refuse_payload(SPEC, request(), {"site": "s-1"}, issues_of(caught.value), VALIDATOR)
    (issue,) = result.retry_hint.issues
    assert issue.field == "/lines/a~1b~0c/0/sku"
    assert issue.constraint == "rejected"
    assert "no such article" in result.error.message
    assert result.retry_hint.reason == "invalid_arguments"


def test_a_model_validators_refusal_is_an_issue_of_the_payload() -> None:
    """The issue of a validator over several fields has the empty pointer, which is the payload."""

    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def ordered(self) -> "Range":
            raise ValueError("low is above high")

    with pytest.raises(ValueError, match="low is above high") as caught:
        Range(low=2, high=1)
    result = refuse_payload(SPEC, request(), {"site": "s-1"}, issues_of(caught.value), VALIDATOR)
    assert [issue.field for issue in result.retry_hint.issues] == [""]


def test_a_refusal_has_the_calls_name_and_id() -> None:
    """An error, with or without a hint, becomes the result of the call (SR-59, SR-132)."""
    error, hint = ToolError.new("no"), RetryHint(reason="timeout", tool="x")
    for given in (None, hint):
        result = refusal(request(), (error, given))
        assert result == ToolResult(name="ops.devices.list", tool_call_id="c1", error=error, retry_hint=given)


def test_a_value_is_encoded() -> None:
    """A tool's value becomes the result as JSON, without error and hint (SR-131)."""
    result = build_result(SPEC, request(), {"at": datetime(2024, 1, 1, tzinfo=UTC)}, plain)
    assert result == ToolResult(
        name="ops.devices.list", tool_call_id="c1", result={"at": "2024-01-01T00:00:00Z"}
    )


def test_a_value_of_another_type_is_malformed() -> None:
    """A value that does not fit the tool's result type becomes `malformed_response` with its place (SR-90)."""

    class Inner(BaseModel):
        n: int

    for kind, value, said in ((list[Inner], [{"n": "x"}], "0.n: "), (int, "x", "valid integer")):
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        result = build_result(
            SPEC, request(), value, lambda v, a=adapter: a.dump_python(a.validate_python(v))
        )
        assert result.retry_hint.reason == "malformed_response"
        assert said in result.error.message


def test_a_bounded_result_has_its_bounds() -> None:
    """The bounds of a bounded tool's result are read from it and set beside it, unchanged (SR-28, SR-37)."""
    value = {"devices": [1], "returned": 1, "total": 4, "truncated": True, "refinement_hint": "by kind"}
    result = build_result(BOUNDED, request(), value, plain)
    assert result.result == value
    assert result.bounds == Bounds(returned=1, total=4, truncated=True, refinement_hint="by kind")
    assert build_result(SPEC, request(), value, plain).bounds is None


def test_inconsistent_bounds_are_unchanged() -> None:
    """Inconsistent bounds are delivered unchanged, with a note (SR-28)."""
    value = {"devices": [1, 2], "returned": 3, "total": 1, "truncated": True}
    result = build_result(BOUNDED, request(), value, plain)
    assert (result.result, result.error) == (value, None)
    assert result.bounds
    assert (result.bounds.returned, result.bounds.total, result.bounds.truncated) == (3, 1, True)
    assert "less than" in str(result.bounds.note)


def test_a_tool_result_keeps_its_error_and_hint() -> None:
    """A ToolResult that a tool returns keeps its error and hint, and gets the call's name and id (SR-61)."""
    given = ToolResult(
        name="other", tool_call_id="zz", error=ToolError.new("no"), retry_hint=RetryHint(reason="x", tool="y")
    )
    result = build_result(BOUNDED, request(), given, plain)
    assert result == given.model_copy(update={"name": "ops.devices.list", "tool_call_id": "c1"})


def test_the_bounds_of_a_tool_result_are_checked() -> None:
    """Bounds are read from a ToolResult's value, unless it states them itself; negative counts are dropped (SR-37)."""

    def bounds(result: ToolResult) -> Bounds | None:
        return build_result(BOUNDED, request(), result, plain).bounds

    assert bounds(ToolResult(result={"returned": 2})) == Bounds(returned=2)
    assert bounds(ToolResult(result=3)) is None
    assert bounds(ToolResult(result=[1], bounds=Bounds(returned=1))) == Bounds(returned=1)
    assert "less" in str(bounds(ToolResult(result=[1], bounds=Bounds(returned=2, total=1))).note)
    assert bounds(ToolResult(result=[1], bounds=Bounds(returned=-1))) is None
    assert bounds(ToolResult(result=[1], bounds=Bounds(returned=1, total=-1))) is None


def a_number(value: Any) -> Any:
    return TypeAdapter(int).validate_python(value)


def kinds(*artifacts: Artifact) -> ToolResult:
    return build_result(SPEC, request(), ToolResult(artifacts=list(artifacts)), plain, {"count": a_number})


def test_the_artifacts_of_a_tool_result_have_to_be_declared() -> None:
    """Each artifact has a declared kind, once, and data of its type; a `ref` that the tool sets is dropped (SR-105)."""
    forged = Artifact(kind="count", data="5", ref="other#run", claim={"path": "/etc"}, source_tool="x.y.z")
    assert kinds(forged).artifacts == [Artifact(kind="count", data=5)]
    assert kinds(Artifact(kind="count")).artifacts == []
    for wrong, said in (
        (kinds(Artifact(kind="chart", data=5)), "not declared; declared: count"),
        (kinds(Artifact(kind="count", data="many")), "valid integer"),
        (kinds(Artifact(kind="count", data=1), Artifact(kind="count", data=2)), "given twice"),
    ):
        assert wrong.retry_hint.reason == "malformed_response"
        assert said in wrong.error.message
        assert wrong.artifacts == []


def test_without_declared_artifacts_any_kind_is_allowed() -> None:
    """Artifacts of a tool that declares none, such as an MCP server's, may have any kind."""
    given = WithArtifacts(1, image={"base64": "aGk="})
    (artifact,) = build_result(SPEC, request(), given, plain).artifacts
    assert artifact == Artifact(kind="image", data={"base64": "aGk="})


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (FromOutside("wipe"), ("wipe", "")),
        (FromOutside(WithArtifacts("wipe", image={"base64": "aGk="}), "mail"), ("wipe", "mail")),
        (FromOutside(WithMemory("wipe", {"a": 1}), "mail"), ("wipe", "mail")),
        (WithMemory(FromOutside("wipe", "mail"), {"a": 1}), ("wipe", "mail")),
        (FromOutside(ToolResult(error=ToolError.new("wipe")), "mail"), (None, "mail")),
        (FromOutside("wipe", "a\nb <b>"), ("wipe", "a\\nb \\u003cb\\u003e")),
        (FromOutside(object(), "mail"), (None, "mail")),
        ("wipe", ("wipe", None)),
    ],
)
def test_a_result_is_from_outside_if_its_tool_says_so(value: Any, wanted: tuple) -> None:
    """The mark stays with artifacts, a change of the memory, an error, and a value that does not fit; its source has no markup."""
    result = build_result(SPEC, request(), value, plain)
    assert (result.result, result.taint and result.taint.sources[0].source) == wanted
    assert result.taint is None or result.taint.sources[0].tool == SPEC.id
    long = build_result(SPEC, request(), FromOutside(1, "*" * 500), plain)
    assert long.taint
    assert len(long.taint.sources[0].source) <= 200


def test_issues_of_injected_fields_are_left_out() -> None:
    """A hint has only issues that the caller can repair; with issues of injected fields alone the tool is unavailable (SR-44)."""
    spec = SPEC.model_copy(update={"injected": ["token"]})
    hidden = FieldIssue(field="/token", constraint="invalid_length", minimum=8)
    shown = FieldIssue(field="/site", constraint="invalid_field_type", expected_type="string")
    sent: dict[str, Any] = {"site": 5}
    both = refuse_payload(spec, request(sent), sent, [hidden, shown], VALIDATOR)
    assert both.retry_hint.reason == "invalid_arguments"
    assert [issue.field for issue in both.retry_hint.issues] == ["/site"]
    alone = refuse_payload(spec, request(sent), sent, [hidden], VALIDATOR)
    assert (alone.retry_hint.reason, alone.retry_hint.issues) == ("tool_unavailable", [])
    assert "token" not in both.model_dump_json() + alone.model_dump_json()


def needs(forms: int = 1, **fields: Any) -> ToolResult:
    asked = [InputForm(key=str(n), message="?") for n in range(forms)]
    return ToolResult(input_required=InputRequired(forms=asked, **fields))


@pytest.mark.parametrize(
    ("needed", "asks"),
    [
        (needs(10), True),
        (needs(11), False),
        (needs(0), False),
        (needs(request_state="x" * 64_000), True),
        (needs(request_state="x" * 64_001), False),
    ],
    ids=["ten forms", "eleven", "none", "a large state", "a larger one"],
)
def test_a_tools_request_for_input_is_bounded(needed: ToolResult, asks: bool) -> None:
    """A request has 1 to 10 forms and a state of at most 64,000 characters, and names its toolset; else it is malformed."""
    result = build_result(SPEC, request(), needed, plain)
    assert (result.input_required is not None) is asks
    if result.input_required:
        assert result.input_required.server == "ops.devices"
    else:
        assert result.retry_hint.reason == "malformed_response"


def test_a_failed_result_has_no_bounds() -> None:
    """Bounds are not read from a value beside an error."""
    failed = ToolResult(result={"returned": 1}, error=ToolError.new("lost"))
    assert build_result(BOUNDED, request(), failed, plain).bounds is None


def test_a_type_that_needs_an_offset_asks_for_one() -> None:
    """A time without an offset, which only the type refuses, has the issue of a time of the wrong form."""

    class Meeting(BaseModel):
        at: AwareDatetime

    with pytest.raises(ValidationError) as caught:
        Meeting.model_validate({"at": "2026-12-01T10:00:00"})
    (issue,) = issues_of(caught.value)
    assert (issue.field, issue.constraint, issue.format) == ("/at", "invalid_format", "date-time")


def test_no_open_schema_takes_arguments_that_are_wrapped_once_more(subtests: pytest.Subtests) -> None:
    """A server that ignores unknown fields would run the tool without its arguments, such as a deletion without its condition."""
    rows = [
        {"parameters": {"where": "id=1"}},
        {"params": '{"where": "id=1"}'},
        {"arguments": {"arguments": {"where": "id=1"}}},
        {"name": "z.delete", "arguments": {"where": "id=1"}},
        {"arguments": [{"where": "id=1"}]},
    ]
    for sent in rows:
        with subtests.test(sent=sent):
            schema = {"type": "object", "properties": {"where": {"type": "string"}}}
            spec = SPEC.model_copy(
                update={
                    "kind": "mcp",
                    "payload": SPEC.payload.model_copy(update={"json_schema": schema, "example": None}),
                }
            )
            result = check_payload(spec, Validator(schema), ToolRequest(name=spec.id, payload=sent))
            assert isinstance(result, ToolResult)
            assert (hint := result.retry_hint) is not None
            assert [issue.constraint for issue in hint.issues] == ["unknown_field"]
            assert (hint.message or "").endswith("the fields are `where`")
            assert hint.mended() is None
            assert not fits_for_certain(Validator(schema), sent)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"arguments": {"type": "string"}, "command": {"type": "string"}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
    ],
)
def test_arguments_may_be_a_field_of_a_tool(schema: dict[str, Any]) -> None:
    """A field that a schema declares, or may have, is no wrapper."""
    spec = SPEC.model_copy(
        update={"kind": "mcp", "payload": SPEC.payload.model_copy(update={"json_schema": schema})}
    )
    sent = {"command": "ls", "arguments": "-l -a"}
    assert check_payload(spec, Validator(schema), ToolRequest(name=spec.id, payload=sent)) == sent
