"""Examples: the caller's input repaired, the author's example, or a sample of the schema; always valid, never random."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.payload import example
from sojourn.core.payload import example as examples
from sojourn.core.schema.enforceable import check, forbid_unknown_fields
from sojourn.core.schema.formats import FORMAT_EXAMPLES
from sojourn.core.schema.sample import NoSampleError, sample
from sojourn.core.schema.validate import Validator
from sojourn.values.text import closest_name
from sojourn.values.wire import MAX_PRIOR_INPUT_BYTES


def derive_example(*given: Any, **options: Any) -> dict[str, Any] | None:
    """The payload of the derived example."""
    found = example.derive_example(*given, **options)
    return found and found.payload


def example_for(*given: Any, **options: Any) -> dict[str, Any] | None:
    """The payload of the example."""
    found = examples.example_for(*given, **options)
    return found and found.payload


def validator_of(schema: dict[str, Any]) -> Validator:
    """The validator of a schema, without unknown fields."""
    made = forbid_unknown_fields(schema)
    check(made)
    return Validator(made)


def field(schema: Any, *, required: bool = True) -> Validator:
    """The validator of an object with one field, `f`."""
    return validator_of(
        {"type": "object", "properties": {"f": schema}, "required": ["f"] if required else []}
    )


STRINGS = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_value_is_repaired_to_its_likely_meaning(subtests: pytest.Subtests) -> None:
    """The prior input is kept except for its issues, which are repaired to the likely meaning (SR-144)."""
    rows = [
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, " 5.0 ", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "5", 5),
        ({"type": "integer", "maximum": 500}, "700", 500),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "no", False),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, True, "true"),
        ({"type": ["string", "null"]}, 5, "5"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, "5"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        (STRINGS, "a", ["a"]),
        (STRINGS, '["a", "b"]', ["a", "b"]),
        ({"type": "string"}, ["a"], "a"),
        (OBJECT, '{"a": "3"}', {"a": 3}),
        (OBJECT, "{'a'", {}),
        ({"type": "integer"}, "[" * 5_000, 0),
        ({"type": "integer"}, "five", 0),
        ({"type": "integer"}, "NaN", 0),
        ({"type": "integer"}, "1" * 400, 0),
        ({"type": "boolean"}, "[]", False),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, ["1", 2], [1, "2"]),
        ({"type": "integer"}, "x" * 9_000, 0),
        ({"type": "integer"}, {"a": 1}, 0),
        ({"enum": ["router", "switch"]}, "Router ", "router"),
        ({"enum": ["router", "switch"]}, "swich", "switch"),
        ({"enum": ["router", "switch"]}, "zzz", "router"),
        ({"enum": ["router", "switch"]}, ["router"], "router"),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": "a"}, "z", "a"),
        ({"type": "integer", "minimum": 1}, 0, 1),
        ({"type": "integer", "maximum": 500}, 501, 500),
        ({"type": "integer", "exclusiveMinimum": 0}, 0, 1),
        ({"type": "integer", "exclusiveMaximum": 5}, 9, 4),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.7}, -1, 0.5),
        ({"type": "number", "minimum": 0.5}, 0, 0.5),
        ({"type": "integer", "multipleOf": 5}, 7, 5),
        ({"type": "number", "multipleOf": 0.1}, 0.32, 0.3),
        ({"type": "number", "multipleOf": 1e-300, "minimum": 1e299}, 1e298, 1e299),
        ({"type": "integer", "multipleOf": 10**299}, 7, 0),
        ({"type": "number", "multipleOf": 3e-300}, 1e298, 0),
        ({"type": "integer", "minimum": 1, "enum": [5]}, 0, 5),
        ({"type": "string", "maxLength": 3}, "abcdef", "abc"),
        ({"type": "string", "minLength": 3}, "ab", "example"),
        ({**STRINGS, "maxItems": 2}, ["a", "b", "c"], ["a", "b"]),
        ({**STRINGS, "minItems": 1}, [], ["example"]),
        ({**STRINGS, "uniqueItems": True}, ["a", "b", "a"], ["a", "b"]),
        ({"type": "string", "format": "date-time"}, "2024-05-01 10:00:00Z", "2024-05-01T10:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2024-05-01 10:00:00 UTC", "2024-05-01T10:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2024-05-01T10:00z", "2024-05-01T10:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-12-01T10:00:00+0100", "2026-12-01T10:00:00+01:00"),
        ({"type": "string", "format": "date-time"}, "2026-12-01T10:00:00.5-03", "2026-12-01T10:00:00.5-03:00"),
        ({"type": "string", "format": "date"}, "2024-05-01T10:00:00Z", "2024-05-01"),
        ({"type": "string", "format": "time"}, "10:00+0200", "10:00:00+02:00"),
        ({"type": "string", "format": "uri"}, "example.org/a", "https://example.org/a"),
        ({"type": "string", "format": "uuid"}, "nonsense", FORMAT_EXAMPLES["uuid"]),
        ({"type": "string", "format": "date"}, "x" * 9_000, FORMAT_EXAMPLES["date"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, " ABC ", "abc"),
        ({"type": "string", "pattern": "^[A-Z]+$"}, "abc", "ABC"),
        ({"type": "array", "items": {"type": "integer"}}, [1, "2"], [1, 2]),
        ({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {}, {"a": 1}),
        ({"properties": {"n": {"$ref": "#/$defs/N"}}}, {"n": {"x": 1}}, {"n": {}}),
    ]  # fmt: skip
    for schema, sent, repaired in rows:
        with subtests.test(str((schema, sent, repaired))):
            validator = validator_of(
                {
                    "type": "object",
                    "properties": {"f": schema, "g": {}},
                    "required": ["f"],
                    "$defs": {"N": OBJECT},
                }
            )
            assert derive_example(validator, {"f": sent, "g": "kept"}) == {"f": repaired, "g": "kept"}


def test_names_are_repaired_too(subtests: pytest.Subtests) -> None:
    """The value of a misspelt field moves to the right name; unknown, and irreparable optional, fields are removed."""
    rows = [
        ({"properties": {"site_id": {"type": "string"}}, "required": ["site_id"]}, {"siteId": "s-1"}, {"site_id": "s-1"}),
        ({"properties": {"site_id": {"type": "string"}}, "required": ["site_id"]}, {"site": "s-1"}, {"site_id": "s-1"}),
        ({"properties": {"site_id": {"type": "string"}}, "required": ["site_id"]}, {"zzz": "s-1"}, {"site_id": "s-1"}),
        ({"properties": {"query": {"type": "string"}}, "required": ["query"]}, {"sql": "select 1"}, {"query": "select 1"}),
        ({"properties": {"identifier": {"type": "string"}}, "required": ["identifier"]}, {"id": "T"}, {"identifier": "T"}),
        ({"properties": {"status": {"enum": ["open"]}}, "required": ["status"]}, {"order_id": "SO-1"}, {"status": "open"}),
        ({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"zzz": "s-1"}, {"n": 0}),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]}, {"zzz": "s-1"}, {"a": "example", "b": "example"}),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"zzz": "s-1", "yyy": "s-2"}, {"a": "example"}),
        ({"properties": {"o": {"properties": {"max_age": {"type": "integer"}}, "required": ["max_age"]}}}, {"o": {"max-age": "7"}}, {"o": {"max_age": 7}}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": None}, {}),
        ({"properties": {"a": {"type": "string", "pattern": "^s-[0-9]+$"}}}, {"a": "x"}, {}),
        ({"properties": {"a": {"type": "array", "items": {"pattern": "^s-[0-9]+$"}}, "b": {}}}, {"a": ["x"], "b": 1}, {"b": 1}),
        ({"properties": {"o": {"properties": {"a": {"pattern": "^s-[0-9]+$"}, "b": {}}}}}, {"o": {"a": "x", "b": 1}}, {"o": {"b": 1}}),
        ({"properties": {"a": True, "b": {}}, "required": ["b"]}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
    ]  # fmt: skip
    for schema, sent, repaired in rows:
        with subtests.test(schema=schema, sent=sent, repaired=repaired):
            assert derive_example(validator_of({"type": "object", **schema}), sent) == repaired


def test_the_authors_values_replace_values_that_cannot_be_repaired() -> None:
    """A missing or irreparable value comes from the same place of the author's example."""
    schema = {
        "type": "object",
        "properties": {
            "site": {"type": "string", "pattern": "^s-[0-9]+$"},
            "o": {"properties": {"n": True}, "required": ["n"]},
            "limit": {"type": "integer"},
        },
        "required": ["site", "o"],
    }
    author = {"site": "s-1", "o": {"n": 4}, "limit": 9}
    assert derive_example(validator_of(schema), {"site": "x", "o": {}, "limit": 3}, author) == {
        "site": "s-1",
        "o": {"n": 4},
        "limit": 3,
    }


def test_the_authors_value_comes_before_the_first_allowed_one() -> None:
    """Where no allowed value is close to the one sent, the author's example says which is usual; else the first is taken."""
    kinds = field({"enum": ["router", "switch", "bridge"]})
    assert derive_example(kinds, {"f": "zzz"}, {"f": "switch"}) == {"f": "switch"}
    assert derive_example(kinds, {"f": "zzz"}, {"f": "tap"}) == {"f": "router"}


def test_a_union_is_repaired_tag_first() -> None:
    """A missing or misspelt tag is repaired first, then the fields that its branch requires."""
    circle = {
        "type": "object",
        "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "minimum": 2}},
        "required": ["kind", "r"],
    }
    square = {
        "type": "object",
        "properties": {"kind": {"const": "square"}, "s": {"type": "number"}},
        "required": ["kind", "s"],
    }
    assert derive_example(field({"oneOf": [circle, square]}), {"f": {}}) == {"f": {"kind": "circle", "r": 2}}
    assert derive_example(field({"oneOf": [circle, square]}), {"f": {"kind": "sqare", "s": 1}}) == {
        "f": {"kind": "square", "s": 1}
    }


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "object", "minProperties": 1}, {}),
        ({"type": "object", "properties": {"f": {"pattern": "^(?=s)s-[0-9]+$"}}, "required": ["f"]}, {}),
        ({"type": "object", "properties": {"f": False}, "required": ["f"]}, {}),
        ({"type": "object", "properties": {"f": {"type": "array", "items": {"not": {}}}}, "required": ["f"]}, {"f": [1]}),
    ],
)  # fmt: skip
def test_an_irreparable_payload_gives_none(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    """`derive_example` is None where no repair fits the schema."""
    assert derive_example(validator_of(schema), sent) is None


def test_the_prior_input_is_not_changed() -> None:
    """`derive_example` repairs a copy."""
    sent = {"f": ["a", 1], "zzz": 1}
    before = deepcopy(sent)
    assert derive_example(field(STRINGS), sent) == {"f": ["a", "1"]}
    assert sent == before


def test_more_issues_than_are_listed_are_repaired() -> None:
    """Repairs run in rounds, so 120 issues are repaired, more than one list of issues has; 2,000 are too many."""
    assert derive_example(field(STRINGS), {"f": list(range(120))}) == {"f": [str(n) for n in range(120)]}
    assert derive_example(field(STRINGS), {"f": list(range(2_000))}) is None


def test_a_close_name_ignores_case_and_dashes(subtests: pytest.Subtests) -> None:
    """The closest name may differ in case, separators and a few letters; a dissimilar name has none."""
    rows = [("siteId", ["limit", "site_id"], "site_id"), ("Max-Age", ["max_age"], "max_age"), ("zzz", ["site_id"], None), ("a" * 5_000, ["b"], None), ("a", [], None)]  # fmt: skip
    for name, names, meant in rows:
        with subtests.test(name=name, names=names, meant=meant):
            assert closest_name(name, names) == meant


def test_a_sample_follows_from_the_schema(subtests: pytest.Subtests) -> None:
    """Defaults, constants, examples, enums, types and bounds give a value, the same every time."""
    rows = [
        ({"type": "object", "required": ["a", "b"], "properties": {"a": {"title": "A"}}}, {"a": "example", "b": "example"}),
        ({"default": 7, "minimum": 9}, 7),
        ({"const": "c"}, "c"),
        ({"examples": ["e", "f"], "type": "string"}, "e"),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": "null"}, None),
        ({"type": "boolean"}, False),
        ({"type": ["null", "integer"]}, 0),
        ({"type": ["null"]}, None),
        ({"type": "string"}, "example"),
        ({"type": "string", "minLength": 9}, "examplexx"),
        ({"type": "string", "maxLength": 3}, "exa"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"minimum": 3}, 3),
        ({"type": "integer", "minimum": 3, "multipleOf": 5}, 5),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "maximum": 9}, 0),
        ({"type": "number", "minimum": 0.2, "maximum": 0.8}, 0.2),
        ({"type": "number", "exclusiveMinimum": 0.2, "maximum": 0.8}, 0.5),
        ({"items": {"type": "integer"}}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 3}, [1, 2, 3]),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 1}, [1]),
        ({"type": "object"}, {}),
        ({"properties": {"a": {"type": "null"}, "b": {}}, "required": ["a"]}, {"a": None}),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 0),
        ({"anyOf": [{}, {"type": "integer"}]}, 0),
        ({"oneOf": [True, {"type": "integer"}], "minimum": 4}, 4),
        ({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, True, {"properties": {"a": {"type": "integer"}}, "required": ["a"]}]}, {"a": 1}),
        ({"$ref": "#/$defs/A"}, "from the definition"),
    ]  # fmt: skip
    for schema, made in rows:
        with subtests.test(str((schema, made))):
            root = {**schema, "$defs": {"A": {"const": "from the definition"}}}
            assert sample(root, schema) == made


def test_a_formatted_string_has_a_sample(subtests: pytest.Subtests) -> None:
    """A string of each enforced format has its sample."""
    rows = sorted(FORMAT_EXAMPLES)
    for name in rows:
        with subtests.test(str(name)):
            validator = field({"type": "string", "format": name})
            assert example_for(validator) == {"f": FORMAT_EXAMPLES[name]}


WIDE = {"allOf": [{"$ref": "#/$defs/B"}] * 40}
CHAIN = {
    "$defs": {**{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)}, "d40": {}},
    "$ref": "#/$defs/d0",
}


def test_a_schema_that_is_too_open_or_too_large_has_no_sample(subtests: pytest.Subtests) -> None:
    """`sample` raises NoSampleError where the schema gives no value, and stops at recursive and large schemas."""
    rows = [
        True,
        {},
        {"anyOf": [{}, True]},
        {"type": "array", "minItems": 50, "items": {"type": "null"}},
        {"type": "string", "minLength": 5_000},
        {"type": "array", "minItems": 1},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "number", "minimum": 10**400, "multipleOf": 3},
        {"$defs": {"B": {"allOf": [{"$ref": "#/$defs/C"}] * 40}, "C": {"type": "object"}}, **WIDE},
        CHAIN,
    ]
    for schema in rows:
        with subtests.test(str(schema)), pytest.raises(NoSampleError):
            sample(schema, schema)


def test_a_text_is_read_in_the_required_format() -> None:
    """A required text keeps its meaning where it can be read in the format; else it is made from the schema (SR-144)."""
    rows = [
        # A text is read as a date or an address only where the format requires one.
        ({"format": "hostname"}, "my host", "host.example.com"),
        ({"format": "uri"}, "no url", "https://example.com/"),
        ({"format": "uri"}, "example.org", "https://example.org"),
        ({"format": "email"}, "ann at site", "name@example.com"),
        ({"pattern": "^[A-Za-z0-9:]+$"}, "ab cd", "A"),
        ({"pattern": "^https://"}, "example.org", "https://"),
        ({"pattern": "^[A-Z]-[0-9]+$"}, "a-7", "A-7"),
        ({"format": "uuid", "pattern": "^0"}, "0 1", "00000000-0000-4000-8000-000000000000"),
        ({"format": "date-time"}, "2024-03-01 10:00Z", "2024-03-01T10:00:00Z"),
        ({"format": "date"}, "2024-03-01T10:00:00Z", "2024-03-01"),
        ({"format": "date"}, "2024-03-0112", "2024-01-31"),
        ({"format": "time"}, "2024-03-01 10:00 +01", "10:00:00+01:00"),
    ]
    assert [
        (schema, sent, read, found)
        for schema, sent, read in rows
        if (found := example_for(field({"type": "string", **schema}), {"f": sent})) != {"f": read}
    ] == []


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("5.0", "5"),
        ("9007199254740991.0", "9007199254740991"),
        ("1e23", f"1{'0' * 23}"),
        ("-9007199254740993.0", "-9007199254740993"),
    ],
)
def test_a_whole_number_is_written_without_invented_digits(sent: str, written: str) -> None:
    """A whole number becomes the integer of the digits that were written: 1e23 as a float would end in 91611392."""
    repaired = example_for(field({"type": "integer"}), {"f": sent})
    assert json.dumps(repaired) == f'{{"f": {written}}}'


def test_an_optional_field_is_not_invented() -> None:
    """A text is made from a pattern only where the value is required; an optional field is left out."""
    plate = {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"}
    assert example_for(field(plate, required=False), {"f": "x"}) == {}
    assert example_for(field(plate), {"f": "x"}) == example_for(field(plate)) == {"f": "A-0"}
    plates = {"type": "array", "items": plate}
    assert example_for(field(plates), {"f": ["x", "B-7"]}) == {"f": ["A-0", "B-7"]}


PRICE = {
    "type": "object",
    "properties": {"price": {"type": "number"}, "to": {"type": "string"}},
    "required": ["price"],
}


def cents(payload: dict[str, Any]) -> bool:
    """A rule of the type that no schema can state: at most two decimal places."""
    return round(payload["price"], 2) == payload["price"]


def test_an_example_fits_the_type_too(subtests: pytest.Subtests) -> None:
    """A payload that fits the schema but not the tool's type is no example, not even the author's (SR-144)."""
    rows = [
        ({"price": "1.5", "to": "x"}, None, {"price": 1.5, "to": "x"}),  # repaired, and accepted by the type
        ({"price": "1.234", "to": "x"}, {"price": 2.5}, {"price": 2.5, "to": "x"}),  # repaired, but refused
        ({"price": "1.234", "to": "x"}, None, {"price": 0, "to": "x"}),
        ({"price": 1.234, "to": "x"}, {"price": 2.5}, {"price": 2.5, "to": "x"}),  # refused by the type alone
        ({"price": 1.234, "to": "x"}, None, {"price": 0, "to": "x"}),
        ({"price": 1.234, "to": "x"}, {"price": 2.555}, {"price": 0, "to": "x"}),
        ({}, {"price": 2.555}, {"price": 0}),
    ]
    for prior, author, made in rows:
        with subtests.test(prior=prior, author=author, made=made):
            issues = [FieldIssue(field="/price", constraint="rejected")]
            assert example_for(validator_of(PRICE), prior, author, issues=issues, fits=cents) == made


def test_a_type_that_refuses_every_candidate_has_no_example() -> None:
    """`example_for` is None where the type refuses every candidate; else a candidate that it accepts."""
    issues = [FieldIssue(field=pointer, constraint="rejected") for pointer in ("", "/nowhere", "/price")]
    for refusals in (issues, issues[2:], []):
        assert (
            example_for(
                validator_of(PRICE), {"price": 1}, {"price": 2}, issues=refusals, fits=lambda _: False
            )
            is None
        )
    assert example_for(validator_of(PRICE), {"price": 1}, {"price": 2}, issues=issues[:2], fits=cents) == {
        "price": 2
    }


def test_an_invented_example_does_not_replace_a_prior_input() -> None:
    """An example made only from the schema is for a caller that sent no value; else there is none."""
    issues = [FieldIssue(field="/price", constraint="rejected")]
    for prior, expected in (({"price": 1.234, "to": "x"}, None), ({}, {"price": 0})):
        assert (
            example_for(validator_of(PRICE), prior, issues=issues, fits=lambda given: "to" not in given)
            == expected
        )


def test_the_order_is_repaired_then_author_then_sample() -> None:
    """The repaired input comes first, then the author's example, then a sample of the schema; else None."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "p": {"pattern": "^s-[0-9]+$"}},
        "required": ["a"],
    }
    validator, author = validator_of(schema), {"a": 5, "p": "s-1"}
    assert example_for(validator, {"a": "7"}, author) == {"a": 7}
    assert example_for(validator, None, author) == author
    assert example_for(validator, {}, author) == {"a": 5}  # only what the call lacks
    assert example_for(validator, {"a": "7"}, {"a": "bad"}) == {"a": 7}
    assert example_for(validator, None, {"a": "bad"}) == {"a": 0}
    assert example_for(validator, None, "no object") == {"a": 0}
    needed = validator_of({**schema, "required": ["p"]})
    assert example_for(needed, {"p": "x"}, author) == {"p": "s-1"}
    assert example_for(needed, {"p": "x"}, None) == {"p": "s-0"}
    hopeless = validator_of({**schema, "required": ["p"], "not": {}})
    assert example_for(hopeless, {"p": "x"}, author) is None


def test_a_prior_input_that_fits_the_schema_is_no_example() -> None:
    """A prior input that fits the schema, and so was refused by the type, is not its own example."""
    validator = field({"type": "integer"})
    assert example_for(validator, {"f": 1}, {"f": 2}) == {"f": 2}
    assert example_for(validator, {"f": 1}) is None


def test_an_example_is_small() -> None:
    """No payload over 8 KB is repaired or returned."""
    validator = field({"type": "string"})
    long = "x" * MAX_PRIOR_INPUT_BYTES
    assert example_for(validator, {"f": 1, "g": long}, {"f": long}) == {"f": "example"}


KINDS = st.sampled_from(
    [
        {"type": "string", "minLength": 2, "maxLength": 4},
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": "^s-[0-9]$"},
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "number", "multipleOf": 0.5},
        {"type": "boolean"},
        {"enum": ["router", "switch", 3]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"const": "b"}}, "required": ["b"]},
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "array", "items": {"type": "string"}}]},
        {"allOf": [{"type": "integer"}, {"minimum": 3}]},
        {"$ref": "#/$defs/Tree"},
    ]
)
TREE = {
    "type": "object",
    "properties": {"left": {"$ref": "#/$defs/Tree"}, "n": {"type": "integer"}},
    "required": ["n"],
}
NAMES = st.sampled_from(["site_id", "limit", "kind", "tree"])
SCHEMAS = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": {"Tree": TREE},
    },
    st.dictionaries(NAMES, KINDS, max_size=4),
    st.lists(NAMES, unique=True, max_size=2),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 20)
    | st.floats(-2, 2)
    | st.text(max_size=6)
    | st.sampled_from(["5", "true", "Router", "2024-01-31", '{"n": 1}', "[1]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["n", "left", "b", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PRIORS = st.dictionaries(NAMES | st.sampled_from(["siteId", "Limit", "zzz"]), VALUES, max_size=5)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, PRIORS, st.none() | PRIORS)
def test_every_example_validates(
    schema: dict[str, Any], prior: dict[str, Any], author: dict[str, Any] | None
) -> None:
    """For any input, an example fits the schema, is small and deterministic, and the input is not changed (SR-144)."""
    validator, before = validator_of(schema), json.dumps([prior, author])
    found = example_for(validator, prior, author)
    assert json.dumps([prior, author]) == before
    if found is not None:
        assert validator.issues(found) == []
        assert len(json.dumps(found)) <= 2 * MAX_PRIOR_INPUT_BYTES
    assert example_for(validator, prior, author) == found
