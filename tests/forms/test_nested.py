"""Nested forms: objects, arrays and alternatives, from their values to the texts of fields and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.forms import (
    FormField,
    check_answer,
    edit_rows,
    elicitation_schema,
    field_paths,
    form_fields,
    parse_pairs,
    read_fields,
)
from sojourn.forms.fields import rekey

ADDRESS = {
    "type": "object",
    "title": "Address",
    "properties": {
        "city": {"type": "string", "maxLength": 5},
        "postcode": {"type": "string", "pattern": "^[0-9]{5}$"},
        "floor": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
    },
    "required": ["city"],
}
CARD = {
    "type": "object",
    "title": "Card",
    "properties": {"by": {"const": "card"}, "number": {"type": "string", "minLength": 4}},
    "required": ["by", "number"],
}
BANK = {
    "type": "object",
    "title": "Bank",
    "properties": {"by": {"const": "bank"}, "iban": {"type": "string"}},
    "required": ["by", "iban"],
}
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "note": {"type": ["string", "null"], "maxLength": 10},
        "size": {"enum": ["s", "m", None]},
        "to": ADDRESS,
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "stops": {"type": "array", "items": ADDRESS},
        "pay": {"anyOf": [CARD, BANK]},
        "mail": {"type": "string", "format": "email"},
        "id": {"type": "string", "format": "uuid"},
    },
    "required": ["to"],
}


class Texts(dict[str, list[str]]):
    """What a browser sends."""

    def texts(self, name: str) -> list[str]:
        return self.get(name, [])


def type_in(field: FormField, value: Any, sent: Texts) -> None:
    """Send a value as a person would type it into a field."""
    match field.kind:
        case "fixed":
            pass
        case "group":
            for each in field.fields:
                if each.name in value:
                    type_in(each, value[each.name], sent)
        case "list":
            sent[f"{field.key}-rows"] = [str(len(value))]
            for at, each in enumerate(value):
                assert field.row
                type_in(rekey(field.row, f"{field.key}-{at}"), each, sent)
        case "union":
            at = next(
                at for at, each in enumerate(field.fields) if each.fields[0].choices[0].value == value["by"]
            )
            sent[f"{field.key}-which"] = [str(at)]
            type_in(field.fields[at], value, sent)
        case "choice":
            values = [each.value for each in field.choices]
            sent[field.key] = [str(values.index(value))]
        case _:
            sent[field.key] = [value if isinstance(value, str) else json.dumps(value)]


def fields_of(schema: dict[str, Any] = FORM) -> tuple[FormField, ...]:
    fields = form_fields(schema, "f")
    assert fields is not None
    return fields


def sent_for(values: dict[str, Any]) -> Texts:
    sent = Texts()
    for field in fields_of():
        if field.name in values:
            type_in(field, values[field.name], sent)
    return sent


text = st.text("abcde ", min_size=1, max_size=5).filter(str.strip)
address = st.fixed_dictionaries(
    {"city": text}, optional={"postcode": st.from_regex(r"\A[0-9]{5}\Z"), "floor": st.integers(0, 99)}
)
payment = st.one_of(
    st.fixed_dictionaries({"by": st.just("card"), "number": st.text("0123456789", min_size=4, max_size=9)}),
    st.fixed_dictionaries({"by": st.just("bank"), "iban": text}),
)
values_of_form = st.fixed_dictionaries(
    {"to": address},
    optional={
        "note": text,
        "size": st.sampled_from(["s", "m"]),
        "tags": st.lists(text, min_size=1, max_size=3),
        "stops": st.lists(address, min_size=1, max_size=4),
        "pay": payment,
        "mail": st.just("a@example.com"),
    },
)


@given(values_of_form)
def test_values_survive_the_form(values: dict[str, Any]) -> None:
    """What a schema accepts comes back as it was, from fields and rows at every depth."""
    read = check_answer(FORM, read_fields(fields_of(), sent_for(values)))
    assert (read.has_faults, dict(read.values)) == (False, values)


def test_each_shape_has_a_field_of_its_kind() -> None:
    """Objects, arrays, alternatives and what may be null have fields with limits and choices."""
    fields = {field.name: field for field in fields_of()}
    kinds = ["text", "choice", "group", "list", "list", "union", "email", "text"]
    assert [field.kind for field in fields.values()] == kinds
    assert fields["note"].max_length == 10
    assert [choice.value for choice in fields["size"].choices] == ["s", "m"]
    assert [(each.name, each.is_required) for each in fields["to"].fields] == [
        ("city", True),
        ("postcode", False),
        ("floor", False),
    ]
    assert [row.kind for row in fields["stops"].fields] == ["group", "group"]
    assert [option.label for option in fields["pay"].fields] == ["Card", "Bank"]
    assert fields["pay"].fields[0].fields[0].kind == "fixed"
    assert fields["id"].pattern


def faults(fields: tuple[FormField, ...]) -> list[str]:
    found = [field.key for field in fields if field.fault]
    return found + [key for field in fields for key in faults(field.fields)]


def test_a_fault_is_at_its_field(subtests: pytest.Subtests) -> None:
    """A wrong value inside an object, a row or an alternative has its fault there."""
    to = {"city": "Bonn"}
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"to": {"city": "Hamburg"}}, ["f2-0"]),
        ({"to": {"city": "Bonn", "postcode": "5311"}}, ["f2-1"]),
        ({"to": {"city": "Bonn", "floor": -1}}, ["f2-2"]),
        ({"to": {"city": "Bonn", "floor": "two"}}, ["f2-2"]),
        ({}, ["f2-0"]),
        ({"to": to, "note": "x" * 11}, ["f0"]),
        ({"to": to, "tags": list("abcd")}, ["f3"]),
        ({"to": to, "stops": [to, {"postcode": "12345"}]}, ["f4-1-0"]),
        ({"to": to, "stops": [to, {"city": "Bonn", "postcode": "x"}]}, ["f4-1-1"]),
        ({"to": to, "pay": {"by": "card", "number": "1"}}, ["f5-0-1"]),
        ({"to": to, "pay": {"by": "bank"}}, ["f5-1-1"]),
        ({"to": to, "mail": "nobody"}, ["f6"]),
        ({"to": to, "id": "12"}, ["f7"]),
    ]
    for values, keys in rows:
        with subtests.test(values=values):
            read = check_answer(FORM, read_fields(fields_of(), sent_for(values)))
            assert faults(read.fields) == keys


def test_empty_rows_are_no_values() -> None:
    """Rows that stay empty are left out, and come after the others."""
    sent = sent_for({"to": {"city": "Bonn"}, "tags": ["", "a", " ", "b"]})
    sent["f3-2"] = [""]
    read = read_fields(fields_of(), sent)
    assert read.values["tags"] == ["a", "b"]
    assert [row.text for row in read.fields[3].fields] == ["a", "b", "", ""]


@pytest.mark.parametrize(("least", "rows"), [(None, 2), (0, 2), (1, 1), (3, 3), (10**9, 10)])
def test_a_list_opens_with_the_rows_that_it_needs(least: int | None, rows: int) -> None:
    """`minItems` says how many, within a bound; without it there are two."""
    items = {"type": "object", "properties": {"city": {"type": "string"}}}
    array = {"type": "array", "items": items} | ({} if least is None else {"minItems": least})
    (field,) = form_fields({"type": "object", "properties": {"stops": array}}, "f")
    assert len(field.fields) == rows


def test_rows_are_added_and_removed_without_losing_a_text() -> None:
    """A button gives the form back with a row more or less, and what was typed, right or wrong."""
    sent = sent_for({"to": {"city": "Hamburg"}, "tags": ["a", "b"], "stops": [{"city": "x", "floor": "y"}]})
    more = edit_rows(fields_of(), sent, "add:f3")
    assert more is not None
    assert [row.text for row in more[3].fields] == ["a", "b", ""]
    assert (more[2].fields[0].text, more[4].fields[0].fields[2].text) == ("Hamburg", "y")
    fewer = edit_rows(fields_of(), sent, "drop:f3-0")
    assert fewer is not None
    assert [(row.key, row.text) for row in fewer[3].fields] == [("f3-0", "b")]
    assert not faults(more) + faults(fewer)
    assert edit_rows(fields_of(), sent, "answer") is None


@pytest.mark.parametrize("count", ["-1", "x", "99999999999", ""])
def test_a_number_of_rows_that_is_none_breaks_nothing(count: str) -> None:
    """A hostile number of rows is none, or the most that a form has."""
    sent = sent_for({"to": {"city": "Bonn"}}) | {"f3-rows": [count]}
    assert len(read_fields(fields_of(), Texts(sent)).fields[3].fields) in (0, 50)


def test_what_has_no_fields_is_json_with_an_outline() -> None:
    """A type that contains itself and one that is nested too deep are JSON, with their shape beside it."""
    node = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
    }
    (field,) = fields_of({"properties": {"node": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    assert [each.kind for each in field.fields] == ["text", "json"]
    assert json.loads(field.fields[1].example)["text"] == ""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(8):
        deep = {"type": "object", "properties": {"in": deep}}
    (field,) = fields_of({"properties": {"deep": deep}})
    for _ in range(4):
        (field,) = field.fields
    assert field.kind == "json"


def test_a_wide_schema_has_no_more_fields_than_a_form_may_have() -> None:
    """Objects beyond the most fields of a form are JSON."""
    part = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20)}}
    fields = fields_of({"properties": {f"q{n}": part for n in range(5)}})
    assert [field.kind for field in fields] == ["group", "group", "json", "json", "json"]


def test_an_example_is_beside_nested_fields() -> None:
    """The values of an example stand in the empty fields of objects and rows."""
    fields = form_fields(FORM, "f", {"to": {"city": "Bonn"}, "stops": [{"city": "Köln"}]})
    assert fields is not None
    assert fields[2].fields[0].example == "Bonn"
    assert fields[4].fields[1].fields[0].example == "Köln"


def test_a_path_on_a_command_line_leads_into_a_value(subtests: pytest.Subtests) -> None:
    """Names with dots and brackets make objects and arrays, with the types of the form."""
    rows: list[tuple[list[str], Any]] = [
        (["to.city=Bonn", "to.floor=3"], {"to": {"city": "Bonn", "floor": 3}}),
        (["to[city]=3"], {"to": {"city": "3"}}),
        (["tags[0]=x", "tags[1]=y"], {"tags": ["x", "y"]}),
        (["tags[]=x", "tags[]=1"], {"tags": ["x", "1"]}),
        (["stops[0].city=a", "stops[0].floor=1", "stops[1].city=b"], STOPS),
        (["tags[5]=x"], ValueError),
        (["tags[0=x"], ValueError),
        (["note=a.b", "note.x=1"], ValueError),
    ]
    for given_pairs, expected in rows:
        with subtests.test(pairs=given_pairs):
            pairs = [(name, value) for name, _, value in (each.partition("=") for each in given_pairs)]
            if expected is ValueError:
                with pytest.raises(ValueError, match=r"path|skips|leads"):
                    parse_pairs(FORM, pairs)
            else:
                assert parse_pairs(FORM, pairs) == expected
    assert parse_pairs({"properties": {"/to/city": {}, "a.b": {}}}, [("a.b", "1")]) == {"a.b": "1"}


STOPS = {"stops": [{"city": "a", "floor": 1}, {"city": "b"}]}


def test_the_fields_of_a_form_are_listed_as_paths() -> None:
    """Each is the name that a command line takes, with its type; what an optional object requires is optional too."""
    properties = {
        "to": ADDRESS,
        "gift": {
            "type": ["object", "null"],
            "properties": {"wrap": {"type": "boolean"}},
            "required": ["wrap"],
        },
        "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "pay": {"anyOf": [CARD, BANK]},
        "odd": {"type": "object", "properties": {"a.b": {}}},
    }
    form = {"properties": properties, "required": ["to", "lines", "pay"]}
    found = field_paths(form, [*properties, "unknown"])
    assert found == [
        ("to.city", "string", True),
        ("to.postcode", "string", False),
        ("to.floor", "", False),
        ("gift.wrap", "boolean", False),
        ("lines[0].sku", "string", True),
        ("tags[]", "string", False),
        ("pay", "", True),
        ("odd", "object", False),
        ("unknown", "", False),
    ]
    given = {"to.city": "Bonn", "lines[0].sku": "a", "tags[]": "x"}
    values = parse_pairs(form, list(given.items()))
    assert values == {"to": {"city": "Bonn"}, "lines": [{"sku": "a"}], "tags": ["x"]}
    assert field_paths(None, ["name"]) == [("name", "", True)]


def test_an_elicitation_stays_flat() -> None:
    """A field that may be null is asked for by its type, and a nested one is no elicitation."""
    found = elicitation_schema(FORM, ["note", "size"])
    assert found is None  # a choice without a type
    found = elicitation_schema(FORM, ["note"])
    assert found is not None
    assert found["properties"] == {"note": {"type": "string", "maxLength": 10}}
    for name in ("to", "tags", "pay"):
        assert elicitation_schema(FORM, [name]) is None
