"""Forms: what a person is asked to fill in, and what of their answer does not fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from sojourn import ToolSpec, TypeSpec
from sojourn.core.awaits.form import form_of, has_fields, is_closed, misfit_of, values_of
from sojourn.core.schema.enforceable import forbid_unknown_fields
from sojourn.core.schema.validate import Validator


class Address(BaseModel):
    """Where."""

    city: str = Field(description="The city", max_length=20)
    house: int | None = Field(default=None, ge=1, title="House number")


class Order(BaseModel):
    """What."""

    site: str = Field(min_length=2, max_length=8, description="Where to deliver", pattern="[a-z]+")
    count: int = Field(default=1, ge=1, le=9)
    kind: str = Field(default="a", json_schema_extra={"enum": ["a", "b"]})
    note: str | None = Field(default=None, description="For the driver")
    to: Address
    lines: list[Address] = []


def spec(schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        id="ops.orders.place",
        title="",
        description="",
        payload=TypeSpec(name="Order", json_schema=schema),
        result=TypeSpec(name="R", json_schema={}),
    )


ORDER = spec(Order.model_json_schema())


def fields(spec: ToolSpec, *names: str) -> dict[str, Any]:
    form = form_of(spec, names)
    assert form is not None
    assert set(form) - {"additionalProperties"} == {"type", "properties"}
    assert form["type"] == "object"
    assert is_closed(form) is (len(names) <= 50)
    return form["properties"]


# Forms of tools.


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (
            "site",
            {
                "type": "string",
                "title": "Site",
                "description": "Where to deliver",
                "minLength": 2,
                "maxLength": 8,
            },
        ),
        ("count", {"type": "integer", "title": "Count", "default": 1, "minimum": 1, "maximum": 9}),
        ("kind", {"type": "string", "title": "Kind", "default": "a", "enum": ["a", "b"]}),
        # Which alternative is meant is for the tool to say.
        ("note", {"title": "Note", "description": "For the driver"}),
        # Of a nested object a form says that it is one; its fields are named by pointer, through references.
        ("to", {"type": "object", "title": "Address", "description": "Where."}),
        ("/to/city", {"type": "string", "title": "City", "description": "The city", "maxLength": 20}),
        ("/to/house", {"title": "House number"}),
        ("/lines/0/city", {"type": "string", "title": "City", "description": "The city", "maxLength": 20}),
        (
            "/site",
            {
                "type": "string",
                "title": "Site",
                "description": "Where to deliver",
                "minLength": 2,
                "maxLength": 8,
            },
        ),
    ],
)
def test_a_form_says_of_a_field_what_the_tool_says(field: str, said: dict) -> None:
    """Fields are found by bare name or pointer; of their schemas the simple words are kept."""
    assert fields(ORDER, field) == {field: said}


def test_a_form_has_the_fields_that_are_asked_for() -> None:
    """Of a name that the tool does not know nothing is said, and with no other there is no form."""
    assert list(fields(ORDER, "kind", "other", "site")) == ["kind", "other", "site"]
    assert fields(ORDER, "kind", "other")["other"] == {}
    assert has_fields(ORDER, ["kind", "/to/city"])
    assert not has_fields(ORDER, ["kind", "other"])
    for none in ([], ["other"], ["/to/other"], ["city"], ["/0"]):
        assert form_of(ORDER, none) is None
        assert not has_fields(ORDER, none)
    assert not is_closed(None)


def test_a_pointer_is_unescaped() -> None:
    """A name with a slash is found by its pointer, and as it is."""
    odd = spec({"type": "object", "properties": {"a/b": {"type": "string"}, "c~d": {"type": "integer"}}})
    assert fields(odd, "/a~1b", "a/b", "/c~0d") == {
        "/a~1b": {"type": "string"},
        "a/b": {"type": "string"},
        "/c~0d": {"type": "integer"},
    }


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"allOf": [{"type": "string"}, {"maxLength": 5}]}, {"type": "string", "maxLength": 5}),
        ({"$ref": "#/$defs/name", "title": "Own"}, {"type": "string", "title": "Own"}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}], "description": "d"}, {"description": "d"}),
        ({"type": "string", "not": {"enum": ["x"]}}, {}),
        ({"if": {"minimum": 3}, "then": {"maximum": 5}, "title": "t"}, {"title": "t"}),
        ({"const": "x"}, {"const": "x"}),
        ({"type": ["string", "null"], "pattern": "a+"}, {"type": ["string", "null"]}),
        ({"enum": list(range(101)), "type": "integer"}, {"type": "integer"}),
        ({"title": "t" * 900, "description": 5}, {"title": "t" * 500, "description": 5}),
        ({}, {}),
    ],
    ids=str,
)
def test_a_form_promises_no_more_than_it_can_check(schema: dict, said: dict) -> None:
    """Parts that all apply are put together; alternatives, patterns and long lists are left to the tool."""
    root = {
        "type": "object",
        "properties": {"x": schema},
        "$defs": {"name": {"type": "string", "title": "N"}},
    }
    assert fields(spec(root), "x") == {"x": said}


def test_a_form_has_at_most_fifty_fields() -> None:
    """However many are asked for."""
    wide = spec({"properties": {f"f{n}": {} for n in range(80)}})
    assert len(fields(wide, *(f"f{n}" for n in range(80)))) == 50


NAMES = ("site", "count", "kind", "note", "/to/city")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "site": st.text(max_size=10) | st.sampled_from(["ab", "abc"]),
            "count": st.integers(-1, 10) | st.floats(0, 9),
            "kind": st.sampled_from(["a", "b", "c"]),
            "note": st.none() | st.text(max_size=3) | st.integers(),
        },
    )
)
def test_what_the_tool_takes_fits_its_form(values: dict[str, Any]) -> None:
    """The form's check is the looser: it never refuses a value that the tool would accept."""
    form = form_of(ORDER, NAMES)
    validator = Validator(forbid_unknown_fields(Order.model_json_schema()))
    payload = {"site": "ab", "to": {"city": "Bern"}, **values}
    if not validator.issues(payload):
        assert misfit_of(form, values, whole=True) is None


# Values.

FORM = {
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "size": {"type": "number", "minimum": 0.5, "maximum": 8},
        "count": {"type": "integer"},
        "kind": {"enum": ["a", 1, None]},
        "sure": {"const": True},
        "maybe": {"type": ["boolean", "null"]},
        "any": {},
    }
}


@pytest.mark.parametrize(
    ("values", "misfit"),
    [
        ({"name": "ab"}, None),
        ({"name": "a"}, "name is at least 2 characters long"),
        ({"name": "abcde"}, "name is at most 4 characters long"),
        ({"name": None}, "name is string, not null"),
        ({"size": 0.5}, None),
        ({"size": 8}, None),
        ({"size": 0.4}, "size is at least 0.5"),
        ({"size": 9}, "size is at most 8"),
        ({"size": "1"}, "size is number, not string"),
        ({"count": 5.0}, None),
        ({"count": 5.5}, "count is integer, not number"),
        ({"count": True}, "count is integer, not boolean"),
        ({"count": float("inf")}, "count is integer, not number"),
        ({"kind": "a"}, None),
        ({"kind": None}, None),
        ({"kind": True}, 'kind is one of "a", 1, null'),
        ({"kind": 1.0}, None),
        ({"sure": True}, None),
        ({"sure": 1}, "sure is one of true"),
        ({"maybe": None}, None),
        ({"maybe": 0}, "maybe is boolean or null, not integer"),
        ({"any": {"x": [1]}}, None),
        ({"other": 5}, None),
        ({}, None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said_in_a_clause(values: dict, misfit: str | None) -> None:
    """The first field that does not fit is named, with what would."""
    assert misfit_of(FORM, values, whole=False) == misfit


@pytest.mark.parametrize(
    ("values", "misfit"),
    [
        ({"name": "ab", "count": 1}, None),
        ({"name": "ab"}, "count is missing"),
        ({}, "name, count is missing"),
        (
            {"name": "ab", "count": 1, "other": 1},
            "'other' is none of name, size, count, kind, sure, maybe, any",
        ),
        ({"name": "ab", "count": "1"}, "count is integer, not string"),
        (None, "values by field are wanted: name, size, count, kind, sure, maybe, any"),
    ],
    ids=str,
)
def test_a_tool_takes_all_that_it_requires_and_no_more(values: dict | None, misfit: str | None) -> None:
    """Where values go to the tool as they are, required fields have to be there and others must not."""
    assert misfit_of({**FORM, "required": ["name", "count"]}, values, whole=True) == misfit


@pytest.mark.parametrize(
    ("form", "text", "values"),
    [
        # JSON objects are values, whatever the form.
        (FORM, '{"name": "ab"}', {"name": "ab"}),
        ({}, "{}", {}),
        # Words are words where several fields are asked for.
        (FORM, "ab", None),
        (FORM, "5", None),
        (FORM, "[1]", None),
        # The one field that is asked for takes the text itself where it fits, else what it says as JSON.
        ({"properties": {"n": {"type": "integer"}}}, "5", {"n": 5}),
        ({"properties": {"n": {"type": "string"}}}, "5", {"n": "5"}),
        ({"properties": {"n": {}}}, "5", {"n": "5"}),
        ({"properties": {"n": {"type": "boolean"}}}, "true", {"n": True}),
        ({"properties": {"n": {"type": "boolean"}}}, "yes", None),
        ({"properties": {"n": {"type": "integer", "minimum": 9}}}, "5", None),
        ({"properties": {"n": {"type": "null"}}}, "null", None),
        ({"properties": {"n": {"type": "array"}}}, "[1]", {"n": [1]}),
        ({"properties": {"n": {"enum": ["a"]}}}, "b", None),
        # What cannot be read is words.
        ({"properties": {"n": {"type": "integer"}}}, "1" * 5_000, None),
        ({"properties": {"n": {"type": "integer"}}}, "[" * 50_000, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_text_may_give_values(form: dict, text: str, values: dict | None) -> None:
    """A person may answer in JSON, or with the one value; else it is words."""
    assert values_of(form, text) == values


def test_a_clause_is_short() -> None:
    """Names and choices of a stranger's form are cut where they are repeated."""
    form = {"properties": {"n" * 900: {"enum": ["e" * 900] * 90}}, "required": ["r" * 900] * 90}
    for values in ({}, {"r" * 900: 1, "x" * 900: 1}, None):
        assert len(str(misfit_of(form, values, whole=True))) < 400
    assert len(str(misfit_of(form, {"n" * 900: 1}, whole=False))) < 2_000


@pytest.mark.parametrize(
    ("names", "values", "misfit"),
    [
        (["count"], {"count": 2}, None),
        (["count"], {"cuont": 2}, "'cuont' is none of count"),
        (["count"], {"count": 2, "kind": "a"}, "'kind' is none of count"),
        (["count", "kind"], {"cuont": 2}, "'cuont' is none of count, kind; did you mean 'count'?"),
        (["count", "kind"], {"Kind": "a"}, "'Kind' is none of count, kind; did you mean 'kind'?"),
        (["count", "kind"], {"zzz": "a"}, "'zzz' is none of count, kind"),
        (
            ["kind", "/lines/0/city"],
            {"city": "Bern"},
            "'city' is none of kind, /lines/0/city; did you mean '/lines/0/city'?",
        ),
        (["/to/city", "/lines/0/city"], {"city": "B"}, "'city' is none of /to/city, /lines/0/city"),
        (
            ["kind", "/to/city"],
            {"/to/ctiy": "B"},
            "'/to/ctiy' is none of kind, /to/city; did you mean '/to/city'?",
        ),
        (["kind", "/to/city"], {"/to/city": "B"}, None),
    ],
)
def test_a_misspelt_field_answers_nothing(names: list[str], values: dict, misfit: str | None) -> None:
    """It is refused with the name that was meant, where the form is closed; a form of an older run is not."""
    form = form_of(ORDER, names)
    assert misfit_of(form, values, whole=False, closed=True) == misfit
    assert misfit_of(form, values, whole=False) is None
