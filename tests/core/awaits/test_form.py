"""Forms: the fields that a person fills in, and the check of the answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from sojourn.contracts import ToolSpec, TypeSpec
from sojourn.core.awaits.form import form_faults, form_of, has_fields, is_closed, mismatch_of, values_of
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


ADDRESS = {
    "type": "object",
    "title": "Address",
    "description": "Where.",
    "properties": {
        "city": {"type": "string", "title": "City", "description": "The city", "maxLength": 20},
        "house": {"type": ["integer", "null"], "title": "House number", "default": None, "minimum": 1},
    },
    "required": ["city"],
}


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
    assert set(form) - {"additionalProperties", "required"} == {"type", "properties"}
    assert form["type"] == "object"
    assert is_closed(form) is (len(names) <= 50)
    return form["properties"]


# Forms of tools.


def test_a_form_keeps_the_shape_of_a_field(subtests: pytest.Subtests) -> None:
    """A field is found by bare name or pointer, and its schema keeps the keywords that a form can show."""
    rows = [
        (
            "site",
            {
                "type": "string",
                "title": "Site",
                "description": "Where to deliver",
                "minLength": 2,
                "maxLength": 8,
                "pattern": "[a-z]+",
            },
        ),
        ("count", {"type": "integer", "title": "Count", "default": 1, "minimum": 1, "maximum": 9}),
        ("kind", {"type": "string", "title": "Kind", "default": "a", "enum": ["a", "b"]}),
        # A field that may be null has the type, the limits and the choices that it has otherwise.
        (
            "note",
            {"type": ["string", "null"], "title": "Note", "description": "For the driver", "default": None},
        ),
        # A nested object has its fields, without references.
        ("to", {word: rule for word, rule in ADDRESS.items() if word != "title"}),
        ("lines", {"type": "array", "title": "Lines", "items": ADDRESS, "default": []}),
        # Its fields are named by pointer too.
        ("/to/city", {"type": "string", "title": "City", "description": "The city", "maxLength": 20}),
        ("/to/house", ADDRESS["properties"]["house"]),
        ("/lines/0/city", {"type": "string", "title": "City", "description": "The city", "maxLength": 20}),
        (
            "/site",
            {
                "type": "string",
                "title": "Site",
                "description": "Where to deliver",
                "minLength": 2,
                "maxLength": 8,
                "pattern": "[a-z]+",
            },
        ),
    ]
    for field, expected in rows:
        with subtests.test(field=field, expected=expected):
            assert fields(ORDER, field) == {field: expected}


def test_a_form_requires_what_the_tool_requires(subtests: pytest.Subtests) -> None:
    """A field is required if its object requires it, by reference or merged, and not for one alternative alone."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "site": {"type": "string"},
            "to": {"$ref": "#/$defs/To"},
            "pay": {
                "anyOf": [{"properties": {"iban": {}}, "required": ["iban"]}, {"properties": {"iban": {}}}]
            },
        },
        "required": ["site", "lost"],
        "$defs": {"To": {"properties": {"city": {}, "zip": {}}, "required": ["city"]}},
    }
    rows = [
        (ORDER, ["count", "site", "to", "note"], ["site", "to"]),
        (ORDER, ["count", "/to/house", "other"], None),
        (ORDER, ["/to/city", "/lines/0/city", "/lines/0/house"], ["/to/city", "/lines/0/city"]),
        (spec(schema), ["/site", "to", "/to/city", "/to/zip", "/pay/iban"], ["/site", "/to/city"]),
        (spec({"properties": {"a": {}}, "required": "a"}), ["a"], None),
    ]
    for tool, names, expected in rows:
        with subtests.test(names=names):
            form = form_of(tool, names)
            assert form is not None
            assert form.get("required") == expected


def test_a_form_of_a_hostile_schema_is_small() -> None:
    """A type that contains itself, a deep one and a wide one are cut where the form would grow."""
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "text": {"type": "string"}},
    }
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        deep = {"type": "object", "properties": {"in": deep}}
    part = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(40)}}
    wide = {"type": "object", "properties": {f"q{n}": part for n in range(40)}}
    properties = {"node": {"$ref": "#/$defs/Node"}, "deep": deep, "wide": wide}
    form = fields(spec({"type": "object", "properties": properties, "$defs": {"Node": node}}), *properties)
    assert form["node"]["properties"]["next"] == {"type": "object"}
    assert str(form["deep"]).count("properties") == 5
    assert len(str(form)) < 25_000


def test_a_form_of_a_tool_is_checked_in_full() -> None:
    """Patterns, formats and nested values are checked too, with the pointer of what is wrong."""
    form = form_of(ORDER, ["site", "to", "note", "lines"])
    assert form is not None
    rows = [
        ({"site": "ABC"}, "site must match the pattern"),
        ({"to": {"city": "x" * 21}}, "to/city "),
        ({"to": {}}, "to/city is required"),
        ({"lines": [{"city": "a"}, {"city": "b", "house": 0}]}, "lines/1/house "),
    ]
    for values, start in rows:
        assert mismatch_of(form, values, whole=False) is None
        assert str(mismatch_of(form, values, whole=False, in_full=True)).startswith(start)
    fits = {"site": "abc", "to": {"city": "Bonn", "house": None}, "note": None, "lines": []}
    assert mismatch_of(form, fits, whole=False, in_full=True) is None


def test_a_form_has_the_fields_that_are_asked_for() -> None:
    """A field that the tool lacks is left open; without a field that the tool has there is no form."""
    assert list(fields(ORDER, "kind", "other", "site")) == ["kind", "other", "site"]
    assert fields(ORDER, "kind", "other")["other"] == {}
    assert has_fields(ORDER, ["kind", "/to/city"])
    assert not has_fields(ORDER, ["kind", "other"])
    for none in ([], ["other"], ["/to/other"], ["city"], ["/0"]):
        assert form_of(ORDER, none) is None
        assert not has_fields(ORDER, none)
    assert not is_closed(None)


def test_a_pointer_is_unescaped() -> None:
    """A name with a slash is found by its escaped pointer and by the name itself."""
    odd = spec({"type": "object", "properties": {"a/b": {"type": "string"}, "c~d": {"type": "integer"}}})
    assert fields(odd, "/a~1b", "a/b", "/c~0d") == {
        "/a~1b": {"type": "string"},
        "a/b": {"type": "string"},
        "/c~0d": {"type": "integer"},
    }


CONSTANTS = [{"const": "a"}, {"const": 2}, {"const": None}]


def test_a_form_keeps_only_keywords_that_it_can_check(subtests: pytest.Subtests) -> None:
    """Keywords of `allOf` and `$ref` are merged; conditions and long enums are left to the tool."""
    rows = [
        ({"allOf": [{"type": "string"}, {"maxLength": 5}]}, {"type": "string", "maxLength": 5}),
        ({"$ref": "#/$defs/name", "title": "Own"}, {"type": "string", "title": "Own"}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}], "description": "d"},
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "d"},
        ),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, {"enum": ["a", None]}),
        ({"anyOf": [{"const": "a"}, {"const": 2}, {"type": "null"}]}, {"anyOf": CONSTANTS}),
        ({"type": "string", "not": {"enum": ["x"]}}, {}),
        ({"if": {"minimum": 3}, "then": {"maximum": 5}, "title": "t"}, {"title": "t"}),
        ({"const": "x"}, {"const": "x"}),
        ({"type": ["string", "null"], "pattern": "a+"}, {"type": ["string", "null"], "pattern": "a+"}),
        ({"$ref": "https://example.com/schema"}, {}),
        ({"enum": list(range(101)), "type": "integer"}, {"type": "integer"}),
        ({"title": "t" * 900, "description": 5}, {"title": "t" * 500, "description": 5}),
        ({}, {}),
    ]
    for schema, expected in rows:
        with subtests.test(str((schema, expected))):
            root = {
                "type": "object",
                "properties": {"x": schema},
                "$defs": {"name": {"type": "string", "title": "N"}},
            }
            assert fields(spec(root), "x") == {"x": expected}


def test_a_form_has_at_most_fifty_fields() -> None:
    """A form has 50 fields if more are named."""
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
def test_what_the_tool_accepts_fits_its_form(values: dict[str, Any]) -> None:
    """A form never refuses a value that the tool's schema accepts."""
    form = form_of(ORDER, NAMES)
    validator = Validator(forbid_unknown_fields(Order.model_json_schema()))
    payload = {"site": "ab", "to": {"city": "Bern"}, **values}
    if not validator.issues(payload):
        answer = {"site": payload["site"], "/to/city": "Bern", **values}
        assert mismatch_of(form, answer, whole=True) is None


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


def test_a_mismatch_is_described_in_a_clause() -> None:
    """The clause names the first field that does not fit, and what would fit."""
    rows = [
        ({"name": "ab"}, None),
        ({"name": "a"}, "name must be at least 2 characters long"),
        ({"name": "abcde"}, "name must be at most 4 characters long"),
        ({"name": None}, "name must be a string, not null"),
        ({"size": 0.5}, None),
        ({"size": 8}, None),
        ({"size": 0.4}, "size must be at least 0.5"),
        ({"size": 9}, "size must be at most 8"),
        ({"size": "1"}, "size must be a number, not a string"),
        ({"count": 5.0}, None),
        ({"count": 5.5}, "count must be an integer, not a number"),
        ({"count": True}, "count must be an integer, not a boolean"),
        ({"count": float("inf")}, "count must be an integer, not a number"),
        ({"kind": "a"}, None),
        ({"kind": None}, None),
        ({"kind": True}, 'kind must be one of "a", 1, null'),
        ({"kind": 1.0}, None),
        ({"sure": True}, None),
        ({"sure": 1}, "sure must be one of true"),
        ({"maybe": None}, None),
        ({"maybe": 0}, "maybe must be a boolean or null, not an integer"),
        ({"any": {"x": [1]}}, None),
        ({"other": 5}, None),
        ({}, None),
    ]
    assert [
        (values, found)
        for values, mismatch in rows
        if (found := mismatch_of(FORM, values, whole=False)) != mismatch
    ] == []


def test_a_whole_answer_has_the_required_fields_and_no_others(subtests: pytest.Subtests) -> None:
    """With `whole`, for values that go to the tool unchanged, required fields must be there and unknown ones must not."""
    rows = [
        ({"name": "ab", "count": 1}, None),
        ({"name": "ab"}, "count is missing"),
        ({}, "name, count are missing"),
        (
            {"name": "ab", "count": 1, "other": 1},
            "there is no field 'other', only name, size, count, kind, sure, maybe, any",
        ),
        ({"name": "ab", "count": "1"}, "count must be an integer, not a string"),
        (None, "values by field are wanted: name, size, count, kind, sure, maybe, any"),
    ]
    for values, mismatch in rows:
        with subtests.test(values=values, mismatch=mismatch):
            assert mismatch_of({**FORM, "required": ["name", "count"]}, values, whole=True) == mismatch


def test_a_text_may_give_values() -> None:
    """A person may answer with a JSON object or the value of the only field; any other text gives no values."""
    rows = [
        # A JSON object is taken as values by any form.
        (FORM, '{"name": "ab"}', {"name": "ab"}),
        ({}, "{}", {}),
        # With several fields, a text that is no JSON object gives no values.
        (FORM, "ab", None),
        (FORM, "5", None),
        (FORM, "[1]", None),
        # A single field takes the text itself if that fits, else the text read as JSON.
        ({"properties": {"n": {"type": "integer"}}}, "5", {"n": 5}),
        ({"properties": {"n": {"type": "string"}}}, "5", {"n": "5"}),
        ({"properties": {"n": {}}}, "5", {"n": "5"}),
        ({"properties": {"n": {"type": "boolean"}}}, "true", {"n": True}),
        ({"properties": {"n": {"type": "boolean"}}}, "yes", None),
        ({"properties": {"n": {"type": "integer", "minimum": 9}}}, "5", None),
        ({"properties": {"n": {"type": "null"}}}, "null", None),
        ({"properties": {"n": {"type": "array"}}}, "[1]", {"n": [1]}),
        ({"properties": {"n": {"enum": ["a"]}}}, "b", None),
        # A text that cannot be read as JSON gives no values.
        ({"properties": {"n": {"type": "integer"}}}, "1" * 5_000, None),
        ({"properties": {"n": {"type": "integer"}}}, "[" * 50_000, None),
    ]
    assert [
        (form, text, found) for form, text, values in rows if (found := values_of(form, text)) != values
    ] == []


def test_a_clause_is_short() -> None:
    """Long names and enums of a form are shortened in the clause."""
    form = {"properties": {"n" * 900: {"enum": ["e" * 900] * 90}}, "required": ["r" * 900] * 90}
    for values in ({}, {"r" * 900: 1, "x" * 900: 1}, None):
        assert len(str(mismatch_of(form, values, whole=True))) < 400
    assert len(str(mismatch_of(form, {"n" * 900: 1}, whole=False))) < 2_000


def test_a_closed_form_refuses_an_unknown_field(subtests: pytest.Subtests) -> None:
    """An unknown field is refused, with a similar name if there is one, only where `closed` is set."""
    rows = [
        (["count"], {"count": 2}, None),
        (["count"], {"cuont": 2}, "there is no field 'cuont', only count; did you mean 'count'?"),
        (["count"], {"count": 2, "kind": "a"}, "there is no field 'kind', only count"),
        (
            ["count", "kind"],
            {"cuont": 2},
            "there is no field 'cuont', only count, kind; did you mean 'count'?",
        ),
        (
            ["count", "kind"],
            {"Kind": "a"},
            "there is no field 'Kind', only count, kind; did you mean 'kind'?",
        ),
        (["count", "kind"], {"zzz": "a"}, "there is no field 'zzz', only count, kind"),
        (
            ["kind", "/lines/0/city"],
            {"city": "Bern"},
            "there is no field 'city', only kind, /lines/0/city; did you mean '/lines/0/city'?",
        ),
        (
            ["/to/city", "/lines/0/city"],
            {"city": "B"},
            "there is no field 'city', only /to/city, /lines/0/city",
        ),
        (
            ["kind", "/to/city"],
            {"/to/ctiy": "B"},
            "there is no field '/to/ctiy', only kind, /to/city; did you mean '/to/city'?",
        ),
        (["kind", "/to/city"], {"/to/city": "B"}, None),
    ]
    for names, values, mismatch in rows:
        with subtests.test(str((names, values, mismatch))):
            form = form_of(ORDER, names)
            assert mismatch_of(form, values, whole=False, closed=True) == mismatch
            assert mismatch_of(form, values, whole=False) is None


def test_every_fault_is_named_by_its_field() -> None:
    """All faults come with the pointer of their value, and a misspelt name with the right one, at any depth."""
    place = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zip": {"type": "string", "pattern": r"^\d{5}$"}},
        "required": ["city", "zip"],
    }
    line = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
    line |= {"required": ["sku", "count"], "additionalProperties": False}
    form = {
        "properties": {"to": place, "lines": {"type": "array", "items": line}},
        "required": ["to", "note"],
    }
    rules = {"whole": False, "closed": True, "in_full": True}
    values = {"to": {"ctiy": "Bonn", "zip": "5"}, "lines": [{"sku": 1, "cuont": 2}], "lnes": []}
    found = {each["field"]: each["message"] for each in form_faults(form, values, **rules)}
    assert found == {
        "/lnes": "is not a known field; did you mean 'lines'?",
        "/to/ctiy": "is not a known field; did you mean 'city'?",
        "/to/city": "is required",
        "/to/zip": r"must match the pattern ^\d{5}$",
        "/lines/0/cuont": "is not a known field; did you mean 'count'?",
        "/lines/0/count": "is required",
        "/lines/0/sku": "must be a string, not an integer",
    }
    assert (
        mismatch_of(form, {"to": values["to"]}, **rules)
        == "to/ctiy is not a known field; did you mean 'city'?"
    )
    assert form_faults(form, {"to": 5, "more": 1}, whole=True) == [
        {"field": "/note", "message": "is required"},
        {"field": "/to", "message": "must be an object, not an integer"},
        {"field": "/more", "message": "is not a known field"},
    ]
    assert (
        form_faults(form, {"to": {"city": "Bonn", "zip": "12345"}, "more": 1}, whole=False, in_full=True)
        == []
    )
    assert form_faults({}, {}, whole=True) == []
