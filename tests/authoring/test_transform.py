"""Transform: converts values of one shape into another; whether the shapes fit is decided at declaration.

`SOJOURN_CASES=500 pytest tests/authoring/test_transform.py` tries as many pairs of shapes.
"""

import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SecretStr,
    ValidationError,
    computed_field,
    create_model,
)
from pydantic.errors import PydanticInvalidForJsonSchema
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

from sojourn.authoring.shape import Shape, Transform
from sojourn.core.schema.compatibility import mismatches
from sojourn.errors import DefinitionError


def to_method(source: Any, target: Any) -> Transform:
    """Return the transform from a tool's arguments to a method's payload."""
    shapes = (Shape(each, place="x") for each in (source, target))
    return Transform(*shapes, place="ops.search.search", lossless=True)


def to_result(source: Any, target: Any) -> Transform:
    """Return the transform from a method's result to a tool's."""
    shapes = (Shape(each, place="x", output=True) for each in (source, target))
    return Transform(*shapes, place="ops.search.search", lossless=False)


class SearchArgs(BaseModel):
    site: str
    status: str = "online"
    limit: int = 50


@dataclass
class SearchPayload:
    site: str
    limit: float
    status: str | None = None
    trace: str = ""


class SearchRequest(BaseModel):
    site: str
    status: Literal["online", "offline"]
    since: datetime


class Device(BaseModel):
    id: UUID
    seen: datetime
    password: SecretStr = SecretStr("x")
    note: str | None = None


class Devices(BaseModel):
    devices: list[Device]
    tags: list[str] = Field(default_factory=list)
    cursor: str = ""


class Seen(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: UUID
    seen: datetime


class DevicesSeen(BaseModel):
    model_config = ConfigDict(extra="forbid")
    devices: tuple[Seen, ...]
    tags: list[str]


class DeviceIds(TypedDict):
    devices: list[dict[str, Any]]


DEVICE = Device(id=UUID(int=7), seen=datetime(2024, 1, 1, tzinfo=UTC))


def test_arguments_become_the_methods_payload() -> None:
    """Fields are mapped by name, with the defaults of the arguments and then of the payload (SR-80, SR-32)."""
    transform = to_method(SearchArgs, SearchPayload)
    assert transform(SearchArgs(site="s-1")) == SearchPayload("s-1", 50.0, "online")
    assert transform({"site": "s-1", "limit": 3}) == SearchPayload("s-1", 3.0, "online")


def test_a_methods_result_becomes_the_tools() -> None:
    """Fields that the tool's result lacks are dropped at every level, also where it forbids extra fields (SR-80)."""
    seen = to_result(Devices, DevicesSeen)(Devices(devices=[DEVICE], cursor="next"))
    assert seen == DevicesSeen(devices=(Seen(id=DEVICE.id, seen=DEVICE.seen),), tags=[])
    (shown,) = to_result(Devices, DeviceIds)({"devices": [DEVICE]})["devices"]
    assert shown["id"] == str(DEVICE.id)
    assert shown["password"] == "**********"


def test_a_misfit_is_a_definition_error() -> None:
    """The message names the place, both types, each field and the remedy (SR-82)."""
    with pytest.raises(DefinitionError) as raised:
        to_method(SearchArgs, SearchRequest)
    assert str(raised.value) == (
        "ops.search.search: SearchArgs does not fit SearchRequest: since: missing in SearchArgs; "
        'status: string does not fit enum ["online", "offline"]; limit: unknown to SearchRequest; '
        "convert by hand"
    )
    with pytest.raises(DefinitionError, match=r"list does not fit list: \[\]: .*; convert by hand"):
        to_result(list[str], list[int])


def test_arguments_may_lose_no_field_where_results_may() -> None:
    """A target with fewer fields is a mismatch for arguments, and a smaller view for a result."""
    with pytest.raises(DefinitionError, match=r"devices\[\]\.password: unknown to Seen"):
        to_method(Devices, DevicesSeen)
    with pytest.raises(DefinitionError, match="password: is masked when it is written"):
        to_method(Device, create_model("Same", __base__=Device))


def test_the_same_type_is_only_decoded() -> None:
    """With one type on both sides, typed values pass unchanged, JSON is decoded, and secrets stay."""
    transform = to_method(Device, Device)
    assert transform(DEVICE) is DEVICE
    assert transform(DEVICE.model_dump(mode="json")).seen == DEVICE.seen
    assert to_result(list[int], list[int])([1]) == [1]
    assert to_result(Any, Any)(DEVICE) is DEVICE


def test_a_value_may_still_be_refused() -> None:
    """Bounds and validators of the method are applied to each value; a result of another type is refused."""
    bounded = create_model("Bounded", site=str, status=str, limit=(Annotated[int, Field(le=500)], ...))
    transform = to_method(SearchArgs, bounded)
    assert transform(SearchArgs(site="s")).limit == 50
    with pytest.raises(ValidationError, match="limit"):
        transform(SearchArgs(site="s", limit=501))
    with pytest.raises(ValidationError, match="devices"):
        to_result(Devices, DevicesSeen)({"device": []})


@dataclass
class Made:
    items: list[int] = field(default_factory=list)


class Sometimes(BaseModel):
    note: str = Field(default="", exclude_if=lambda note: not note)


class Part(TypedDict, total=False):
    note: str


def test_fields_that_may_be_absent_are_known() -> None:
    """A field with a factory is always written; a field with `exclude_if`, or not required, may be absent."""
    assert to_result(Made, create_model("Items", items=(list[int], ...)))(Made()).items == []
    noted = create_model("Noted", note=(str, ...))
    for source in (Sometimes, Part):
        with pytest.raises(DefinitionError, match="note: may be absent in"):
            to_result(source, noted)
    assert to_result(Sometimes, create_model("Perhaps", note=(str, "-")))(Sometimes()).note == "-"


def test_names_are_those_of_the_json() -> None:
    """Fields are matched by their aliases: what is written under a name is read under it."""
    source = create_model("Source", site_id=(str, Field(serialization_alias="siteId")))
    target = create_model("Target", site=(str, Field(validation_alias="siteId")))
    assert to_result(source, target)(source(site_id="s-1")).site == "s-1"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    site: str


def test_open_objects_keep_what_they_allow() -> None:
    """A target that allows extra fields gets them; arguments do so also where another part of the target forbids them."""
    assert to_result(SearchArgs, Open)(SearchArgs(site="s")).model_extra == {"status": "online", "limit": 50}
    source = create_model("Source", where=(Open, ...))
    target = create_model("Closed", __config__=ConfigDict(extra="forbid"), where=(Open, ...))
    assert to_method(source, target)(source(where=Open(site="s", x=1))).where.model_extra == {"x": 1}


def test_a_computed_field_of_arguments_may_be_unknown() -> None:
    """A computed field of arguments may be unknown to the method; a payload that forbids extra fields does not get it."""

    class Computing(BaseModel):
        site: str

        @computed_field
        @property
        def upper(self) -> str:
            return self.site.upper()

    for extra in ("ignore", "forbid"):
        target = create_model("Target", __config__=ConfigDict(extra=extra), site=(str, ...))
        assert to_method(Computing, target)({"site": "s"}).site == "s"
    shouting = create_model("Shouting", upper=(str, ...))
    assert to_result(Computing, shouting)(Computing(site="s")).upper == "S"


def test_a_type_with_one_schema_only_is_a_definition_error() -> None:
    """A type whose schema exists for writing only is refused as a target; the error says to convert by hand."""

    class WriteOnly:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler(str)

        @classmethod
        def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
            if handler.mode == "validation":
                raise PydanticInvalidForJsonSchema("is only written")
            return handler(core)

    with pytest.raises(
        DefinitionError, match=r"str does not fit WriteOnly: no JSON Schema \(is only.*convert by hand"
    ):
        to_result(str, WriteOnly)


class Color(Enum):
    RED = "red"
    BLUE = 2


Kind = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and its values."""

PLAIN: list[Kind] = [
    (int, st.integers(-(10**9), 10**9)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    (bool, st.booleans()),
    (datetime, st.datetimes(timezones=st.none() | st.just(UTC))),
    (date, st.dates()),
    (UUID, st.uuids()),
    (Color, st.sampled_from(Color)),
    (Literal["red", "blue"], st.sampled_from(["red", "blue"])),
    (Literal["red"], st.just("red")),
    (Any, st.none() | st.integers() | st.lists(st.booleans(), max_size=2)),
]


def _wrapped(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    return st.one_of(
        kinds.map(lambda kind: (kind[0] | None if kind[0] is not Any else Any, kind[1] | st.none())),
        kinds.map(lambda kind: (list[kind[0]], st.lists(kind[1], max_size=2))),
        kinds.map(lambda kind: (dict[str, kind[0]], st.dictionaries(st.sampled_from("abc"), kind[1]))),
        st.tuples(kinds, kinds).map(lambda both: (tuple[both[0][0], both[1][0]], st.tuples(both[0][1], both[1][1]))),
        models(kinds),
    )  # fmt: skip


@st.composite
def made_of(draw: st.DrawFn, kinds: dict[str, Kind]) -> Kind:
    """A model of some fields, some of them with a default, and its instances."""
    defaults = {name: draw(st.just(...) | values) for name, (_, values) in kinds.items()}
    config = ConfigDict(extra=draw(st.sampled_from(["ignore", "forbid", "allow"])))
    fields: Any = {name: (kind, defaults[name]) for name, (kind, _) in kinds.items()}
    model = create_model("Made", __config__=config, **fields)
    always = {name: values for name, (_, values) in kinds.items() if defaults[name] is ...}
    rest = {name: values for name, (_, values) in kinds.items() if name not in always}
    return model, st.fixed_dictionaries(always, optional=rest).map(lambda given: model(**given))


def models(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Models of up to three fields called a, b, c."""
    return st.dictionaries(st.sampled_from("abc"), kinds, max_size=3).flatmap(made_of)


@st.composite
def related(draw: st.DrawFn) -> tuple[Kind, Kind]:
    """Two models; many fields of the second are those of the first, or have a wider type."""
    source = draw(st.dictionaries(st.sampled_from("abc"), KINDS, min_size=1, max_size=3))
    target: dict[str, Kind] = {}
    names = draw(st.just(list(source)) | st.sets(st.sampled_from(list(source)), min_size=1))
    for name in names:
        kind, values = source[name]
        wider = [(kind, values), (Any, values)] + (
            [] if kind is Any else [(kind | None, values), (bool | kind, values)]
        )
        target[name] = draw(st.sampled_from(wider) | KINDS)
    target |= draw(st.dictionaries(st.just("d"), KINDS))  # fits where it has a default
    return draw(made_of(source)), draw(made_of(target))


KINDS = st.recursive(st.sampled_from(PLAIN), _wrapped, max_leaves=4)
# Every draw makes model classes, which takes milliseconds; of the pairs drawn, more do not fit than do.
SLOW = settings(
    max_examples=int(os.environ.get("SOJOURN_CASES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@SLOW
@given(related(), st.booleans(), st.data())
def test_values_of_fitting_shapes_are_transformed(
    pair: tuple[Kind, Kind], lossless: bool, data: st.DataObject
) -> None:
    """Where there is no mismatch, every value of the source becomes one of a target without constraints."""
    shapes = [Shape(kind, place="x", output=True) for kind, _ in pair]
    try:
        transform = Transform(*shapes, place="x", lossless=lossless)
    except DefinitionError:
        assume(False)
    value = data.draw(pair[0][1])
    written, read = (
        shape.encode(each) for shape, each in zip(shapes, (value, transform(value)), strict=True)
    )
    known = {name: each for name, each in written.items() if name in read or lossless}
    assert {name: read[name] for name in known if not isinstance(known[name], (dict, list))} == {
        name: each for name, each in known.items() if not isinstance(each, (dict, list))
    }


@SLOW
@given(models(KINDS), st.data())
def test_values_of_equal_shapes_are_transformed_without_loss(source: Kind, data: st.DataObject) -> None:
    """Two types with the same fields fit each other both ways, and nothing changes (SR-80)."""
    kind, values = source
    fields = {name: (each.annotation, each.default if not each.is_required() else ...)
              for name, each in kind.model_fields.items()}  # fmt: skip
    twin: Any = create_model("Twin", __config__=kind.model_config, **fields)
    value = data.draw(values)
    there = Transform(Shape(kind, place="x"), Shape(twin, place="x"), place="x", lossless=True)(value)
    back = Transform(Shape(twin, place="x"), Shape(kind, place="x"), place="x", lossless=True)(there)
    assert (
        Shape(kind, place="x").encode(value)
        == Shape(twin, place="x").encode(there)
        == Shape(kind, place="x").encode(back)
    )
    assert (
        mismatches(kind.model_json_schema(mode="serialization"), twin.model_json_schema(), lossless=True)
        == []
    )
