"""Names of a map that a type takes for one key: refused, since one of two approved values would be lost."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)
from typing_extensions import TypedDict

from sojourn.authoring.shape import Shape
from sojourn.core.payload.boundary import issues_of
from sojourn.core.payload.parse import merged_name


class Inner(BaseModel):
    prices: dict[int, str] = Field(alias="the prices")


@dataclass
class Row:
    days: dict[date, int]


class Typed(TypedDict):
    n: dict[int, str]


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
]
TAKEN: list[tuple[Any, Any]] = [
    (dict[int, str], {"1": "a", "2": "b"}),
    (dict[str, int], {"A": 1, "a": 2}),
    (set[int], [1, 1]),
    (Annotated[dict[str, int], AfterValidator(_few)], {"a": 1, "b": 2}),
    (Any, PRICES),
    (Row | None, {"days": {"2026-12-01": 1}}),
]


@pytest.mark.parametrize(
    ("source", "sent", "place"), REFUSED, ids=[each[2] or str(each[0]) for each in REFUSED]
)
def test_two_names_that_would_be_one_are_refused(source: Any, sent: Any, place: str) -> None:
    """A payload that would lose a value when it is decoded is refused, with the place and one of the names."""
    shape = Shape(create_model("Args", x=source), place="here")
    with pytest.raises(ValidationError) as raised:
        shape.decode({"x": sent})
    (issue,) = issues_of(raised.value)
    assert issue.field == f"/x{place}"
    assert "is the same as another one of its names" in (issue.expected_type or "")
    assert not shape.takes({"x": sent})


@pytest.mark.parametrize(("source", "sent"), TAKEN)
def test_nothing_else_is_refused(source: Any, sent: Any) -> None:
    """Names that differ are kept, also where only their case differs; an author's validator may drop entries."""
    shape = Shape(create_model("Args", x=(source, ...)), place="here")
    assert shape.decode({"x": sent})
    assert merged_name(sent, TypeAdapter(source).validate_python(sent)) is None
