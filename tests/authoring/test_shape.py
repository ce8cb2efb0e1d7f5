"""Shape: a Python type as JSON Schema, with its decoder and encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, RootModel, ValidationError, WithJsonSchema, field_serializer
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

from sojourn import Toolset
from sojourn.authoring.shape import Shape, as_payload
from sojourn.errors import DefinitionError


class Model(BaseModel):
    """A query."""

    site: Annotated[str, Field(description="Where.", min_length=1)]
    since: datetime | None = None


class Other(BaseModel):
    device: str


class Nested(BaseModel):
    inner: list["Nested"] = []


@dataclass
class Data:
    """A query."""

    site: Annotated[str, Field(description="Where.", min_length=1)]
    since: datetime | None = None


class Typed(TypedDict):
    """A query."""

    site: Annotated[str, Field(description="Where.", min_length=1)]


@pytest.mark.parametrize("source", [Model, Data, Typed], ids=lambda kind: kind.__name__)
def test_a_type_becomes_a_closed_schema(source: type) -> None:
    """Pydantic models, dataclasses and TypedDicts give the schema with constraints and descriptions (SR-126)."""
    spec = Shape(source, place="x").spec
    assert spec.name == source.__name__
    assert spec.json_schema["properties"]["site"] == {
        "description": "Where.", "minLength": 1, "title": "Site", "type": "string"
    }  # fmt: skip
    assert spec.json_schema["required"] == ["site"]
    assert spec.json_schema["additionalProperties"] is False
    assert spec.field_descriptions == {"site": "Where."}


def test_a_result_is_left_open() -> None:
    """The schema of a result allows further fields; only that of a payload is closed."""
    assert "additionalProperties" not in Shape(Model, place="x", output=True).spec.json_schema


def test_a_result_is_described_as_it_is_written() -> None:
    """The schema of a result is that of its JSON, also where a serializer changes the type."""

    class Reading(BaseModel):
        at: datetime

        @field_serializer("at")
        def seconds(self, value: datetime) -> float:
            return value.timestamp()

    shape = Shape(Reading, place="x", output=True)
    assert shape.spec.json_schema["properties"]["at"]["type"] == "number"
    assert shape.encode(Reading(at=datetime(1970, 1, 1, 0, 1, tzinfo=UTC))) == {"at": 60.0}


def test_values_are_decoded_and_encoded() -> None:
    """A payload becomes the author's type, a result becomes JSON checked against it (SR-127)."""
    shape = Shape(Data, place="x")
    value = shape.decode({"site": "s-1", "since": "2024-01-01T00:00:00Z"})
    assert value == Data("s-1", datetime(2024, 1, 1, tzinfo=UTC))
    assert shape.encode(value) == {"site": "s-1", "since": "2024-01-01T00:00:00Z"}
    assert shape.encode({"site": "s-1"}) == {"site": "s-1", "since": None}
    for refused in (shape.decode, shape.encode):
        with pytest.raises(ValidationError):
            refused({"site": ""})


class Opaque:
    pass


@pytest.mark.parametrize("source", [Opaque, list[Opaque], Callable[[], int]], ids=str)
def test_a_type_without_a_schema_is_refused(source: Any) -> None:
    """A type without a JSON Schema is a `DefinitionError` that begins with its place."""
    with pytest.raises(DefinitionError, match=r"^ops\.x\.y: .*has no JSON Schema"):
        Shape(source, place="ops.x.y")


def test_a_schema_that_cannot_be_enforced_is_refused() -> None:
    """A schema that the validator does not support is refused at import, with its place."""
    source = Annotated[str, Field(json_schema_extra={"$dynamicRef": "#x"})]
    with pytest.raises(DefinitionError, match=r"^ops\.x\.y: at #.*dynamicRef"):
        Shape(source, place="ops.x.y")


def test_a_schema_whose_reference_is_not_found_is_refused() -> None:
    """A schema that an author wrote, with a reference that pydantic does not follow, is refused at import, with its place."""
    schema = {
        "type": "object",
        "properties": {"by": {"$ref": "#/$defs/By"}},
        "$defs": {"By": {"type": "string"}},
    }
    source = Annotated[dict[str, Any], WithJsonSchema(schema)]
    with pytest.raises(DefinitionError, match=r"^ops\.x\.y: .*reference '#/\$defs/By'"):
        Shape(source, place="ops.x.y")


def test_a_payload_is_an_object(subtests: pytest.Subtests) -> None:
    """A payload type that is no object with named fields is refused at import."""
    rows = [str, list[Model], int | None, RootModel[list[int]], Any]
    for source in rows:
        with (
            subtests.test(source=source),
            pytest.raises(DefinitionError, match="a payload must be an object with named fields"),
        ):
            Shape(source, place="ops.x.y")


@pytest.mark.parametrize("source", [Model | Other, dict[str, int], Nested], ids=str)
def test_a_payload_may_be_a_choice_of_objects(source: Any) -> None:
    """Unions, free-form objects and types that refer to themselves are payloads."""
    assert Shape(source, place="x").spec.json_schema


def test_a_shape_is_named_after_its_type_or_by_its_name() -> None:
    """A generic type is named after its origin, a union by its text; `name` overrides both."""
    assert Shape(list[int], place="x", output=True).spec.name == "list"
    for union in (int | None, Optional[int], Union[int, None]):  # noqa: UP007, UP045 - until 3.14 they are other types
        assert Shape(union, place="x", output=True).spec.name == "int | None"
    assert Shape(list[int] | UUID, place="x", output=True).spec.name == "list[int] | uuid.UUID"
    assert Shape(int, name="Count", place="x", output=True).spec.name == "Count"


def test_a_typed_call_is_json() -> None:
    """A model becomes the fields that were set, any other value its JSON; nothing is validated yet."""
    at = datetime(2024, 1, 1, tzinfo=UTC)
    assert as_payload((Model(site="s-1"),), {}) == {"site": "s-1"}
    assert as_payload((Model(site="s-1", since=at),), {}) == {"site": "s-1", "since": "2024-01-01T00:00:00Z"}
    assert as_payload((Data("s-1"),), {}) == {"site": "s-1", "since": None}
    assert as_payload(({"site": "s-1"},), {"limit": 3}) == {"site": "s-1", "limit": 3}
    assert as_payload((), {"since": at}) == {"since": "2024-01-01T00:00:00Z"}


def test_a_typed_call_and_a_result_are_written_by_the_names_of_the_schema() -> None:
    """A field with an alias has that name for planners: in the schema, in a call made of the model, in a result."""

    class Aliased(BaseModel):
        site: str = Field(alias="siteId")

    shape, value = Shape(Aliased, place="x"), Aliased(siteId="s-1")
    assert list(shape.spec.json_schema["properties"]) == ["siteId"]
    assert as_payload((value,), {}) == shape.encode(value) == {"siteId": "s-1"}
    assert shape.decode({"siteId": "s-1"}) == value


def test_a_typed_call_by_keyword_is_written_by_the_names_of_the_schema() -> None:
    """A parameter with an alias is passed by its own name, and written under the alias."""
    tools = Toolset("test.tools")

    @tools.tool
    async def look(site: Annotated[str, Field(alias="siteId")], limit: int = 1) -> str:
        """Look at a site."""
        return site

    call = look.call(site="s-1", limit=2)
    assert call.payload == {"siteId": "s-1", "limit": 2}
    assert look.validator.issues(call.payload) == []


def test_a_strict_type_is_decoded_from_json() -> None:
    """Dates, UUIDs and sets are strings and arrays in JSON, which a strict model accepts from JSON only."""

    class Strict(BaseModel, strict=True):
        at: datetime
        id: UUID
        tags: set[str]

    payload = {"at": "2024-01-31T09:30:00Z", "id": "00000000-0000-4000-8000-000000000000", "tags": ["a"]}
    decoded = Shape(Strict, place="x").decode(payload)
    assert (decoded.at.year, decoded.id.int & 1, decoded.tags) == (2024, 0, {"a"})
    with pytest.raises(ValidationError, match="tags"):
        Shape(Strict, place="x").decode({**payload, "tags": [1]})
