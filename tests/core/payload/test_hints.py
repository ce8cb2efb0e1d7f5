"""Hints: each failure at the boundary as data that says how to repair the call, in text that is safe to show."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.contracts.tool_error import FieldIssue, RetryHint, ToolError
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec
from sojourn.core.payload import hints
from sojourn.core.payload.parse import parse_arguments
from sojourn.core.schema.enforceable import field_descriptions, forbid_unknown_fields
from sojourn.core.schema.issues import phrase, sentence
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import ParseFault, json_fault
from sojourn.values.text import echo, field_name, plain

SCHEMA = forbid_unknown_fields(
    {
        "type": "object",
        "properties": {
            "site_id": {"type": "string", "minLength": 1, "description": "The site to list. Never a name."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 500},
            "kind": {"enum": ["router", "switch"], "description": "Device kind"},
            "since": {"type": "string", "format": "date-time"},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string", "description": "Article"}}, "required": ["sku"]}},
        },
        "required": ["site_id", "kind"],
    }
)  # fmt: skip
VALIDATOR = Validator(SCHEMA)
EXAMPLE = {"site_id": "s-1", "kind": "router"}


def spec_of(schema: dict[str, Any], example: Any = None) -> ToolSpec:
    """A tool with this payload schema."""
    payload = TypeSpec(
        name="Args", json_schema=schema, example=example, field_descriptions=field_descriptions(schema)
    )
    return ToolSpec(
        id="ops.devices.list",
        title="",
        description="",
        payload=payload,
        result=TypeSpec(name="R", json_schema={}),
    )


SPEC = spec_of(SCHEMA, EXAMPLE)


def refusal(payload: dict[str, Any]) -> tuple[ToolError, RetryHint]:
    """The error and the hint that a planner receives for a payload."""
    return hints.hint_for_issues(SPEC, payload, VALIDATOR.issues(payload), VALIDATOR)


def test_missing_fields_alone_are_their_own_reason() -> None:
    """A hint for missing fields alone has their bare names, the input, an example and a question (SR-90, SR-128)."""
    error, hint = refusal({"limit": 3})
    assert error == ToolError(
        message='invalid arguments for ops.devices.list: `site_id` is required (at least 1 character); `kind` is required (one of: "router", "switch")',
        code="missing_fields",
    )
    assert hint == RetryHint(
        reason="missing_fields",
        tool="ops.devices.list",
        restrict_to_tool=True,
        missing_fields=["site_id", "kind"],
        prior_input={"limit": 3},
        example_input={"limit": 3, "site_id": "s-1", "kind": "router"},
        invented=["/kind", "/site_id"],
        template={"limit": 3, "kind": "<kind>"},
        clarifying_question='What should `site_id` (The site to list) and `kind` (Device kind; one of: "router", "switch") be?',
        message='Correct the arguments and call ops.devices.list again: `site_id` is required (at least 1 character); `kind` is required (one of: "router", "switch")',
        issues=[
            FieldIssue(field="/site_id", constraint="missing_field", expected_type="string", minimum=1.0),
            FieldIssue(field="/kind", constraint="missing_field", allowed=["router", "switch"]),
        ],
    )  # fmt: skip


def test_a_missing_field_is_described_with_its_schema(subtests: pytest.Subtests) -> None:
    """The text for a missing field has its type, enum, pattern, format and range, but no alternatives."""
    rows = [
        ({"type": "string"}, "is required"),
        (
            {"type": "string", "minLength": 2, "maxLength": 1},
            "is required (at least 2 and at most 1 character)",
        ),
        (
            {"type": "string", "pattern": "^a+$", "maxLength": 9},
            "is required (matching ^a+$, at most 9 characters)",
        ),
        ({"type": "string", "format": "date"}, "is required (a date like YYYY-MM-DD)"),
        ({"type": "string", "format": "iban"}, "is required (the format iban)"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "is required (integer, at least 1 and at most 9)"),
        (
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "is required (number above 0 and below 1)",
        ),
        ({"type": "integer", "maximum": 10**400}, "is required (integer)"),
        ({"type": "array", "minItems": 1}, "is required (array, at least 1 item)"),
        ({"enum": ["a", "b"]}, 'is required (one of: "a", "b")'),
        ({"const": 3}, "is required (one of: 3)"),
        ({"type": ["integer", "string"]}, "is required (integer or string)"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "is required (integer)"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "is required (integer, at least 3)"),
        ({"oneOf": [{"type": "integer"}, {"enum": ["a"]}]}, "is required"),
        ({"type": "integer", "not": {"const": 3}}, "is required"),
        ({"$ref": "#/$defs/k"}, 'is required (one of: "x")'),
        (True, "is required"),
    ]
    for schema, said in rows:
        with subtests.test(str((schema, said))):
            root = {
                "type": "object",
                "properties": {"f": schema},
                "required": ["f"],
                "$defs": {"k": {"enum": ["x"]}},
            }
            validator = Validator(forbid_unknown_fields(root))
            error, hint = hints.hint_for_issues(spec_of(root), {}, validator.issues({}), validator)
            assert error.message == f"invalid arguments for ops.devices.list: `f` {said}"
            assert [issue.constraint for issue in hint.issues] == ["missing_field"]


def test_other_issues_are_invalid_arguments_and_missing_fields_are_still_named() -> None:
    """Mixed issues have the reason `invalid_arguments`, a text for each field, and the missing fields (SR-93, SR-139)."""
    error, hint = refusal({"kind": "Router", "limit": 501, "since": "now", "lines": [{}]})
    assert (error.code, hint.reason) == ("invalid_arguments", "invalid_arguments")
    assert hint.missing_fields == ["site_id", "sku"]
    for words in (
        "`limit` must be at most 500, got 501",
        '`kind` must be one of "router", "switch", got "Router"',
        '`since` must be a date-time like YYYY-MM-DDThh:mm:ss with its zone, Z or +hh:mm, got "now"',
        "`lines[0].sku` is required",
    ):
        assert words in error.message
        assert words in (hint.message or "")
    assert hint.mended() is None
    assert hint.invented == ["/limit", "/lines/0/sku", "/since", "/site_id"]
    assert hint.template == {"kind": "router", "lines": [{}], "limit": "<limit>", "since": "<since>"}
    assert hint.example_input == {
        "site_id": "s-1",
        "kind": "router",
        "lines": [{"sku": "example"}],
    }


def test_a_misspelt_field_names_the_one_that_was_meant() -> None:
    """The text for an unknown field has the closest known name, unless that field was sent too."""
    error, hint = refusal({"siteId": "s-9", "kind": "router"})
    assert "`siteId` is not a known field; did you mean `site_id`?" in error.message
    assert hint.example_input == {"site_id": "s-9", "kind": "router"}
    error, _ = refusal({"siteId": "s-9", "site_id": "s-1", "kind": "router"})
    assert "did you mean" not in error.message


def test_a_question_asks_for_at_most_three_known_fields() -> None:
    """`clarifying_question` has at most three fields, and is None for unknown fields alone."""
    _, hint = refusal({"site_id": "s-1", "kind": "router", "zzz": 1})
    assert hint.clarifying_question is None
    _, hint = refusal({"site_id": 1, "kind": "x", "limit": 0, "lines": [{}]})
    assert hint.clarifying_question == (
        "What should `lines[0].sku` (Article), `site_id` (The site to list) and `limit` be?"
    )
    _, hint = refusal({**EXAMPLE, "limit": 0})
    assert hint.clarifying_question == "What should `limit` be?"


def test_a_question_has_at_most_300_characters() -> None:
    """Three fields with long names and descriptions are cut to 300 characters, the question mark among them."""
    names = [letter * 80 for letter in "abc"]
    schema = forbid_unknown_fields(
        {"properties": {name: {"description": "d" * 80} for name in names}, "required": names}
    )
    validator = Validator(schema)
    _, hint = hints.hint_for_issues(spec_of(schema), {}, validator.issues({}), validator)
    assert hint.clarifying_question is not None
    assert len(hint.clarifying_question) == 300
    assert hint.clarifying_question.endswith("…?")


def test_descriptions_are_found_in_the_schema_too() -> None:
    """A question describes a field by the schema where the spec has no descriptions."""
    schema = forbid_unknown_fields(
        {"properties": {"a": {"description": "Which\x1b[31m one"}}, "required": ["a"]}
    )
    spec = ToolSpec(
        id="s.t.u",
        title="",
        description="",
        payload=TypeSpec(name="A", json_schema=schema),
        result=TypeSpec(name="R", json_schema={}),
    )
    _, hint = hints.hint_for_issues(spec, {}, Validator(schema).issues({}), Validator(schema))
    assert hint.clarifying_question == "What should `a` (Which [31m one) be?"


def test_a_large_input_is_not_repeated() -> None:
    """A prior input over 8 KB, or with a lone surrogate, is left out, and the example is the author's."""
    for payload in ({"site_id": "x" * 9_000}, {"site_id": "\ud800", "kind": "zzz"}):
        _, hint = refusal(payload)
        assert hint.prior_input is None
        assert hint.example_input == EXAMPLE
        assert hint.model_dump_json()


def test_issues_from_a_models_own_validators_fit_in() -> None:
    """An issue of a pydantic validator has the validator's text, and the example is the author's."""
    issue = FieldIssue(field="/site_id", constraint="rejected", expected_type="Value error, no such site")
    error, hint = hints.hint_for_issues(SPEC, {"site_id": "s-9", "kind": "router"}, [issue], VALIDATOR)
    assert error.message.endswith('`site_id` was refused: Value error, no such site, got "s-9"')
    assert (hint.reason, hint.example_input) == ("invalid_arguments", EXAMPLE)
    error, hint = hints.hint_for_issues(SPEC, {}, [], VALIDATOR)
    assert error.message.endswith("the payload does not fit the schema")
    assert hint.missing_fields == []
    root = FieldIssue(field="", constraint="missing_field")
    assert hints.hint_for_issues(SPEC, {}, [root], VALIDATOR)[1].missing_fields == []
    assert (
        hints.hint_for_issues(SPEC, {}, [FieldIssue(field="", constraint="unknown_field")], VALIDATOR)[
            1
        ].clarifying_question
        is None
    )


def test_many_issues_are_counted_in_the_message() -> None:
    """The message has bounded length and counts the issues that it leaves out; the hint has all of them."""
    payload = {f"unknown_{n}": n for n in range(40)}
    error, hint = refusal(payload)
    assert error.message.endswith("more")
    assert len(error.message) <= hints.MAX_MESSAGE
    assert len(hint.issues) == 42


def test_the_hint_for_unparsable_arguments_has_the_position_and_an_example(subtests: pytest.Subtests) -> None:
    """Text that is no payload gives `invalid_arguments` with the parse position and a valid example."""
    rows = [
        ('{"site_id": "s-1", "kind": ', ["Send the whole JSON object again", "character 27", "was not run"]),
        (
            '{"site_id": }',
            ["Send one complete JSON object", "expecting value at character 12", 'near "{\\"site_id\\": }"'],
        ),
        ("", ["Send a JSON object"]),
        ("[1]", ["the arguments are an array"]),
        ('{"a": 1, "a": 2}', ["gives each name once"]),
        ('{"a":' * 70 + "1" + "}" * 70, ["flatter"]),
    ]
    for raw, words in rows:
        with subtests.test(raw=raw, words=words):
            fault = parse_arguments(raw)
            assert isinstance(fault, ParseFault)
            error, hint = hints.unparsable_arguments(SPEC, fault)
            assert (hint.reason, error.code, hint.restrict_to_tool) == (
                "invalid_arguments",
                "invalid_arguments",
                True,
            )
            assert hint.example_input == EXAMPLE
            assert hint.prior_input is None
            assert [issue.format for issue in hint.issues] == ["json"]
            assert all(word in (hint.message or "") for word in words), hint.message


def test_an_unknown_tool_is_answered_with_tools_that_the_agent_has() -> None:
    """The hint suggests a similar tool of the agent; else it lists the agent's tools, or says that there are none."""
    shown = ["ops.devices.list", "ops.devices.get", "docs.search.find"]
    error, hint = hints.unknown_tool("ops.device.lists", shown)
    assert (error.message, hint.reason, hint.tool, hint.restrict_to_tool) == (
        "there is no tool `ops.device.lists`", "tool_unavailable", "ops.device.lists", False,
    )  # fmt: skip
    assert hint.message == "There is no tool `ops.device.lists`. Did you mean ops.devices.list?"
    assert "docs.search.find?" in (hints.unknown_tool("find", shown)[1].message or "")
    assert "The tools are ops.devices.list," in (hints.unknown_tool("qqq", shown)[1].message or "")
    assert "and 12 more" in (hints.unknown_tool("qqq", [f"a.b.c{n}" for n in range(20)])[1].message or "")
    assert "no tools to call" in (hints.unknown_tool("qqq", [])[1].message or "")
    assert hints.unknown_tool("x\x1b[2J`" * 500, shown)[1].tool.isprintable()


def test_a_timeout_says_that_the_outcome_is_unknown() -> None:
    """The hint has the reason `timeout`, and the error names the limit in seconds or minutes (SR-136)."""
    error, hint = hints.timeout("ops.devices.list", timedelta(minutes=2))
    assert (hint.reason, error.message) == ("timeout", "ops.devices.list did not answer within 2 min")
    assert "may or may not have taken effect" in (hint.message or "")
    assert "within 1.5 s" in hints.timeout("t", timedelta(seconds=1.5))[0].message
    assert "within 150 s" in hints.timeout("t", timedelta(seconds=150))[0].message


def test_a_rate_limit_says_when_to_retry() -> None:
    """The hint has the reason `rate_limited` and the time after which the same call can succeed."""
    error, hint = hints.rate_limited("t", "429 from\nupstream", timedelta(seconds=30))
    assert (hint.reason, hint.retry_after) == ("rate_limited", timedelta(seconds=30))
    assert error.message == "t is over a limit: 429 from upstream"
    assert "in 30 s" in (hint.message or "")
    assert "later" in (hints.rate_limited("t", "x")[1].message or "")


def test_an_unavailable_tool_tells_the_planner_to_go_on_without_it() -> None:
    """The hint has the reason `tool_unavailable`, and says when to try again, or to go on without the tool."""
    error, hint = hints.unavailable("t", "connection refused", timedelta(seconds=5))
    assert (hint.reason, error.message) == ("tool_unavailable", "t is unavailable: connection refused")
    assert "Try again in 5 s" in (hint.message or "")
    assert "Go on without it" in (hints.unavailable("t", "x")[1].message or "")


def test_a_malformed_response_blames_the_tool() -> None:
    """The hint has the reason `malformed_response`, with the result's faults as a text or as issues."""
    error, hint = hints.malformed_response(SPEC, "count: not\x00 a number")
    assert (hint.reason, hint.issues) == ("malformed_response", [])
    assert error.message.endswith("its own schema: count: not a number")
    issue = FieldIssue(
        field="/count", constraint="invalid_field_type", expected_type="integer", actual_type="string"
    )
    error, hint = hints.malformed_response(SPEC, [issue])
    assert error.message.endswith("`count` must be an integer, not a string")
    assert hint.issues == [issue]


@pytest.mark.parametrize("read_only", [True, False, None])
def test_a_malformed_response_invites_no_second_effect(read_only: bool | None) -> None:
    """Other arguments are suggested only for a tool that changes nothing; any other one may have taken effect."""
    spec = SPEC.model_copy(
        update={"annotations": SPEC.annotations.model_copy(update={"read_only": read_only})}
    )
    error, hint = hints.malformed_response(spec, "not a receipt")
    assert error.outcome_unknown is hint.outcome_unknown is (not read_only)
    assert ("Other arguments may" in hint.message) is bool(read_only)
    assert ("It may have taken effect" in hint.message) is not read_only
    error, hint = hints.oversized_result(spec, 2_000_000)
    assert error.outcome_unknown is hint.outcome_unknown is (not read_only)
    assert ("check first what the call did" in hint.message) is not read_only


def test_an_oversized_result_names_the_arguments_that_narrow_it() -> None:
    """The hint has the reason `malformed_response`, and names the tool's fields that limit a result."""
    error, hint = hints.oversized_result(SPEC, 2_000_000)
    assert (hint.reason, hint.restrict_to_tool) == ("malformed_response", True)
    assert "2,000,000 bytes, more than the 1,000,000" in error.message
    assert "Narrow it with `limit`, `since`" in (hint.message or "")
    assert "Ask for a smaller part" in (hints.oversized_result(spec_of({}), 5, 4)[1].message or "")


def test_each_issue_has_one_sentence() -> None:
    """Every constraint has a sentence, also one that a later version adds (SR-147)."""
    rows = [
        (FieldIssue(field="/a", constraint="missing_field", allowed=["x", "y"]), None, '`a` is required (one of: "x", "y")'),
        (FieldIssue(field="", constraint="invalid_field_type", expected_type="object"), [1], "the payload must be an object, got an array with 1 item"),
        (FieldIssue(field="/a", constraint="invalid_field_type", expected_type="string"), {"b": 1, "c": 2}, "`a` must be a string, got an object with 2 fields"),
        (FieldIssue(field="/a", constraint="invalid_enum_value", allowed=["x"]), 10**80, '`a` must be "x", got a huge integer'),
        (FieldIssue(field="/a", constraint="invalid_enum_value"), "b", '`a` must be one of , got "b"'),
        (FieldIssue(field="/a", constraint="invalid_format", format="x-odd"), "b", '`a` must have the format x-odd, got "b"'),
        (FieldIssue(field="/a", constraint="invalid_pattern", pattern="^a`\n"), "b", '`a` must match the pattern ^a, got "b"'),
        (FieldIssue(field="/a", constraint="invalid_range", minimum=0.5, maximum=2), 3, "`a` must be at least 0.5 and at most 2, got 3"),
        (FieldIssue(field="/a", constraint="invalid_range", expected_type="number above 0"), 0, "`a` must be a number above 0, got 0"),
        (FieldIssue(field="/a", constraint="invalid_range"), 0, "`a` must be within other bounds, got 0"),
        (FieldIssue(field="/a", constraint="invalid_length", minimum=1), "", "`a` must have at least 1 character, has 0"),
        (FieldIssue(field="/a", constraint="invalid_length", maximum=2), [1, 2, 3], "`a` must have at most 2 items, has 3"),
        (FieldIssue(field="/a", constraint="invalid_length", minimum=2), {}, "`a` must have at least 2 fields, has 0"),
        (FieldIssue(field="/a", constraint="invalid_length", minimum=2), 5, "`a` must have at least 2 items"),
        (FieldIssue(field="/a", constraint="invalid_length", expected_type="array without repeated items"), [1, 1], "`a` must be an array without repeated items"),
        (FieldIssue(field="/a", constraint="rejected"), 1, "`a` was refused: it breaks a rule of the tool, got 1"),
        (FieldIssue(field="/a", constraint="new_rule"), 1, "`a` breaks the rule new_rule, got 1"),
        (FieldIssue(field="/a", constraint="new_rule", expected_type="even number"), 1, "`a` must be an even number, got 1"),
        (FieldIssue(field="/a/0/b~1c", constraint="unknown_field"), 1, "`a[0].b/c` is not a known field"),
        (FieldIssue(field="/a", constraint="invalid_field_type"), 1, "`a` must be of another type, got 1"),
    ]  # fmt: skip
    assert [
        (issue, value, found) for issue, value, text in rows if (found := sentence(issue, value)) != text
    ] == []


def test_an_issue_without_its_value_has_the_values_type() -> None:
    """Without the value, the phrase is made from the issue alone."""
    assert (
        phrase(
            FieldIssue(
                field="/a", constraint="invalid_field_type", expected_type="string", actual_type="null"
            )
        )
        == "must be a string, not null"
    )
    assert (
        phrase(FieldIssue(field="/a", constraint="invalid_length", minimum=2))
        == "must have a length of at least 2"
    )


def test_a_long_enum_is_shortened() -> None:
    """A long enum shows its beginning and the number of further values."""
    text = phrase(FieldIssue(field="", constraint="invalid_enum_value", allowed=list(range(40))), 99)
    assert "11 (and 28 more)" in text


@given(
    st.text()
    | st.integers()
    | st.floats()
    | st.none()
    | st.lists(st.text())
    | st.dictionaries(st.text(), st.text())
    | st.binary()
)
def test_an_echo_is_short_and_printable(value: Any) -> None:
    """Any value is repeated shortened and without control or direction characters."""
    text = echo(value)
    assert text.isprintable()
    assert len(text) <= 60 * 10 + 2


@given(st.text(), st.text())
def test_names_cannot_break_out_of_their_quotes(name: str, text: str) -> None:
    """A field's name has no backticks but the two around it, and neither names nor texts have control characters."""
    shown = field_name("/" + name.replace("~", "").replace("/", ""))
    assert shown.isprintable()
    assert shown.count("`") in (0, 2)
    assert plain(text, 50).isprintable()
    assert len(plain(text, 50)) <= 50


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(list(SCHEMA["properties"])) | st.text(), JSON, max_size=5))
def test_every_hint_is_bounded_printable_and_has_a_valid_example(payload: dict[str, Any]) -> None:
    """For any payload the texts are short and printable, the reason fits the issues, and the example validates (SR-116, SR-144)."""
    issues = VALIDATOR.issues(payload)
    if not issues:
        return
    error, hint = refusal(payload)
    for text in (error.message, hint.message or "", hint.clarifying_question or ""):
        assert len(text) <= hints.MAX_MESSAGE
        assert not text or text.isprintable()
    only_missing = all(issue.constraint == "missing_field" for issue in issues)
    assert hint.reason == ("missing_fields" if only_missing else "invalid_arguments")
    assert hint.prior_input == (payload if json_fault(payload, max_bytes=8_000) is None else None)
    assert hint.example_input is not None
    assert VALIDATOR.is_valid(hint.example_input)
    assert (hint.mended() is None) == bool(hint.invented)
    assert RetryHint.model_validate_json(hint.model_dump_json()) == hint


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}], ids=str)
def test_the_value_of_a_secret_field_is_in_no_text(mark: dict[str, Any]) -> None:
    """The texts have a secret field's issue without its value, and the values of other fields."""
    secret, field = 48151623, {"type": "string"}
    schema = {"type": "object", "properties": {"pin": {**field, **mark}, "site": field}}
    spec, payload, validator = spec_of(schema), {"pin": secret, "site": 108}, Validator(schema)
    error, hint = hints.hint_for_issues(spec, payload, validator.issues(payload), validator)
    for said in (error.message, hint.message or "", hint.clarifying_question or ""):
        assert str(secret) not in said
    assert "`pin` must be a string" in error.message
    assert "got 108" in error.message
