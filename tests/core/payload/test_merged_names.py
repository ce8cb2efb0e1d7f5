"""Names of a map that a type takes for one key: refused, since one of two approved values would be lost."""

import json
from collections import deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    Json,
    RootModel,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)
from typing_extensions import TypedDict

from sojourn.authoring.shape import Shape
from sojourn.core.payload.boundary import issues_of
from sojourn.core.payload.parse import find_merged_name


class Inner(BaseModel):
    prices: dict[int, str] = Field(alias="the prices")


@dataclass
class Row:
    days: dict[date, int]


class Typed(TypedDict):
    n: dict[int, str]


class Pair(NamedTuple):
    a: dict[int, str]
    b: int


def _few(entries: dict[str, int]) -> dict[str, int]:
    return {"a": entries["a"]}


Lower = Annotated[str, StringConstraints(to_lower=True)]
PRICES = {"1": "10 EUR", "01": "99 EUR"}
REFUSED: list[tuple[Any, Any, str]] = [
    (dict[int, str], PRICES, ""),
    (dict[str, dict[int, str]], {"a": {"1": "x"}, "b": PRICES}, "/b"),
    (list[Inner], [{"the prices": PRICES}], "/0/the prices"),
    (Row, {"days": {"2026-12-01": 1, "2026-12-01T00:00:00": 2}}, "/days"),
    (Typed, {"n": PRICES}, "/n"),
    (dict[Lower, int], {"A": 1, "a": 2}, ""),
    (tuple[dict[float, int], int], [{"1": 1, "1.0": 2}, 3], "/0"),
    (RootModel[dict[int, str]], PRICES, ""),
    (RootModel[list[dict[int, str]]], [PRICES], "/0"),
    (deque[dict[int, str]], [PRICES], "/0"),
    (Json[dict[int, str]], json.dumps(PRICES), ""),
    (list[Json[Row]], [json.dumps({"days": {"2026-12-01": 1, "2026-12-01T00:00:00": 2}})], "/0/days"),
    (Json[dict[str, int]], '{"a": 1, "a": 2}', ""),
    (Pair, {"a": PRICES, "b": 1}, "/a"),
]
TAKEN: list[tuple[Any, Any]] = [
    (dict[int, str], {"1": "a", "2": "b"}),
    (dict[str, int], {"A": 1, "a": 2}),
    (set[int], [1, 1]),
    (Annotated[dict[str, int], AfterValidator(_few)], {"a": 1, "b": 2}),
    (Any, PRICES),
    (Row | None, {"days": {"2026-12-01": 1}}),
]


def test_two_names_that_would_be_one_are_refused(subtests: pytest.Subtests) -> None:
    """A payload that would lose a value when it is decoded is refused, with the place and one of the names."""
    for source, sent, place in REFUSED:
        with subtests.test(f"{source} {place} {sent}"):
            shape = Shape(create_model("Args", x=source), place="here")
            with pytest.raises(ValidationError) as raised:
                shape.decode({"x": sent})
            (issue,) = issues_of(raised.value)
            assert issue.field == f"/x{place}"
            assert "is the same as another one of its names" in (issue.expected_type or "")
            assert not shape.takes({"x": sent})


def test_nothing_else_is_refused(subtests: pytest.Subtests) -> None:
    """Names that differ are kept, also where only their case differs; an author's validator may drop entries."""
    for source, sent in TAKEN:
        with subtests.test(source=source, sent=sent):
            shape = Shape(create_model("Args", x=(source, ...)), place="here")
            assert shape.decode({"x": sent})
            assert find_merged_name(sent, TypeAdapter(source).validate_python(sent)) is None


LONG = 90071992547409931
ROUNDED: list[tuple[Any, Any, str]] = [
    (float, LONG, ""),
    (float | None, 2**53 + 1, ""),
    (float, "9007199254740993", ""),
    (float, "0.10000000000000000001", ""),
    (list[float], [1, LONG], "/1"),
    (set[float], [1, LONG], "/1"),
    (Annotated[float, AfterValidator(int)], LONG, ""),
    (dict[float, int], {"9007199254740993": 1}, ""),
    (dict[float, int], {"1e400": 1}, ""),
    (RootModel[list[float]], [LONG], "/0"),
    (Json[list[float]], f"[{LONG}]", "/0"),
]
EXACT: list[tuple[Any, Any]] = [
    (float, 2**53),
    (float, 90071992547409936),
    (float, 0.5),
    (float, "0.1"),
    (float, "12.50"),
    (int, LONG),
    (int | float, LONG),
    (Decimal, LONG),
    (str, str(LONG)),
    (dict[float, int], {"0.1": 1, "1.50": 2}),
    (Annotated[float, AfterValidator(lambda each: min(each, 1.0))], LONG),
]


def test_a_number_whose_digits_would_change_is_refused(subtests: pytest.Subtests) -> None:
    """A person approves all digits that were sent, so no tool runs with the nearest number that a float holds."""
    for source, sent, place in ROUNDED:
        with subtests.test(source=source, sent=sent, place=place):
            shape = Shape(create_model("Args", x=source), place="here")
            with pytest.raises(ValidationError) as raised:
                shape.decode({"x": sent})
            (issue,) = issues_of(raised.value)
            assert (issue.field, issue.constraint) == (f"/x{place}", "rejected")
            assert "would change" in (issue.expected_type or "")


def test_a_number_that_keeps_its_digits_is_taken(subtests: pytest.Subtests) -> None:
    """A number that its type holds is taken, in whatever form, and so is one that the author's validator bounds."""
    for source, sent in EXACT:
        with subtests.test(source=source, sent=sent):
            Shape(create_model("Args", x=(source, ...)), place="here").decode({"x": sent})
