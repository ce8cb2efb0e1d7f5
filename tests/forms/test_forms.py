"""Forms from schemas: what a field is for a value, what is read from its texts, and errors per field."""

import pytest

from sojourn.forms import (
    MISSING,
    elicitation_schema,
    form_fields,
    parse_value,
    read_fields,
)


class Texts(dict[str, list[str]]):
    """What a person has filled in, by the key of the field."""

    def texts(self, name):
        return [text.replace("\r\n", "\n") for text in self.get(name, [])]


SCHEMA = {
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "story": {"type": "string", "maxLength": 4_000},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time"},
        "sure": {"type": "boolean"},
        "size": {"$ref": "#/$defs/Size"},
        "colour": {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "days": {"type": "array", "items": {"enum": ["mo", "tu"]}},
        "rest": {"type": "object"},
    },
    "required": ["name", "sure"],
    "$defs": {"Size": {"enum": [1, 2, None]}},
}


KINDS = [
    *(
        "text",
        "lines",
        "number",
        "number",
        "date",
        "datetime-local",
        "boolean",
        "choice",
        "choice",
        "choices",
    ),
    "json",
]


def test_each_value_has_a_field_of_its_kind():
    """Texts, numbers, dates, choices and several choices have fields; what has values in it is JSON; required ones are told apart."""
    fields = form_fields(SCHEMA, "f")
    assert [field.kind for field in fields] == KINDS
    assert [field.name for field in fields if field.is_required] == ["name", "sure"]
    assert (fields[2].minimum, fields[2].maximum, fields[2].step) == (1, 9, "1")
    assert [choice.label for choice in fields[8].choices] == ["Red", "Green"]


def test_what_is_sent_becomes_the_values_of_the_schema():
    """Each field gives the value that its schema means, and one that is empty gives none."""
    sent = {"f0": ["Ana"], "f2": ["3"], "f3": [" 1e2 "], "f4": ["2026-12-24"], "f5": ["2026-12-24T09:30"]}
    sent |= {"f6": ["no"], "f7": ["1"], "f8": ["1"], "f9": ["0", "1"], "f10": ['{"a": [1]}'], "f1": [""]}
    read = read_fields(form_fields(SCHEMA, "f"), Texts(sent))
    assert not read.has_faults
    assert read.values == {
        "name": "Ana",
        "count": 3,
        "share": 100.0,
        "day": "2026-12-24",
        "moment": "2026-12-24T09:30:00Z",
        "sure": False,
        "size": 2,
        "colour": "g",
        "days": ["mo", "tu"],
        "rest": {"a": [1]},
    }


def test_what_has_to_be_there_and_may_be_null_is_null_where_it_is_empty():
    """The field says so, and need not be filled in; a text that is called null is none."""
    properties = {
        "until": {"type": ["string", "null"], "description": "The last day."},
        "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "size": {"enum": [1, 2, None]},
        "word": {"enum": ["null", "nil"]},
        "note": {"type": ["string", "null"]},
    }
    fields = form_fields({"properties": properties, "required": ["until", "share", "size", "word"]}, "f")
    assert [field.is_required for field in fields] == [False, False, False, True, False]
    assert fields[0].about == "The last day. Left empty, it is null."
    read = read_fields(fields, Texts({"f0": [""], "f1": [""], "f2": [""], "f3": ["0"], "f4": [""]}))
    assert (read.has_faults, dict(read.values)) == (
        False,
        {"until": None, "share": None, "size": None, "word": "null"},
    )
    read = read_fields(fields, Texts({"f0": ["today"], "f1": ["x"], "f2": ["1"], "f3": [""]}))
    assert [bool(field.fault) for field in read.fields] == [False, True, False, True, False]
    assert dict(read.values) == {"until": "today", "size": 2}


def test_what_is_no_value_is_told_at_its_field_and_kept(subtests: pytest.Subtests) -> None:
    """A fault is at the field that has it, with what was typed."""
    rows = [
        ("f0", "", MISSING),
        ("f2", "three", "This is no number."),
        ("f2", "1.5", "This is a whole number."),
        ("f2", "1_0", "This is no number."),
        ("f2", "1e999", "This has more than 300 digits."),
        ("f2", "9007199254740993.5", "This is a whole number."),
        ("f3", "nan", "This is no number."),
        ("f3", "1_000.5", "This is no number."),
        ("f3", "1e400", "This is no number."),
        ("f7", "7", "Choose one of the list."),
        ("f7", "-1", "Choose one of the list."),
        ("f10", "{", "Not valid JSON"),
        ("f10", "NaN", ""),
        ("f10", "[" * 100_000, "Not valid JSON"),
    ]
    for key, text, fault in rows:
        with subtests.test(str((key, text, fault))):
            read = read_fields(form_fields(SCHEMA, "f"), Texts({"f0": ["Ana"], "f6": ["yes"], key: [text]}))
            (wrong,) = [field for field in read.fields if field.fault]
            assert (wrong.key, wrong.text, wrong.fault.startswith(fault)) == (key, text, True)


def test_what_an_input_could_not_show_is_shown_as_text():
    """A number or a date that is none stays in a field of text, since an input of its kind would be empty."""
    typed = {"f2": ["three"], "f3": ["1e2"], "f4": ["tomorrow"], "f5": ["2026-12-24T09:30"]}
    fields = read_fields(form_fields(SCHEMA, "f"), Texts(typed)).fields
    assert [field.input_type for field in fields[2:6]] == ["text", "number", "text", "datetime-local"]


def test_an_example_is_shown_where_nothing_is_filled_in():
    """The values of an example stand beside the fields, and are not sent as an answer."""
    fields = form_fields(SCHEMA, "f", {"name": "Ana", "count": 3})
    assert [field.example for field in fields[:3]] == ["Ana", "", "3"]
    assert read_fields(fields, Texts({})).values == {}


def test_what_has_no_flat_form_is_left_to_json(subtests: pytest.Subtests) -> None:
    """Alternatives, very many fields and schemas that are none have no fields."""
    rows = [
        None,
        {},
        {"properties": []},
        {"properties": {str(n): {} for n in range(61)}},
        {"oneOf": [], "properties": {"a": {"type": "string"}}},
    ]
    for schema in rows:
        with subtests.test(schema=schema):
            assert form_fields(schema, "f") is None


def test_a_malformed_schema_of_a_stranger_breaks_nothing():
    """Whatever stands where a keyword is, there is a field, or JSON."""
    strange = [
        None,
        1,
        "x",
        [],
        {"type": 7},
        {"type": ["string", 3]},
        {"enum": "x"},
        {"enum": []},
        {"oneOf": [1]},
    ]
    strange += [
        {"type": "string", "maxLength": "x", "pattern": 3},
        {"type": "array", "items": 3},
        {"$ref": 3},
    ]
    fields = form_fields({"properties": dict(enumerate(strange)), "required": 3}, "f")
    assert fields is not None
    read_fields(fields, Texts({field.key: ["1"] for field in fields}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993.0", 9007199254740993),
        ("9007199254740993", 9007199254740993),
        ("1e30", 10**30),
        (" -12.50e1 ", -125),
    ],
)
def test_a_whole_number_is_read_exactly(text, value):
    """However a whole number is written, none of its digits is another."""
    read = read_fields(
        form_fields({"properties": {"count": {"type": "integer"}}}, "f"), Texts({"f0": [text]})
    ).values["count"]
    assert (read, type(read)) == (value, int)


def test_a_text_of_several_lines_has_a_field_that_keeps_them():
    """A default with line breaks, and a typed text that has some, stand in a field of several lines."""
    schema = {"properties": {"note": {"type": "string", "default": "a\nb"}, "name": {"type": "string"}}}
    fields = form_fields(schema, "f")
    assert [field.kind for field in fields] == ["lines", "text"]
    sent = read_fields(fields, Texts({"f0": ["a\r\nb"], "f1": ["c\r\nd"]}))
    assert [(field.kind, field.text) for field in sent.fields] == [("lines", "a\nb"), ("lines", "c\nd")]
    assert sent.values == {"note": "a\nb", "name": "c\nd"}


def test_choices_have_their_titles():
    """A choice is shown by the title that `oneOf` or MCP's `enumNames` gives it, and is sent as its value."""
    schema = {"enum": ["p1", "p2", "p3"], "enumNames": ["Tomorrow", "Monday", 3]}
    (field,) = form_fields({"properties": {"day": schema}}, "f")
    assert [choice.label for choice in field.choices] == ["Tomorrow", "Monday", "p3"]
    assert read_fields([field], Texts({"f0": ["1"]})).values == {"day": "p2"}


def test_a_text_has_the_type_of_its_field(subtests: pytest.Subtests) -> None:
    """A text of the command line is JSON only if its field takes no string."""
    rows = [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "three", "three"),
        ({"type": ["string", "null"]}, "3", "3"),
        ({}, "3", "3"),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true", True),
        ({"$ref": "#/$defs/Size"}, "2", 2),
        ({"$ref": "#/$defs/Node"}, "2", 2),
    ]
    for schema, text, value in rows:
        with subtests.test(schema=schema, text=text, value=value):
            node = {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Node"}]}
            form = {"properties": {"x": schema}, "$defs": {"Size": {"enum": [1, 2]}, "Node": node}}
            assert parse_value(form, "x", text) == value
            assert parse_value(form, "other", text) == parse_value(None, "x", text) == text


def test_only_a_flat_form_is_an_elicitation():
    """A client of MCP is asked for the missing fields, without keywords that it does not know; or for none."""
    form = {"properties": {"a": {"type": "string", "const": "x", "title": "A"}, "b": {"type": "object"}}}
    assert elicitation_schema(form, ["a"]) == {
        "type": "object",
        "properties": {"a": {"type": "string", "title": "A"}},
        "required": ["a"],
    }
    assert [elicitation_schema(each, []) for each in (form, None, {"properties": {}})] == [None] * 3
