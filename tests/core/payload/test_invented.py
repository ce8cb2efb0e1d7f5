"""Invented values: a hint says which values of its example nobody gave, and a model reads none of them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import Annotations, ToolSpec, TypeSpec
from sojourn.core.payload.boundary import check_payload
from sojourn.core.payload.example import example_for
from sojourn.core.payload.hints import hint_for_issues, unparsable_arguments
from sojourn.core.payload.invented import template_of
from sojourn.core.payload.parse import parse_arguments
from sojourn.core.payload.reading import read_payload
from sojourn.core.repair.payload import repair_payload
from sojourn.core.schema.enforceable import forbid_unknown_fields
from sojourn.core.schema.formats import FORMAT_EXAMPLES, FORMAT_SHAPES, FORMATS
from sojourn.core.schema.validate import Validator
from sojourn.models.names import Names
from sojourn.models.result_text import result_text
from sojourn.values.json_fault import ParseFault
from sojourn.values.numbers import WholeNumber

TEXT = {"type": "string"}
ORDER = {
    "order_id": {"type": "string", "pattern": r"^SO-\d{5}$"},
    "amount": {"type": "number"},
    "reason": TEXT,
}
REFUND = {"order_id": "SO-10023", "amount": 12.5, "reason": "damaged"}
MOVE = {"source": TEXT, "target": TEXT}
MOMENT = {"at": {"type": "string", "format": "date-time"}}
SEARCH = {
    "q": TEXT,
    "time_range": {"enum": ["day", "week"]},
    "n": {"type": "integer", "minimum": 1},
    "since": {"type": "string", "format": "date"},
}
KIND = {"type": "string", "enum": ["router", "switch"]}
SHAPE = {
    "f": {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
            {"type": "object", "properties": {"kind": {"const": "square"}, "s": {"type": "number"}}, "required": ["kind", "s"]},
        ]
    }
}  # fmt: skip


def refused(
    properties: dict[str, Any],
    sent: dict[str, Any],
    *,
    required: list[str] | None = None,
    author: Any = None,
    read_only: bool | None = None,
) -> RetryHint:
    """The hint for a payload of a tool whose fields are all required, unless said otherwise."""
    needed = list(properties) if required is None else required
    schema = forbid_unknown_fields({"type": "object", "properties": properties, "required": needed})
    spec = ToolSpec(
        id="shop.orders.act",
        title="",
        description="",
        payload=TypeSpec(name="A", json_schema=schema, example=author),
        result=TypeSpec(name="R", json_schema={}),
        annotations=Annotations(read_only=read_only),
    )
    validator = Validator(schema)
    _, hint = hint_for_issues(spec, sent, validator.issues(sent), validator)
    assert hint.example_input is not None
    assert validator.is_valid(hint.example_input)
    assert hint.template is None or not read_payload(validator, hint.template).fits
    return hint


def test_a_hint_names_the_values_that_nobody_gave(subtests: pytest.Subtests) -> None:
    """What was sent, in any form, and what the schema determines follows from the call; all else is invented."""
    rows: list[tuple[dict[str, Any], dict[str, Any], list[str], dict[str, Any] | None]] = [
        # An order of the author's in place of a faulty one, and an exact repair.
        (ORDER, {**REFUND, "order_id": "12"}, ["/order_id"], {**REFUND, "order_id": "<order_id>"}),
        (ORDER, {**REFUND, "order_id": "so-20981"}, [], None),
        # A free text would take its placeholder, so the field is left out.
        (MOVE, {}, ["/source", "/target"], {}),
        (MOVE, {"source": "a.txt"}, ["/target"], {"source": "a.txt"}),
        # A text has the digits of an integer; of any other number, how it was written is lost.
        ({"v": TEXT}, {"v": 310}, [], None),
        ({"v": TEXT}, {"v": 3.1}, ["/v"], {}),
        ({"v": TEXT}, {"v": WholeNumber(10**23)}, ["/v"], {}),
        # Of a text that is too long nothing but blanks is cut off.
        ({"c": {**TEXT, "maxLength": 1}}, {"c": "C "}, [], None),
        ({"c": {**TEXT, "maxLength": 1}}, {"c": "C++"}, ["/c"], {"c": "<c>"}),
        # One item in place of a list is that item, unless it may be several.
        ({"l": {"type": "array", "items": TEXT}}, {"l": "prod"}, [], None),
        ({"l": {"type": "array", "items": TEXT}}, {"l": "a,b"}, ["/l/0"], {}),
        ({"l": {"type": "array", "items": TEXT}}, {"l": "[a"}, ["/l/0"], {}),
        # A zone is asked for; another way to write it is no question.
        (MOMENT, {"at": "2026-12-01T10:00:00"}, ["/at"], {"at": "2026-12-01T10:00:00<zone>"}),
        (MOMENT, {"at": "2026-12-01 10:00"}, ["/at"], {"at": "2026-12-01T10:00<zone>"}),
        (MOMENT, {"at": "2026-12-01T10:00:00+0100"}, [], None),
        (MOMENT, {"at": "tomorrow"}, ["/at"], {"at": "<at>"}),
        # Another spelling of a name is that name; the value of a field with another name is only likely to be meant.
        ({"site_id": TEXT}, {"siteId": "s-1"}, [], None),
        ({"severity": TEXT}, {"severty": "high"}, [], None),
        ({"returns_on": TEXT}, {"return_on": "2027-01-04"}, [], None),
        ({"employee_id": TEXT}, {"employer_id": "e-1"}, ["/employee_id"], {}),
        ({"account": TEXT}, {"account2": "A"}, ["/account"], {}),
        ({"query": TEXT}, {"sql": "select 1"}, ["/query"], {}),
        ({"identifier": TEXT}, {"id": "T"}, ["/identifier"], {}),
        ({"to_account": TEXT}, {"from_account": "A"}, ["/to_account"], {}),
        ({"to": {"type": "object", "properties": {"n": {"type": "integer"}}}}, {"too": {"n": "5"}}, ["/to"], {"to": "<to>"}),
        # Enums: another case is the same word; a misspelt word, or none, is not.
        ({"kind": {"enum": ["router", "switch"]}}, {"kind": "Router"}, [], None),
        ({"kind": {"enum": ["router", "switch"]}}, {"kind": "swich"}, ["/kind"], {"kind": "<kind>"}),
        ({"kind": {"enum": ["router", "switch"]}}, {}, ["/kind"], {"kind": "<kind>"}),
        ({"n": {"type": "integer", "maximum": 500}}, {"n": 700}, ["/n"], {"n": "<n>"}),
        # The schema determines a default. A constant, or an enum of one value, is a consent, also where something else was sent.
        ({"n": {"type": "integer", "default": 3}}, {}, [], None),
        ({"v": {"const": 1}, "w": {"enum": ["x"]}}, {}, ["/v", "/w"], {"v": "<v>", "w": "<w>"}),
        ({"confirm": {"const": True}}, {}, ["/confirm"], {"confirm": "<confirm>"}),
        ({"confirm": {"const": True, "type": "boolean"}}, {"confirm": "yes"}, ["/confirm"], {"confirm": "<confirm>"}),
        ({"confirm": {"const": True, "type": "boolean"}}, {"confirm": "True"}, [], None),
        ({"env": {"const": "prod"}}, {"env": "dev"}, ["/env"], {"env": "<env>"}),
        ({"env": {"const": "prod"}}, {"env": "Prod"}, [], None),
        # The tag of a union is a choice, unless it was made; what its branch requires is not given by it.
        (SHAPE, {"f": {}}, ["/f/kind", "/f/r"], {"f": {"kind": "<kind>", "r": "<r>"}}),
        (SHAPE, {"f": {"kind": "square"}}, ["/f/s"], {"f": {"kind": "square", "s": "<s>"}}),
        # Two faults of one value: its type first, and a value that was invented for one fault is no answer to the other.
        ({"kind": KIND}, {"kind": None}, ["/kind"], {"kind": "<kind>"}),
        ({"kind": KIND}, {"kind": 7}, ["/kind"], {"kind": "<kind>"}),
        ({"kind": KIND}, {"kind": ["switch"]}, [], None),
        ({"l": {"type": "array", "items": KIND}}, {"l": [None]}, ["/l/0"], {"l": ["<l>"]}),
        ({"l": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}, {"l": [7]}, ["/l/0/0"], {"l": [["<l>"]]}),
        # Nothing is not a list of nothing.
        ({"l": {"type": "array", "items": KIND, "minItems": 1}}, {"l": None}, ["/l/0"], {"l": ["<l>"]}),
        # Of choices that differ only in case, and of numbers that differ in their sign, none is the other.
        ({"g": {"enum": ["AA", "Aa", "aa"]}}, {"g": "'aa'"}, [], None),
        ({"g": {"enum": ["AA", "Aa", "aa"]}}, {"g": "aA"}, ["/g"], {"g": "<g>"}),
        ({"g": {"enum": ["-1", "zero"]}}, {"g": "1"}, ["/g"], {"g": "<g>"}),
        ({"g": {"enum": ["on hold", "open"]}}, {"g": "ON_HOLD"}, [], None),
        # A field that may be anything has an example too, which is no template.
        ({"f": {}}, {}, ["/f"], {}),
        # Items of arrays, and arrays that would be accepted without an item.
        ({"l": {"type": "array", "items": {"type": "integer"}}}, {"l": [1, "x"]}, ["/l/1"], {"l": [1, "<l>"]}),
        ({"l": {"type": "array", "items": TEXT, "minItems": 1}}, {"l": []}, ["/l/0"], {}),
        ({"l": {"type": "array", "items": TEXT}}, {}, ["/l"], {"l": "<l>"}),
        # A default stands for no value that was sent; and where it would fill the field in, there is no template.
        ({"n": {"type": "integer", "default": 3}}, {"n": "many"}, ["/n"], {"n": "<n>"}),
        ({"note": {**TEXT, "minLength": 3, "default": "all"}}, {"note": "x"}, ["/note"], None),
    ]  # fmt: skip
    for properties, sent, invented, template in rows:
        with subtests.test(str(sent)):
            hint = refused(properties, sent, author=REFUND if properties is ORDER else None)
            assert (hint.invented, hint.template) == (invented, template)
            assert (hint.mended() is None) == bool(invented)


def test_an_optional_bad_value_is_left_out() -> None:
    """No filter that nobody chose is put in place of an optional value that does not fit.

    But one that was meant is no less open: without it the call of a tool that changes something may do too much.
    """
    sent = {"q": "x", "time_range": "", "n": 0, "since": "soon"}
    reads, acts = (refused(SEARCH, sent, required=["q"], read_only=each) for each in (True, None))
    for hint in (reads, acts):
        assert hint.example_input == {"q": "x"}
        assert (hint.message or "").endswith("; or leave out `time_range`, `n`, `since`")
    assert (reads.invented, reads.template) == ([], None)
    assert (acts.invented, acts.template) == (["/n", "/since"], {"q": "x", "n": "<n>", "since": "<since>"})
    assert acts.mended() is None
    blank = refused(SEARCH, {"q": "x", "time_range": " ", "n": None}, required=["q"])
    assert (blank.example_input, blank.invented) == ({"q": "x"}, [])


def test_a_blank_that_may_mean_null_is_a_choice() -> None:
    """Where a field may be null, its absence is another value: the repaired call of a change does not choose it."""
    owner = {"anyOf": [{**TEXT, "pattern": "^u-[0-9]$"}, {"type": "null"}]}
    hints = [
        refused({"owner": {**owner, "default": each}}, {"owner": " "}, required=[]) for each in ("u-1", None)
    ]
    assert [(each.invented, each.example_input) for each in hints] == [(["/owner"], {}), ([], {})]


def test_zero_false_and_an_empty_list_are_choices(subtests: pytest.Subtests) -> None:
    """An optional value that does not fit never vanishes from a call that changes something, however little it says."""
    ids = {"type": "array", "items": TEXT, "minItems": 1}
    days = {"type": "integer", "minimum": 1, "default": 30}
    page = {**TEXT, "minLength": 2}
    for field, schema, sent in [
        ("ids", ids, []),
        ("days", days, 0),
        ("days", days, False),
        ("more", None, []),
        ("page", None, [""]),
    ]:
        with subtests.test(str((field, sent))):
            properties = {"ids": ids, "days": days, "page": page}
            hint = refused(properties, {field: sent}, required=[])
            assert (hint.invented, hint.mended()) == ([f"/{field}"], None)
            assert schema is None or hint.template == {field: f"<{field}>"}


def test_an_unknown_field_is_left_out_and_named() -> None:
    """Nothing offers what remains of the call of a change without a field that the tool does not know: `preview` may be all of it."""
    sent = {"q": "x", "dry_run": False}
    reads, acts = (refused({"q": TEXT}, sent, read_only=each) for each in (True, None))
    assert reads.example_input == acts.example_input == {"q": "x"}
    assert (reads.invented, acts.invented, acts.template) == ([], ["/dry_run"], None)
    assert (reads.mended() is None, acts.mended() is None) == (False, True)
    text = result_text(ToolResult.model_validate(_failed(acts)), Names([acts.tool]))
    assert "arguments that fit" not in text
    assert "`dry_run` is not a known field; the fields are `q`\n" in text
    assert "to complete" not in text
    none = refused({}, {"only": ["a"]})
    assert (none.message or "").endswith("`only` is not a known field; there are no fields")
    inner = {"to": {"type": "object", "properties": {"a": TEXT}}}
    nested = refused(inner, {"to": {"b~": 1}})
    assert (nested.message or "").endswith("; the fields in `to` are `a`")
    assert refused({"q": TEXT}, {"q": "x", "more": ""}).invented == []


def test_a_likely_guess_is_meant_only_where_it_changes_nothing() -> None:
    """A number at its bound and a misspelt word follow from the call of a tool that only reads."""
    properties = {"n": {"type": "integer", "maximum": 500}, "kind": {"enum": ["online", "offline"]}}
    sent = {"n": 700, "kind": "offlne"}
    reads, acts = (refused(properties, sent, read_only=each) for each in (True, None))
    assert reads.example_input == acts.example_input == {"n": 500, "kind": "offline"}
    assert (reads.invented, acts.invented) == ([], ["/kind", "/n"])


def test_the_authors_values_are_told_nowhere() -> None:
    """No message has the author's value for an invented one, of a read-only tool neither: a person would read of a stranger's order."""
    sent = {**REFUND, "order_id": "12"}
    for read_only in (True, False):
        assert "SO-10023" not in (refused(ORDER, sent, author=REFUND, read_only=read_only).message or "")


def test_a_model_reads_no_invented_value(subtests: pytest.Subtests) -> None:
    """The text of a refusal has the arguments to complete, or none; the invented values are nowhere in it."""
    rows = [
        (ORDER, {**REFUND, "order_id": "12"}, REFUND, "SO-10023"),
        (MOVE, {}, None, "example"),
        (MOVE, {}, {"source": "a.txt", "target": "b.txt"}, "a.txt"),
        (MOMENT, {"at": "2026-12-01T10:00:00"}, None, "2024"),
        (MOMENT, {"at": "2026-12-01T10:00:00"}, None, "10:00:00Z"),
        (MOMENT, {}, None, "2024"),
        ({"kind": KIND}, {"kind": None}, None, '"kind":"router"'),
    ]
    for properties, sent, author, word in rows:
        with subtests.test(str((sent, word))):
            hint = refused(properties, sent, author=author)
            text = result_text(ToolResult.model_validate(_failed(hint)), Names([hint.tool]))
            assert word not in text
            assert "arguments that fit" not in text
            assert "Ask for those that you lack." in text or "ask for those that you lack." in text


def _failed(hint: RetryHint) -> dict[str, Any]:
    error = {"message": "invalid", "code": hint.reason}
    return {"name": hint.tool, "tool_call_id": "c", "error": error, "retry_hint": hint.model_dump()}


def test_an_example_for_arguments_that_cannot_be_read_is_invented() -> None:
    """Of arguments that are no JSON nothing is known, so the whole example is invented, and so are all of its values."""
    schema = forbid_unknown_fields({"type": "object", "properties": ORDER, "required": list(ORDER)})
    spec = ToolSpec(
        id="a.b.c",
        title="",
        description="",
        payload=TypeSpec(name="A", json_schema=schema, example=REFUND),
        result=TypeSpec(name="R", json_schema={}),
    )
    fault = parse_arguments('{"order_id": ')
    assert isinstance(fault, ParseFault)
    _, hint = unparsable_arguments(spec, fault)
    assert hint.invented == ["", "/amount", "/order_id", "/reason"]
    assert hint.template == {"order_id": "<order_id>", "amount": "<amount>"}
    assert hint.mended() is None


UNREADABLE = [
    '{"ids": ["a"',
    '{"ids": ["a"], "ids": ["b"]}',
    "{'ids': ['a']}",
    '{"ids":["a\nb"]}',
    '{"days": NaN}',
    '["a"]',
    "ids=a",
]


def test_what_cannot_be_read_is_not_a_call_of_everything(subtests: pytest.Subtests) -> None:
    """Of a tool whose fields are all optional, no call without arguments follows from a text that could not be read."""
    for raw in UNREADABLE:
        with subtests.test(raw=raw):
            ids = {"type": "array", "items": TEXT}
            schema = forbid_unknown_fields(
                {"type": "object", "properties": {"ids": ids, "days": {"type": "integer"}}}
            )
            spec = ToolSpec(
                id="a.b.purge",
                title="",
                description="",
                payload=TypeSpec(name="A", json_schema=schema),
                result=TypeSpec(name="R", json_schema={}),
            )
            result = check_payload(spec, Validator(schema), ToolRequest(name=spec.id, raw=raw))
            assert isinstance(result, ToolResult)
            assert result.retry_hint is not None
            assert (result.retry_hint.invented, result.retry_hint.mended()) == ([""], None)
            assert "arguments that fit" not in result_text(result, Names([spec.id]))


OPEN = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "default": 100},
        "to": {"type": "string", "default": "main"},
    },
    "required": ["amount"],
}


@pytest.mark.parametrize("sent", [{"amout": 5}, {"amount_eur": 5}, {"sum": 5}, {"value": 5, "to": "x"}])
def test_no_default_stands_for_a_value_under_another_name(sent: dict[str, Any]) -> None:
    """Beside a field that an open schema does not declare, a required one has no default, in no reading, example or repair."""
    validator = Validator(OPEN)
    assert not read_payload(validator, sent).fits
    spec = ToolSpec(
        id="a.b.pay",
        title="",
        description="",
        payload=TypeSpec(name="A", json_schema=OPEN),
        result=TypeSpec(name="R", json_schema={}),
        kind="mcp",
    )
    result = check_payload(spec, validator, ToolRequest(name=spec.id, payload=sent))
    assert isinstance(result, ToolResult)
    assert (hint := result.retry_hint) is not None
    assert (hint.invented, hint.mended()) == (["/amount"], None)
    assert repair_payload(hint, sent, spec=spec).missing == ["amount"]


def test_an_entry_of_a_map_leaves_a_default_in_place() -> None:
    """A map has fields that no schema names; one whose name is close may still be meant for the absent field."""
    schema = {**OPEN, "additionalProperties": {"type": "integer"}}
    assert read_payload(Validator(schema), {"rent": 5}).payload == {"rent": 5, "amount": 100}
    assert not read_payload(Validator(schema), {"amout": 5}).fits


def test_no_shape_of_a_format_is_a_text_of_that_format() -> None:
    """A model that copies the words for a format is refused."""
    assert FORMAT_SHAPES.keys() <= FORMAT_EXAMPLES.keys()
    assert [
        (name, word)
        for name, shape in FORMAT_SHAPES.items()
        for word in (shape, *shape.split())
        if FORMATS.conforms(word, name) and word != "Z,"
    ] == []


FIELD = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "pattern": "^s-[0-9]$"},
        {"type": "string", "format": "date-time"},
        {"type": ["string", "integer"]},
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "boolean"},
        {"enum": ["router", "<a>", 3]},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "string", "minLength": 1, "default": "all"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"const": "b"}}, "required": ["a"]},
        {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
        {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
    ]
)
NAMES = st.sampled_from(["a", "b", "c~/d"])
SCHEMAS = st.builds(
    lambda properties, required: {"type": "object", "properties": properties, "required": required},
    st.dictionaries(NAMES, FIELD, min_size=1, max_size=3),
    st.lists(NAMES, unique=True, max_size=3),
)
VALUES = st.none() | st.integers(0, 12) | st.sampled_from(["", "5", "s-1", "S-1", "2026-12-01T10:00"])
SENT = st.dictionaries(NAMES | st.just("zzz"), VALUES | st.lists(VALUES, max_size=2), max_size=4)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, st.none() | SENT, st.none() | SENT, st.booleans())
def test_a_text_with_placeholders_never_validates(
    schema: dict[str, Any], sent: dict[str, Any] | None, author: dict[str, Any] | None, reads: bool
) -> None:
    """Whatever the schema, a template is refused, an example is not, and every invented value is at its path."""
    validator = Validator(forbid_unknown_fields(schema))
    found = example_for(validator, sent, author, reads=reads)
    if found is None:
        return
    assert validator.is_valid(found.payload)
    template = template_of(validator, found, sent)
    assert template is None or not read_payload(validator, template).fits
    assert template is None or found.open
    for tokens in found.invented:
        value: Any = found.payload
        for token in tokens:
            value = value[int(token) if isinstance(value, list) else token]
