"""Repair of a refused payload: the issues that are repaired without a question, and those left for a person."""

import json
from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from sojourn import FieldIssue, RetryHint, Toolset
from sojourn.core.payload.hints import hint_for_issues
from sojourn.core.repair.payload import issues_in_hint, repair_payload
from sojourn.core.schema.validate import Validator
from sojourn.values.numbers import WholeNumber

tools = Toolset("test.sites")


class Place(BaseModel):
    city: str
    floor: int = 0


class Visit(BaseModel):
    site_id: str
    mode: Literal["online", "offline"]
    limit: Annotated[int, Field(ge=1, le=10)] = 3
    day: date | None = None
    at: datetime | None = None
    code: Annotated[str, Field(pattern="^[a-z]+$", max_length=5)] | None = None
    kind: Annotated[Literal["site"], Field()] = "site"
    place: Place | None = None
    tags: list[str] = []


EXAMPLE = {"site_id": "s-1", "mode": "online"}


@tools.tool(read_only=True, examples=[EXAMPLE])
def look(args: Visit) -> str:
    """Read."""
    return args.mode


@tools.tool(destructive=True, examples=[EXAMPLE])
def wipe(args: Visit) -> str:
    """Destroy."""
    return args.mode


@tools.tool(examples=[EXAMPLE])
def visit(args: Visit) -> str:
    """Do something or other."""
    return args.mode


def repaired(tool: Any, sent: dict[str, Any], **known: Any) -> tuple[dict[str, Any], list[str]]:
    """The repaired payload and the fields left for a person, with the hint that the boundary gives."""
    validator = Validator(tool.spec.payload.json_schema)  # by the schema alone, as of a tool without types
    issues = validator.issues(sent)
    assert issues, "the payload is valid"
    _, hint = hint_for_issues(tool.spec, sent, issues, validator)
    outcome = repair_payload(hint, sent, spec=tool.spec, **known)
    if not outcome.missing:
        assert tool.validator.is_valid(outcome.payload)
    return outcome.payload, outcome.missing


def site(**fields: Any) -> dict[str, Any]:
    """Make a payload that is valid but for the given fields."""
    return {"site_id": "s-9", "mode": "online", **fields}


SAME = [
    (site(limit="4"), site(limit=4)),
    (site(mode="OFFLINE"), site(mode="offline")),
    (site(code=" abc "), site(code="abc")),
    (site(day="2027-01-04T10:00:00Z"), site(day="2027-01-04")),
    ({"siteId": "s-9", "mode": "online"}, site()),
    (site(LIMIT=4), site(limit=4)),
    (site(limit=None), site()),
    (site(at="2027-01-04 10:00+0100"), site(at="2027-01-04T10:00:00+01:00")),
    (site(tags="a"), site(tags=["a"])),
    (site(place='{"city": "Lisbon"}'), site(place={"city": "Lisbon"})),
    (site(place={"city": "Lisbon", "floor": "2"}), site(place={"city": "Lisbon", "floor": 2})),
]
GUESSED = [
    (site(limit=99), site(limit=10), ["limit"]),
    (site(mode="offlne"), site(mode="offline"), ["mode"]),
    (site(colour="red"), site(), ["colour"]),
    ({"sit_id": "s-9", "mode": "online"}, site(), ["sit_id", "site_id"]),
    (site(site_id=3.1), site(site_id="3.1"), ["site_id"]),  # it may have been 3.10
    (site(tags="a,b"), site(tags=["a,b"]), ["tags"]),
]
MADE_UP = [
    ({"mode": "online"}, ["site_id"]),
    ({"site_id": "s-9"}, ["mode"]),
    (site(mode="inactive"), ["mode"]),
    (site(day="tomorrow"), ["day"]),
    (site(at="2027-01-04T10:00"), ["at"]),
    (site(code="abcdefgh"), ["code"]),
    (site(place={"floor": 1}), ["/place/city"]),
    (site(limit="many"), ["limit"]),
]


def test_another_form_of_the_same_value_is_repaired_for_any_tool() -> None:
    """A value in another form is repaired for read-only, destructive and undeclared tools (SR-92, SR-145)."""
    tools = [look, wipe, visit]
    assert [
        (tool, sent, payload, found)
        for sent, payload in SAME
        for tool in tools
        if (found := repaired(tool, sent)) != (payload, [])
    ] == []


FORMS = {
    "site_id": lambda value: {"siteId": value},
    "mode": lambda value: {"mode": f" {value.upper()} "},
    "limit": lambda value: {"limit": f"{value}.0"},
    "day": lambda value: {"day": f"{value}T10:00:00Z"},
    "code": lambda value: {"code": f" {value.capitalize()} "},
    "place": lambda value: {"place": json.dumps(value)},
    "tags": lambda value: {"tags": value[0] if len(value) == 1 else json.dumps(value)},
}
"""Another form of a field's value, or of its name."""
VISITS = st.fixed_dictionaries(
    {
        "site_id": st.from_regex(r"[a-z]-[0-9]{1,3}", fullmatch=True),
        "mode": st.sampled_from(["online", "offline"]),
    },
    optional={
        "limit": st.integers(1, 10),
        "day": st.dates(date(1970, 1, 1)).map(str),
        "code": st.text("abcxyz", min_size=1, max_size=3),
        "place": st.fixed_dictionaries({"city": st.text("abc", min_size=1), "floor": st.integers(-9, 99)}),
        "tags": st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3),
    },
)


@given(VISITS, st.sets(st.sampled_from(sorted(FORMS)), min_size=1), st.sampled_from([look, wipe, visit]))
def test_every_value_in_another_form_is_repaired(payload, others, tool):
    """However many fields of a valid payload are sent in another form, the payload that was meant comes back."""
    assume(others & payload.keys())
    sent: dict[str, Any] = {}
    for name, value in payload.items():
        sent |= FORMS[name](value) if name in others else {name: value}
    assert repaired(tool, sent) == (payload, [])


def test_a_likely_guess_is_made_only_for_a_tool_that_reads(subtests: pytest.Subtests) -> None:
    """For a tool that is not declared read-only, a likely guess is left for a person and the payload is unchanged."""
    for sent, payload, missing in GUESSED:
        with subtests.test(sent=sent, payload=payload, missing=missing):
            assert repaired(look, sent) == (payload, [])
            for tool in (wipe, visit):
                unchanged, left = repaired(tool, sent)
                assert left == missing
                assert unchanged == sent


def test_a_value_that_the_hint_names_as_invented_is_not_used() -> None:
    """A history keeps of `1e23` only the integer; the hint, made where it was written, says that its text is not known."""
    sent = site(site_id=WholeNumber(10**23))
    _, hint = hint_for_issues(wipe.spec, sent, wipe.validator.issues(sent), wipe.validator)
    read = RetryHint.model_validate_json(hint.model_dump_json())
    assert repair_payload(read, read.prior_input or {}, spec=wipe.spec).missing == ["site_id"]


def test_no_value_is_invented() -> None:
    """A value that only the example has is never used, not even for a read-only tool: it may name the wrong site."""
    tools = [look, wipe, visit]
    assert [
        (tool, sent, found)
        for sent, missing in MADE_UP
        for tool in tools
        if (found := repaired(tool, sent)[1]) != missing
    ] == []


def test_a_default_fills_an_absent_field_and_replaces_no_value():
    """The planner's default is used for an absent field, never for a refused value."""
    assert repaired(wipe, {"mode": "online"}, defaults={"site_id": "s-3"}) == (site(site_id="s-3"), [])
    assert repaired(wipe, site(mode="gone"), defaults={"mode": "offline"})[1] == ["mode"]


def test_a_default_of_the_schema_fills_an_absent_field():
    """A missing field with a constant or a default in the schema is filled in."""
    hint = RetryHint(reason="missing_fields", tool=wipe.id, missing_fields=["kind", "limit"])
    assert repair_payload(hint, site(), spec=wipe.spec).payload == site(kind="site", limit=3)


def test_an_answer_repairs_any_issue_unless_it_repeats_the_value():
    """A person's value replaces a refused value unless it is the same, and comes before a default."""
    sent = {"site_id": "s-9", "mode": "gone"}
    assert repaired(wipe, sent, answers={"mode": "offline"}) == (site(mode="offline"), [])
    assert repaired(wipe, sent, answers={"mode": "gone"})[1] == ["mode"]
    answered = repaired(wipe, {"mode": "online"}, answers={"site_id": "s-4"}, defaults={"site_id": "s-3"})
    assert answered == (site(site_id="s-4"), [])


def test_an_answer_may_add_fields_but_replaces_no_valid_value():
    """An answer may add fields of the tool that were not sent; valid values stay, and unknown fields are ignored."""
    answers = {"site_id": "s-4", "limit": 2, "mode": "offline", "weather": "fine"}
    assert repaired(wipe, {"mode": "online"}, answers=answers) == (site(site_id="s-4", limit=2), [])


def test_an_answer_to_a_nested_field_is_by_its_pointer():
    """An answer names a nested field by its pointer, since two fields may have the same name."""
    assert repaired(wipe, site(place={"floor": 1}), answers={"/place/city": "Faro"}) == (
        site(place={"floor": 1, "city": "Faro"}),
        [],
    )


def test_the_issues_of_a_hint(subtests: pytest.Subtests) -> None:
    """A hint's issues include its missing fields; a hint with only an example has the fields that differ from it."""
    rows = [
        ({"missing_fields": ["mode"]}, ["/mode"]),
        (
            {
                "missing_fields": ["mode"],
                "issues": [
                    FieldIssue(field="/mode", constraint="missing_field"),
                    FieldIssue(field="/limit", constraint="rejected"),
                ],
            },
            ["/mode", "/limit"],
        ),
        ({"example_input": {"site_id": "s-9", "mode": "offline", "limit": 1}}, ["/mode", "/limit"]),
        ({}, []),
        ({"issues": [FieldIssue(field="", constraint="rejected")]}, [""]),
    ]
    for hint, fields in rows:
        with subtests.test(hint=hint, fields=fields):
            made = RetryHint(reason="invalid_arguments", tool=wipe.id, **hint)
            assert [issue.field for issue in issues_in_hint(made, site())] == fields


def test_a_value_of_a_tools_own_example_is_not_used():
    """A hint without issues shows a payload that works, but not the one that was intended."""
    hint = RetryHint(
        reason="invalid_arguments", tool=wipe.id, example_input={"site_id": "s-1", "mode": "online"}
    )
    assert repair_payload(hint, site(), spec=wipe.spec).missing == ["site_id"]


def test_without_a_spec_only_the_form_is_repaired():
    """A tool without a spec is treated as one that changes something."""
    hint = RetryHint(
        reason="invalid_arguments",
        tool="a.b.c",
        example_input={"n": 10, "flag": True, "list": []},
        issues=[
            FieldIssue(field="/n", constraint="invalid_range", maximum=10),
            FieldIssue(field="/flag", constraint="invalid_field_type", expected_type="boolean"),
            FieldIssue(field="/gone/deep", constraint="invalid_format"),
            FieldIssue(field="/list/0", constraint="invalid_field_type", expected_type="string"),
            FieldIssue(field="/gone/deeper", constraint="unknown_field"),
            FieldIssue(field="", constraint="rejected"),
        ],
    )
    sent = {"n": 11, "flag": "yes", "list": [None]}
    assert repair_payload(hint, sent) == repair_payload(hint, sent, answers={"other": 1})
    assert repair_payload(hint, sent).payload == {"n": 11, "flag": True, "list": [None]}
    assert repair_payload(hint, sent).missing == ["n", "/list/0"]
    assert sent == {"n": 11, "flag": "yes", "list": [None]}
