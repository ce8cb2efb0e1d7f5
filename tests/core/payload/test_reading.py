"""Arguments in the forms that models commonly write are read without loss, and nothing else is."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from sojourn.authoring.shape import Shape
from sojourn.core.payload.parse import Parsed, ParseFault
from sojourn.core.payload.reading import (
    MAX_FAULTS,
    MAX_RECORDED,
    MAX_ROUNDS,
    fits_for_certain,
    read_payload,
    read_text,
)
from sojourn.core.schema.validate import Validator

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}
TEXTS = {"type": "array", "items": TEXT}
INTEGERS = {"type": "array", "items": INTEGER}
NULL = {"type": "null"}
CHOICE = {"enum": ["day", "week"]}


def closed(properties: dict[str, Any], *required: str, **rules: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **rules,
    }


USER = closed({"age": INTEGER, "name": TEXT})
NULLABLE: dict[str, tuple[dict[str, Any], Any]] = {
    "owner": ({**TEXT, "pattern": "^u-[0-9]+$"}, "u-1"),
    "until": ({**TEXT, "format": "date"}, "2026-01-01"),
    "level": (INTEGER, 5),
    "kind": (CHOICE, "day"),
}
TAGGED = {
    "anyOf": [
        closed({"kind": {"const": "a"}, "n": INTEGER}, "kind"),
        closed({"kind": {"const": "b"}, "m": INTEGER}, "kind"),
    ]
}

READ: list[tuple[str, dict[str, Any], Any, Any, list[str]]] = [
    (
        "null for what is optional",
        closed({"q": TEXT, "country": TEXT, "cursor": {**TEXT, "default": None}}, "q"),
        {"q": "x", "country": None, "cursor": None},
        {"q": "x"},
        ["left_out /country", "left_out /cursor"],
    ),
    (
        "null in an object in a list",
        closed({"items": {"type": "array", "items": USER}}),
        {"items": [{"age": 1, "name": None}]},
        {"items": [{"age": 1}]},
        ["left_out /items/0/name"],
    ),
    (
        "a list, a number and a truth as text",
        closed({"tags": TEXTS, "limit": INTEGER, "on": BOOLEAN}),
        {"tags": '["a","b"]', "limit": "100", "on": "false"},
        {"tags": ["a", "b"], "limit": 100, "on": False},
        ["json_text /tags", "json_text /limit", "json_text /on"],
    ),
    (
        "an object as text",
        closed({"user": USER}),
        {"user": '{"age": 25}'},
        {"user": {"age": 25}},
        ["json_text /user"],
    ),
    (
        "texts in a text",
        closed({"user": USER}),
        {"user": '{"age": "25", "name": null}'},
        {"user": {"age": 25}},
        ["json_text /user", "json_text /user/age", "left_out /user/name"],
    ),
    (
        "a nullable list as text",
        closed({"t": {"anyOf": [TEXTS, NULL]}}),
        {"t": '["a"]'},
        {"t": ["a"]},
        ["json_text /t"],
    ),
    ("a nullable number", closed({"n": {"anyOf": [INTEGER, NULL]}}, "n"), {"n": "null"}, {"n": None}, ["json_text /n"]),
    ("a choice of numbers", closed({"n": {"enum": [1, 2]}}), {"n": "2"}, {"n": 2}, ["json_text /n"]),
    ("a number with a fraction", closed({"n": {"type": "number"}}), {"n": "1.5"}, {"n": 1.5}, ["json_text /n"]),
    ("a whole number in a text", closed({"n": INTEGER}), {"n": "10.0"}, {"n": 10}, ["json_text /n"]),
    ("a field of a tagged union", closed({"u": TAGGED}), {"u": {"kind": "b", "m": "5"}}, {"u": {"kind": "b", "m": 5}}, ["json_text /u/m"]),
    (
        "blanks for what is optional",
        closed({"n": INTEGER, "since": CHOICE, "page": {**TEXT, "minLength": 1}, "mail": {**TEXT, "format": "email"}}),
        {"n": "", "since": "", "page": "", "mail": "null"},
        {},
        ["left_out /n", "left_out /since", "left_out /page", "left_out /mail"],
    ),
    ("null as a word", closed({"n": INTEGER, "tags": TEXTS}), {"n": "null", "tags": "null"}, {}, ["left_out /n", "left_out /tags"]),
    (
        "null as a word, where null is a value",
        closed({name: {"anyOf": [part, NULL], "default": default} for name, (part, default) in NULLABLE.items()}),
        dict.fromkeys(NULLABLE, "null"),
        dict.fromkeys(NULLABLE),
        [f"json_text /{name}" for name in NULLABLE],
    ),
    (
        "a blank, where an absent field is null",
        closed({name: {"anyOf": [part, NULL], "default": None} for name, (part, _) in NULLABLE.items()}),
        dict.fromkeys(NULLABLE, ""),
        {},
        [f"left_out /{name}" for name in NULLABLE],
    ),
    (
        "whole floats",
        closed({"n": INTEGER, "all": INTEGERS, "maybe": {"type": ["integer", "null"]}, "user": USER, "f": {"type": "number"}}),
        {"n": 10.0, "all": [1.0, 2], "maybe": 1e3, "user": {"age": 5.0}, "f": 3.0},
        {"n": 10, "all": [1, 2], "maybe": 1000, "user": {"age": 5}, "f": 3.0},
        ["whole_number /n", "whole_number /all/0", "whole_number /maybe", "whole_number /user/age"],
    ),
    (
        "an absent required field with a default",
        closed({"scale": {"enum": ["css", "device"], "default": "css"}}, "scale"),
        {},
        {"scale": "css"},
        ["default /scale"],
    ),
    (
        "an absent field with a default, beside another one",
        {"type": "object", "properties": {"host": TEXT, "port": {**INTEGER, "default": 80}}, "required": ["port"]},
        {"host": "a"},
        {"host": "a", "port": 80},
        ["default /port"],
    ),
    (
        "what can be read beside a fault",
        closed({"n": INTEGER, "q": TEXT}, "q"),
        {"n": "5", "q": 7},
        {"n": 5, "q": 7},
        ["json_text /n"],
    ),
]  # fmt: skip


def _written(payload: Any) -> str:
    return json.dumps(payload, sort_keys=True)


def test_what_models_write_is_read(subtests: pytest.Subtests) -> None:
    """Each form is read as what was meant, to the type of each number, and each reading is recorded; the payload sent stays as it is."""
    for kind, schema, sent, wanted, readings in READ:
        with subtests.test(kind):
            before, validator = _written(sent), Validator(schema)
            assert not fits_for_certain(validator, sent)
            read = read_payload(validator, sent)
            assert _written(read.payload) == _written(wanted)
            assert [f"{each.kind} {each.field}" for each in read.readings] == readings
            assert read.fits == validator.is_valid(wanted)
            assert _written(sent) == before
            assert read_payload(validator, read.payload).readings == ()


STAYS: list[tuple[str, dict[str, Any], Any]] = [
    ("a required null", closed({"q": TEXT}, "q"), {"q": None}),
    ("JSON in a string", closed({"q": TEXT}), {"q": '["a"]'}),
    ("JSON where a string may be", closed({"q": {"anyOf": [TEXTS, TEXT]}}), {"q": '["a"]'}),
    ("JSON in a string that is refused", closed({"q": {**TEXT, "maxLength": 2}}), {"q": '["a"]'}),
    ("a null that fits", closed({"q": {"type": ["string", "null"]}}), {"q": None}),
    ("the word null that fits", closed({"q": TEXT}), {"q": "null"}),
    ("a list with the word null", closed({"q": {"type": ["array", "null"], "items": TEXT}}), {"q": ["null"]}),
    ("a list with a word that does not fit", closed({"q": INTEGERS}), {"q": ["null"]}),
    ("an empty required text", closed({"q": {**TEXT, "minLength": 1}}, "q"), {"q": ""}),
    ("a fraction", closed({"n": INTEGER}), {"n": 10.5}),
    ("a fraction in a text", closed({"n": INTEGER}), {"n": "10.5"}),
    ("a float beyond all counts", closed({"n": INTEGER}), {"n": 1e300}),
    ("whole floats of numbers", closed({"f": {"type": "number"}, "n": INTEGER}), {"f": 10.0}),
    ("text that is no JSON", closed({"n": INTEGER, "on": BOOLEAN}), {"n": "ten", "on": "yes"}),
    ("text with a value that does not fit", closed({"user": USER}), {"user": '{"age": "x"}'}),
    ("text with another type", closed({"tags": TEXTS}), {"tags": '{"a": 1}'}),
    ("an entry of a map", {"type": "object", "additionalProperties": TEXT}, {"a": None}),
    ("an item of a list", closed({"q": TEXTS}), {"q": [None]}),
    ("an unknown field", closed({"q": TEXT}), {"other": None}),
    ("a blank, where null is a value and absent is another", closed({"a": {"anyOf": [INTEGER, NULL], "default": 5}}), {"a": ""}),
    ("a blank, where null is a value and absent is unknown", closed({"a": {"anyOf": [CHOICE, NULL]}}), {"a": ""}),
    ("zero", closed({"n": {**INTEGER, "minimum": 1}}), {"n": 0}),
    ("a field that another needs", closed({"a": INTEGER, "b": INTEGER}, dependentRequired={"b": ["a"]}), {"a": None, "b": 1}),
    ("the last field of an object with one", closed({"a": INTEGER}, minProperties=1), {"a": None}),
    ("a default that does not fit", closed({"a": {**TEXT, "default": None}}, "a"), {}),
    ("a misspelt name of an absent field with a default", {"type": "object", "properties": {"port": {**INTEGER, "default": 80}}, "required": ["port"]}, {"ports": 8080}),
    ("two names in one object", closed({"user": USER}), {"user": '{"age": 1, "age": 2}'}),
]  # fmt: skip


def test_nothing_is_guessed(subtests: pytest.Subtests) -> None:
    """What fits, or what may mean something else, stays as it was sent; a fault stays a fault."""
    for kind, schema, sent in STAYS:
        with subtests.test(kind):
            validator = Validator(schema)
            read = read_payload(validator, sent)
            assert read.payload is sent
            assert not read.readings
            assert read.fits == validator.is_valid(sent)


TEXTS_READ = [
    ("", {}, ["absent"]),
    (" \n ", {}, ["absent"]),
    ("null", {}, ["absent"]),
    ('"null"', {}, ["absent"]),
    ('""', {}, ["absent"]),
    ('"{\\"q\\": 1}"', {"q": 1}, ["json_text"]),
    ('```json\n{"q": 1,}\n```', {"q": 1}, ["code_fence", "trailing_comma"]),
    ("{}", {}, []),
]


def test_texts_of_arguments(subtests: pytest.Subtests) -> None:
    """Absent arguments are an empty object, and a string that holds the whole object is opened."""
    for raw, payload, repairs in TEXTS_READ:
        with subtests.test(raw=raw, payload=payload, repairs=repairs):
            read = read_text(raw)
            assert isinstance(read, Parsed)
            assert (read.payload, list(read.repairs)) == (payload, repairs)


def test_texts_that_stay_faults(subtests: pytest.Subtests) -> None:
    """Broken text, lists and plain texts are no arguments."""
    rows = ['[{"q":1}]', '"[1]"', '"x"', "5", "{", '{"q": ', "true", '"{"', '"{\\"a\\":1,\\"a\\":2}"']
    for raw in rows:
        with subtests.test(raw=raw):
            assert isinstance(read_text(raw), ParseFault)


@pytest.mark.parametrize("value", ["7", 7.0])
def test_a_long_list_is_read_in_few_rounds(value) -> None:
    """Thousands of items are read at once, and of many readings the first are recorded."""
    validator = Validator(closed({"n": INTEGERS}))
    read = read_payload(validator, {"n": [value] * 3_000})
    assert read.fits
    assert read.payload == {"n": [7] * 3_000}
    assert {type(each) for each in read.payload["n"]} == {int}
    assert len(read.readings) == MAX_RECORDED
    assert read.readings[0].field == "/n/0"


AMOUNT = Shape(create_model("Amount", amount=Decimal, rate=(float, 1.0)), place="here")


def test_more_faults_than_are_read_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list with more faulty values than all rounds read, none is read, and no round is made."""
    validator = Validator(
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    )
    sent = {"a": [str(number) for number in range(MAX_FAULTS * MAX_ROUNDS + 1)]}
    looked = list[int]()
    issues = Validator.issues

    def counted(self: Validator, payload: Any, **options: Any) -> Any:
        looked.append(len(payload["a"]))
        return issues(self, payload, **options)

    monkeypatch.setattr(Validator, "issues", counted)
    read = read_payload(validator, sent)
    assert (read.payload, read.fits, read.readings, len(looked)) == (sent, False, (), 2)


def test_no_digit_changes(subtests: pytest.Subtests) -> None:
    """A number is read with all digits that were written, also from a text, or it stays a fault; an amount gets no other cents."""
    id_, amount = closed({"n": INTEGER}), closed(AMOUNT.spec.json_schema["properties"], "amount")
    rows = [
        (id_, '{"n": 9007199254740993.0}', {"n": 9007199254740993}, []),
        (id_, '{"n": "9007199254740993.0"}', {"n": 9007199254740993}, ["json_text /n"]),
        (id_, '{"n": 1e23}', {"n": 10**23}, []),
        (id_, '{"n": 1e3}', {"n": 1000}, ["whole_number /n"]),
        (id_, '{"n": "1e-400"}', None, []),
        (id_, '{"n": "1.0000000000000000001"}', None, []),
        (amount, '{"amount": 1234567890123456.78}', {"amount": "1234567890123456.78"}, ["exact_number /amount"]),
        (amount, '{"amount": 12.50, "rate": 0.10000000000000001}', {"amount": 12.5, "rate": 0.1}, []),
        (closed({"l": {"type": "array", "items": {"type": ["number", "string"]}}}), '{"l": "[0.12345678901234567891]"}', {"l": ["0.12345678901234567891"]}, ["json_text /l", "exact_number /l/0"]),
        (closed({"x": {}}), '{"x": 0.12345678901234567891}', {"x": 0.12345678901234568}, []),
    ]  # fmt: skip
    for schema, raw, wanted, readings in rows:
        with subtests.test(raw):
            text = read_text(raw)
            assert isinstance(text, Parsed)
            read = read_payload(Validator(schema), text.payload)
            assert [f"{each.kind} {each.field}" for each in read.readings] == readings
            assert read.fits == (wanted is not None)
            assert _written(read.payload) == (raw if wanted is None else _written(wanted))
    read = read_payload(Validator(AMOUNT.spec.json_schema), read_text(rows[6][1]).payload)
    assert AMOUNT.decode(json.loads(_written(read.payload))).amount == Decimal("1234567890123456.78")


def test_thousands_of_long_fractions_are_read_at_once() -> None:
    """Coordinates of a program that writes too many digits are the floats that they mean."""
    text = read_text(json.dumps({"l": [0.5] * 20_000}).replace("0.5", "13.4050000000000002"))
    read = read_payload(
        Validator(closed({"l": {"type": "array", "items": {"type": "number"}}})), text.payload
    )
    assert (read.fits, read.readings) == (True, ())
    assert set(map(type, read.payload["l"])) == {float}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["", "null", "5", "[]", '{"age": 1.0}', "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "tags", "user", "age", "u", "kind"]), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip
SCHEMA = closed(
    {"n": INTEGER, "tags": TEXTS, "user": USER, "u": TAGGED, "age": {**INTEGER, "default": 3}}, "age"
)


@given(sent=st.dictionaries(st.sampled_from(["n", "tags", "user", "u", "age"]), JSON, max_size=5))
def test_a_reading_only_ever_helps(sent) -> None:
    """A payload that fits has equal values after reading; of one that does not, reading adds no fault."""
    validator = Validator(SCHEMA)
    read = read_payload(validator, sent)
    if validator.is_valid(sent):
        assert read.fits
        assert read.payload == sent
    assert read.fits == validator.is_valid(read.payload)
    before = {(each.field, each.constraint) for each in validator.issues(sent)}
    assert {(each.field, each.constraint) for each in validator.issues(read.payload)} <= before
