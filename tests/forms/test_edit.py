"""Forms with values: sent unchanged they change nothing, and a change is what was changed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.forms import FormField, edit_fields, read_edit
from tests.forms.test_nested import FORM, Texts

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "number"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "sure": {"type": "boolean", "default": True},
        "note": {"type": "string", "default": "none"},
        "at": {"type": "string", "format": "date-time"},
        "size": {"enum": ["s", "m", 1, True]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ticks": {"type": "array", "items": {"enum": ["a", "b"]}},
        "to": {"type": "object", "properties": {"city": {"type": "string"}}},
        "any": {},
    },
    "required": ["amount", "note"],
}


def typed(kind: str, text: str) -> str:
    """A text as a browser has it in an input, and the console reads it."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    one = lines if kind in ("lines", "json") else lines.replace("\n", "")
    return one.strip() if kind in ("email", "url") else one


def sent(fields: tuple[FormField, ...]) -> Texts:
    """What a browser sends of a form that nobody touched."""
    texts = Texts()

    def add(each: FormField) -> None:
        if each.kind == "list":
            texts[f"{each.key}-rows"] = [str(len(each.fields))]
        elif each.kind == "union":
            texts[f"{each.key}-which"] = list(each.texts)
        elif each.kind != "fixed":
            texts[each.key] = [typed(each.kind, text) for text in each.texts]
        for inner in each.fields:
            add(inner)

    for each in fields:
        add(each)
    return texts


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            "",
            " ",
            "s",
            "m",
            "a",
            "2026-03-01T09:30:00Z",
            "2026-03-01T09:30:00+02:00",
            "1",
            "x\ny",
            "x\r\ny",
            " a@x ",
        ]
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["city", "by", "iban", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "schema", [PLAIN, FORM, {"type": "object"}, None], ids=["plain", "nested", "open", "unknown"]
)
@given(data=st.data())
def test_a_form_that_is_sent_unchanged_changes_nothing(schema, data):
    """Whatever the values are, fitting or not, with fields that the schema does not have, as long as they are required or not."""
    names = [*(schema or {}).get("properties", {}), "extra"]
    values = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=6))
    fields = edit_fields(schema, values, "edit")
    _, read = read_edit(fields, None, values, sent(fields))
    assert json.dumps(read, sort_keys=True) == json.dumps(values, sort_keys=True)


def test_what_is_changed_emptied_and_added_is_what_changes():
    """A changed text, an emptied optional field and one that was absent; null, extra values and the rest stay."""
    values = {"amount": 12.5, "note": "hi", "count": None, "sure": False, "extra": [1], "tags": ["a", "b"]}
    fields = edit_fields(PLAIN, values, "edit")
    by_name = {each.name: each for each in fields}
    texts = sent(fields)
    texts[by_name["amount"].key] = ["9"]
    texts[by_name["sure"].key] = []
    texts[by_name["size"].key] = ["2"]
    texts[f"{by_name['tags'].key}-0"] = ["z"]
    read, edited = read_edit(fields, PLAIN, values, texts)
    assert edited == {"amount": 9.0, "note": "hi", "count": None, "extra": [1], "tags": ["z", "b"], "size": 1}
    assert not any(each.has_fault for each in read)


def test_a_fault_is_at_its_field():
    """A value that the schema refuses, and one that is no value of its field."""
    values = {"amount": 12.5, "note": "hi", "to": {"city": "Bonn"}}
    schema = {**PLAIN, "properties": {**PLAIN["properties"], "amount": {"type": "number", "maximum": 20}}}
    fields = edit_fields(schema, values, "edit")
    by_name = {each.name: each for each in fields}
    for text, fault in (
        ("21", "Must be at most 20"),
        ("many", "This is no number"),
        ("", "This is required"),
    ):
        texts = sent(fields)
        texts[by_name["amount"].key] = [text]
        read, _ = read_edit(fields, schema, values, texts)
        assert [each.name for each in read if each.has_fault] == ["amount"]
        assert next(each.fault for each in read if each.fault).startswith(fault)


def test_values_without_a_known_shape_are_json():
    """A form without fields has one for all values; what is typed there is what is read."""
    (field,) = edit_fields({"type": "object"}, {"a": 1}, "edit")
    assert (field.kind, json.loads(field.text)) == ("json", {"a": 1})
    typed = replace(field, texts=('{"a": 2}',))
    assert read_edit((field,), None, {"a": 1}, sent((typed,)))[1] == {"a": 2}
