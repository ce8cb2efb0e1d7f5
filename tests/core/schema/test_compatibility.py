"""Compatibility of two schemas: the reasons by field that a written value may not fit, and none where every value fits."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, Json, SecretStr, TypeAdapter, computed_field, create_model
from typing_extensions import TypedDict  # pydantic requires it before Python 3.12

from sojourn.core.schema.compatibility import MAX_MISMATCHES, mismatches
from sojourn.core.schema.enforceable import forbid_unknown_fields

INTEGER: dict[str, Any] = {"type": "integer"}
STRING: dict[str, Any] = {"type": "string"}


def fields(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": properties}


def mismatched(source: Any, target: Any, *, lossless: bool = True) -> list[str]:
    """The mismatches of two Python types."""
    written = TypeAdapter(source).json_schema(mode="serialization")
    return mismatches(written, TypeAdapter(target).json_schema(mode="validation"), lossless=lossless)


class Color(Enum):
    RED = "red"
    TWO = 2


class Window(BaseModel):
    since: datetime
    until: datetime | None = None


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    window: Window
    lines: list[Line]


@dataclass
class LineData:
    sku: str
    count: float = 0


class LineDict(TypedDict):
    sku: str
    count: NotRequired[int]


class OtherLine(BaseModel):
    sku: UUID


class OtherOrder(BaseModel):
    window: create_model("Window", since=(date, ...), until=(datetime, ...))  # type: ignore[valid-type]
    lines: list[OtherLine]


class Tree(BaseModel):
    label: str
    kids: list["Tree"] = []


class Node(BaseModel):
    label: str
    kids: list["Node"] = []


class NumberedNode(BaseModel):
    label: int
    kids: list["NumberedNode"] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Doggy(BaseModel):
    kind: Literal["dog"]
    name: int


class Untagged(BaseModel):
    name: str


class Point(NamedTuple):
    x: int
    y: int = 0


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    label: str


class Empty(BaseModel):
    pass


class Computed(BaseModel):
    label: str

    @computed_field
    @property
    def length(self) -> int:
        return len(self.label)


class Optional(BaseModel):
    label: int = 0


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def test_compatible_types_have_no_misfits() -> None:
    """Fields, types, nested models, lists, unions and enums are compared by their meaning (SR-80)."""
    rows = [
        (int, int),
        (int, float),
        (int, int | None),
        (int | None, float | str | None),
        (Color, Color),
        (Color, str | int),
        (Literal["red"], Color),
        (Literal["a", "b"], Literal["c", "b", "a"]),
        (Literal["a", 2], Literal["a", "b"] | int),
        (Literal["a"], str),
        (bool, bool | int),
        (datetime, datetime),
        (datetime, str),
        (UUID, UUID | None),
        (str, bytes),
        (str, Annotated[str, Field(max_length=3, pattern="^a")]),
        (int, Annotated[int, Field(ge=1, le=500)]),
        (list[int], Annotated[list[float], Field(min_length=1)]),
        (list[int], set[int]),
        (tuple[int, str], tuple[float, str]),
        (tuple[int, str], list[int | str]),
        (tuple[int, ...], list[int]),
        (Annotated[list[int], Field(min_length=2, max_length=2)], tuple[int, int]),
        (Point, tuple[int, int] | list[int]),
        (tuple[int], Point),
        (dict[str, int], dict[str, float]),
        (dict[Color, int], dict[str, int]),
        (dict[Literal["a"], int], dict[Literal["a", "b"], int]),
        (dict[UUID, int], dict[UUID, int]),
        (dict[Annotated[str, Field(pattern="^a")], int], dict[str, int]),
        (Line, dict[str, str | int]),
        (Line, dict[Literal["sku", "count"], Any]),
        (Line, LineData),
        (Line, LineDict),
        (Order, Order),
        (Order, dict[str, Any]),
        (Tree, Node),
        (list[Tree], list[Node]),
        (Pet, Cat | Dog),
        (Pet, Pet),
        (Dog, Pet),
        (Dog, Annotated[Pet | None, Field(description="A pet.")]),
        (Open, dict[str, Any]),
        (Open, Open),
        (Computed, create_model("Labelled", label=(str, ...))),
        (Computed, create_model("Measured", label=(str, ...), length=(int, ...))),
        (SecretStr, Any),
        (Any, Any),
        (Order, Any),
    ]
    assert [
        (source, target, found)
        for source, target in rows
        if (found := mismatched(source, target, lossless=source is not SecretStr)) != []
    ] == []


def test_misfits_are_listed_by_field() -> None:
    """Each mismatch has the path of its field, and names source and target (SR-80, SR-82)."""
    rows = [
        (float, int, ["value: number does not fit integer"]),
        (bool, int, ["value: boolean does not fit integer"]),
        (str, int | bool, ["value: string does not fit integer or boolean"]),
        (int | None, int, ["value: null does not fit integer"]),
        (str | int | None, str, ["value: integer does not fit string", "value: null does not fit string"]),
        (Any, str, ["value: anything does not fit string"]),
        (str, Literal["a", "b"], ['value: string does not fit enum ["a", "b"]']),
        (Literal["a", "b", "c"], Literal["a"], ['value: "b", "c" does not fit enum ["a"]']),
        (Literal[1], Literal[True], ["value: 1 does not fit enum [true]"]),
        (Color, str, ["value: 2 does not fit string"]),
        (Literal["2024-01-01"], date, ['value: "2024-01-01" does not fit date string']),
        (str, datetime, ["value: string does not fit date-time string"]),
        (date, datetime | None, ["value: date string does not fit date-time string or null"]),
        (str, Json[int], ["value: string does not fit application/json string"]),
        (SecretStr, str, ["value: is masked when it is written"]),
        (list[str], list[int], ["[]: string does not fit integer"]),
        (list[int], tuple[int, int], ["value: may hold fewer than 2 items"]),
        (list[int], tuple[int], ["value: may hold fewer than 1 item"]),
        (tuple[int, int], tuple[int], ["[1]: integer does not fit here"]),
        (tuple[int, str], tuple[int, int], ["[1]: string does not fit integer"]),
        (tuple[int, str], list[int], ["[1]: string does not fit integer"]),
        (Point, tuple[int, int], ["value: may hold fewer than 2 items"]),
        (dict[str, str], dict[str, int], ["*: string does not fit integer"]),
        (dict[str, int], dict[Color, int], ['*: name: string does not fit enum ["red", 2]']),
        (Line, dict[Literal["sku"], Any], ['*: name: "count" does not fit enum ["sku"]']),
        (dict[str, str], Optional, ["label: string does not fit integer", "*: unknown to Optional"]),
        (dict[str, int], Line, ["sku: may be absent in object", "sku: integer does not fit string",
                                "*: unknown to Line"]),
        (Line, dict[str, int], ["sku: string does not fit integer"]),
        (Line, list[str], ["value: Line does not fit array"]),
        (Line, Empty, ["sku: unknown to Empty", "count: unknown to Empty"]),
        (Empty, Line, ["sku: missing in Empty"]),
        (LineDict, create_model("Counted", sku=(str, ...), count=(int, ...)), ["count: may be absent in LineDict"]),
        (LineData, LineDict, ["count: number does not fit integer"]),
        (Order, OtherOrder, ["window.since: date-time string does not fit date string",
                             "window.until: null does not fit date-time string",
                             "lines[].sku: string does not fit uuid string",
                             "lines[].count: unknown to OtherLine"]),
        (tuple[str], list[int] | Point, ["value: array of 1 does not fit array or array of 2"]),
        (Tree, NumberedNode, ["label: string does not fit integer",
                              "kids[].label: string does not fit integer"]),
        (Open, Tree, ["kids: anything does not fit array", "*: unknown to Tree"]),
        (Untagged, Pet, ["value: Untagged does not fit Cat or Dog"]),
        (Cat | Doggy, Pet, ["name: integer does not fit string"]),
        (Cat | Untagged, Cat, ["lives: missing in Untagged", "name: unknown to Cat"]),
    ]  # fmt: skip
    assert [
        (source, target, found)
        for source, target, reasons in rows
        if (found := mismatched(source, target)) != reasons
    ] == []


@pytest.mark.parametrize("target", [Empty, Optional, dict[str, Any]], ids=str)
def test_without_lossless_unknown_fields_may_be_dropped(target: Any) -> None:
    """Without `lossless`, fields that the target lacks are no mismatch, and neither is a masked secret."""
    source = create_model("Result", extra=(Line, ...), secret=(SecretStr, ...))
    assert mismatched(source, target, lossless=False) == []


def test_without_lossless_known_fields_still_have_to_fit() -> None:
    """An entry of a map may have the name of a target's field, so its type is compared."""
    assert mismatched(dict[str, str], Optional, lossless=False) == ["label: string does not fit integer"]


def test_schemas_written_by_hand_are_compared() -> None:
    """Keywords that pydantic does not write are understood, and the comparison is bounded."""
    rows = [
        (forbid_unknown_fields(Line.model_json_schema()), Line.model_json_schema(), []),
        ({"type": ["integer", "null"]}, {"anyOf": [INTEGER, {"type": "null"}]}, []),
        ({"type": ["integer", "null"]}, INTEGER, ["value: null does not fit integer"]),
        ({"const": 1}, {"enum": [2, 1]}, []),
        ({"const": {"a": 1}}, {"type": "object"}, ["value: an object with 1 field does not fit object"]),
        ({"allOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": STRING}}], "required": ["a", "b"],
                      "unevaluatedProperties": False}, {"properties": {"a": INTEGER, "b": INTEGER}}, ["b: string does not fit integer"]),
        ({"properties": {"a": True}}, {"properties": {"a": True}}, []),
        ({"properties": {"a": False}}, {"properties": {"a": INTEGER}}, []),
        (INTEGER, False, ["value: integer does not fit here"]),
        ({"items": INTEGER}, {"prefixItems": [STRING]}, ["[0]: integer does not fit string"]),
        ({"patternProperties": {"^a": INTEGER}, "type": "object"}, {"patternProperties": {"^a": STRING}, "type": "object"}, ["*: integer does not fit string"]),
        ({"$ref": "#/$defs/no"}, INTEGER, ["value: anything does not fit integer"]),
        ({"$ref": "#"}, INTEGER, ["value: too large to compare"]),
        ({"allOf": [{"anyOf": [INTEGER] * 10}] * 5}, INTEGER, ["value: too large to compare"]),
    ]  # fmt: skip
    assert [
        (source, target, found)
        for source, target, reasons in rows
        if (found := mismatches(source, target, lossless=True)) != reasons
    ] == []


def test_reasons_are_bounded() -> None:
    """At most 50 mismatches are returned."""
    many = create_model("Many", **{f"f{number}": (int, ...) for number in range(90)})
    assert len(mismatched(Empty, many)) == MAX_MISMATCHES


def test_a_deep_nesting_is_too_large_to_compare() -> None:
    """A nesting of 70 levels ends the comparison with a mismatch, not with a RecursionError."""
    nested: dict[str, Any] = INTEGER
    for _ in range(70):
        nested = {"type": "array", "items": nested}
    assert mismatches(nested, nested, lossless=True) == ["value: too large to compare"]


def test_an_assumption_that_failed_is_not_relied_on() -> None:
    """A pair that fitted only because the pair around it was assumed to fit is compared again.

    By the first branch, `C` fits while `b` is compared, until `b.bad` does not; the second
    branch leads to `C` again.
    """
    source = {
        "$defs": {"B": fields(c={"$ref": "#/$defs/C"}, bad=STRING), "C": fields(b={"$ref": "#/$defs/B"})},
        "$ref": "#/$defs/C",
    }
    target = {
        "$defs": {
            "Core": fields(c={"$ref": "#/$defs/C"}),
            "B": {"$ref": "#/$defs/Core", **fields(bad=INTEGER)},
            "C": fields(b={"$ref": "#/$defs/B"}),
        },
        "anyOf": [{"$ref": "#/$defs/C"}, fields(b={"$ref": "#/$defs/Core"})],
    }
    assert mismatches(source, target, lossless=False) == ["value: object does not fit object"]


SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["integer", "null"]},
        {"enum": ["a", 1, None]},
        {"const": "a"},
        {"enum": [True, 2.5]},
    ]
)
NAMES = st.sampled_from(["a", "b", "c"])


def objects(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A strategy for schemas of objects with these fields, some of which are required."""
    return st.builds(
        lambda known, required: {
            "type": "object",
            "properties": known,
            "required": [name for name in required if name in known],
        },
        st.dictionaries(NAMES, fields, max_size=3),
        st.lists(NAMES, unique=True, max_size=2),
    )


SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: (
        objects(inner)
        | st.builds(lambda item: {"type": "array", "items": item}, inner)
        | st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner)
        | st.builds(
            lambda items: {
                "type": "array",
                "prefixItems": items,
                "minItems": len(items),
                "maxItems": len(items),
            },
            st.lists(inner, min_size=1, max_size=2),
        )
        | st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=4,
)
EVERY = {
    "string": st.sampled_from(["", "a", "b"]),
    "integer": st.sampled_from([0, 1]),
    "number": st.sampled_from([0, 2.5]),
    "boolean": st.booleans(),
    "null": st.none(),
}


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A strategy for the values that a writer of this schema writes: no fields that it does not declare."""
    if "anyOf" in schema:
        return st.one_of(*map(values_of, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if kind == "object" and "properties" in schema:
        known = {name: values_of(field) for name, field in schema["properties"].items()}
        always = {name: known.pop(name) for name in schema["required"]}
        return st.fixed_dictionaries(always, optional=known)
    if kind == "object":
        return st.dictionaries(NAMES, values_of(schema["additionalProperties"]), max_size=2)
    if kind == "array" and "prefixItems" in schema:
        return st.tuples(*map(values_of, schema["prefixItems"])).map(list)
    if kind == "array":
        return st.lists(values_of(schema["items"]), max_size=2)
    return st.one_of(*(EVERY[each] for each in ([kind] if isinstance(kind, str) else kind)))


def altered(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A strategy for schemas that differ from this one in one place."""
    if "anyOf" in schema:
        return st.one_of(st.sampled_from(schema["anyOf"]), *map(altered, schema["anyOf"]))
    if "properties" in schema:
        known = schema["properties"]
        changed = [
            altered(field).map(lambda made, name=name: {**schema, "properties": {**known, name: made}})
            for name, field in known.items()
        ]
        required = st.lists(NAMES, unique=True, max_size=3).map(lambda names: {**schema, "required": names})
        unknown = SCALARS.map(lambda field: {**schema, "properties": {"c": field, **known}})
        return st.one_of(*changed, required, unknown)
    for word in ("items", "additionalProperties"):
        if word in schema:
            return altered(schema[word]).map(lambda made, word=word: {**schema, word: made})
    if "prefixItems" in schema:
        first, *rest = schema["prefixItems"]
        longer = SCALARS.map(lambda item: {**schema, "prefixItems": [first, *rest, item], "maxItems": 3})
        return longer | altered(first).map(lambda made: {**schema, "prefixItems": [made, *rest]})
    return SCALARS


@settings(max_examples=300)
@given(st.data(), SCHEMAS)
def test_whatever_is_written_fits_if_there_are_no_mismatches(
    data: st.DataObject, source: dict[str, Any]
) -> None:
    """A target that mismatches nothing accepts each value of the source, as jsonschema judges (SR-80)."""
    target = data.draw(altered(source) | SCHEMAS)
    if not mismatches(source, target, lossless=False):
        for value in data.draw(st.lists(values_of(source), min_size=1, max_size=4)):
            assert Draft202012Validator(target).is_valid(value), value


@given(SCHEMAS, SCHEMAS)
def test_a_schema_fits_itself_and_a_union_with_it(source: dict[str, Any], other: dict[str, Any]) -> None:
    """Nothing is a mismatch of a schema and itself; what fits a target fits a union that has it, and the reasons are few."""
    assert mismatches(source, source, lossless=True) == []
    assert mismatches(source, {"anyOf": [other, source]}, lossless=True) == []
    found = mismatches(source, other, lossless=True)
    assert len(set(found)) == len(found) <= MAX_MISMATCHES
    assert bool(found) or not mismatches(source, other, lossless=False)
