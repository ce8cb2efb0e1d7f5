"""Compatibility of two schemas: the reasons by field that a written value may not fit, and none where every value fits."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired
from uuid import UUID

import pytest
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
