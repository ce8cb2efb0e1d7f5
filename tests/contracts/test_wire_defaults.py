"""The wire: defaults never change, records ignore unknown fields, and every contract is read back as it was written.

Defaults are left out on the wire, so a default is part of every history ever written.
`python tests/contracts/test_wire_defaults.py` adds new fields to the snapshot; it never changes
what is in it. (Only before the first release may the file be deleted, and made anew.)
"""

import importlib
import json
import os
import pkgutil
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from temporalio.api.common.v1 import Payload

import sojourn.contracts
from sojourn import (
    ApprovalPolicy,
    ApprovalRule,
    AttachmentLimits,
    AwaitClarification,
    AwaitExternalTools,
    ExternalCall,
    Message,
    PlanResult,
    RunPolicy,
    RunPolicyOverride,
    SessionPolicy,
    TenantQuota,
    ToolResult,
    data_converter,
)
from sojourn.contracts import ToolId, message, tasks
from sojourn.contracts.event import BaseEvent
from sojourn.contracts.record import Declaration, Input, Record
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_spec import Retry
from sojourn.errors import DefinitionError
from sojourn.policy import PolicyDecision

CASES = int(os.environ.get("SOJOURN_CASES", "10"))
"""How many instances of each contract are written and read."""

SNAPSHOT = Path(__file__).with_name("wire_defaults.json")
UPDATE = "python tests/contracts/test_wire_defaults.py"
REQUIRED = "(required)"
IN_FULL = "(always written)"
WRITTEN_IN_FULL = (ApprovalPolicy, RunPolicy)


def kinds_of(parent: type[BaseModel]) -> list[type[BaseModel]]:
    return [kind for child in parent.__subclasses__() for kind in (child, *kinds_of(child))]


def contracts() -> dict[str, type[BaseModel]]:
    """Every contract, by name."""
    for module in pkgutil.iter_modules(sojourn.contracts.__path__, "sojourn.contracts."):
        importlib.import_module(module.name)
    found = {
        kind.__name__: kind for kind in kinds_of(Record) if kind.__module__.startswith("sojourn.contracts.")
    }
    abstract = ("Input", "Declaration", "BaseEvent")
    return {name: found[name] for name in sorted(found) if not name.startswith("_") and name not in abstract}


CONTRACTS = contracts()
INPUTS = [kind for kind in CONTRACTS.values() if issubclass(kind, Input)]


def wire_name(kind: type[BaseModel], name: str) -> str:
    return kind.model_fields[name].serialization_alias or name


def default_of(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True, validated_data={})


def defaults_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The fields of a contract by their wire names, each with its default as JSON."""
    defaults: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        default = REQUIRED if field.is_required() else to_jsonable_python(default_of(field))
        defaults[wire_name(kind, name)] = IN_FULL if kind in WRITTEN_IN_FULL else default
    return defaults


@cache
def snapshot() -> dict[str, dict[str, Any]]:
    return json.loads(SNAPSHOT.read_text()) if SNAPSHOT.exists() else {}


def update() -> None:
    """Add new contracts and fields to the snapshot."""
    stored = snapshot()
    for name, kind in CONTRACTS.items():
        stored[name] = {**defaults_of(kind), **stored.get(name, {})}
    SNAPSHOT.write_text(json.dumps(dict(sorted(stored.items())), indent=2, ensure_ascii=False) + "\n")


# Defaults and fields never change.


def test_a_contract_or_field_on_the_wire_never_goes() -> None:
    """Every contract and field of the snapshot exists."""
    now = {name: defaults_of(kind) for name, kind in CONTRACTS.items()}
    lost = {
        name: missing
        for name, fields in snapshot().items()
        if (missing := fields.keys() - now.get(name, {}).keys()) or name not in now
    }
    assert not lost, (
        f"{lost} are in stored histories: a contract or field is never removed or renamed; "
        "keep it, and add another beside it"
    )


def test_a_default_on_the_wire_never_changes() -> None:
    """Every field of the snapshot has its stored default, which histories leave out."""
    changed = {
        f"{name}.{field}": f"was {default!r} and is {now[field]!r}"
        for name, fields in snapshot().items()
        if (now := defaults_of(CONTRACTS[name]))
        for field, default in fields.items()
        if not _has_same_meaning(now[field], default)
    }
    assert not changed, (
        f"defaults have changed: {changed}. Defaults are left out on the wire, "
        "so that a default never changes: every history written before would be read with the new one. "
        "Keep it, and set the new value where the record is made."
    )


def _has_same_meaning(now: Any, stored: Any) -> bool:
    """Whether a default is the stored one; a record in it may have new fields, each with its own default."""
    if isinstance(now, dict) and isinstance(stored, dict) and stored:
        return all(name in now and _has_same_meaning(now[name], stored[name]) for name in stored)
    return now == stored


def test_every_field_is_in_the_snapshot() -> None:
    """A new field needs a default that means the behaviour before it existed, and an entry in the snapshot."""
    new = {
        f"{name}.{field}": default
        for name, kind in CONTRACTS.items()
        for field, default in defaults_of(kind).items()
        if field not in snapshot().get(name, {})
    }
    assert not new, (
        f"new fields: {new}. Give each a default that means what histories without it meant "
        f"(a required one could not be read from them), then run `{UPDATE}`."
    )


def test_every_field_is_described() -> None:
    """Each contract and each field has a docstring, which is also its description in the JSON Schema.

    A discriminator needs none, nor does a task of an activity, which is in no schema.
    """
    assert [name for name, kind in CONTRACTS.items() if not kind.__doc__] == []
    assert [
        f"{kind.__name__}.{name}"
        for kind in CONTRACTS.values()
        for name, field in kind.model_fields.items()
        if not field.description and name != "type" and kind.__module__ != tasks.__name__
    ] == []


def test_every_contract_is_frozen() -> None:
    """Each contract is an immutable pydantic model."""
    assert [name for name, kind in CONTRACTS.items() if kind.model_config.get("frozen") is not True] == []


# Unknown fields.


def to_wire(value: Any) -> bytes:
    (payload,) = data_converter.payload_converter.to_payloads([value])
    assert payload.metadata == {"encoding": b"json/plain"}
    return payload.data


def from_wire(data: bytes, kind: Any) -> Any:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
    (value,) = data_converter.payload_converter.from_payloads([payload], [kind])
    return value


def test_an_input_refuses_a_misspelt_field(subtests: pytest.Subtests) -> None:
    """An input from a person, planner or client raises a ValidationError for an unknown field; an author's class a DefinitionError."""
    for kind in INPUTS:
        with subtests.test(str(kind)):
            declared = issubclass(kind, Declaration)
            refused, message = (
                (DefinitionError, "no field max_tool_cals")
                if declared
                else (ValidationError, "Extra inputs are not permitted")
            )
            with pytest.raises(refused, match=message):
                kind(max_tool_cals=3)
            with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
                kind.model_validate({"max_tool_cals": 3})


def test_the_inputs_are_the_records_that_users_write() -> None:
    """All other records are written and read by Sojourn alone, or read field by field."""
    assert set(INPUTS) == {
        ApprovalPolicy,
        ApprovalRule,
        AttachmentLimits,
        AwaitClarification,
        AwaitExternalTools,
        ExternalCall,
        PolicyDecision,
        PlanResult,
        Retry,
        RunPolicy,
        RunPolicyOverride,
        SessionPolicy,
        TenantQuota,
    }


@pytest.mark.parametrize(
    "task",
    [
        PlanOutcome(policy=RunPolicy(max_tool_calls=3)),
        PlanOutcome(await_=AwaitClarification(question="Which site?")),
        PlanTask(agent_id="a.b", override=RunPolicyOverride(max_depth=2)),
    ],
    ids=["policy", "question", "override"],
)
def test_an_older_worker_reads_an_input_of_a_newer_worker(task: BaseModel) -> None:
    """In a record, an unknown field of an input is ignored: during a deploy old and new workers share a task queue."""
    newer = json.loads(to_wire(task))
    for value in newer.values():
        if isinstance(value, dict):
            value["later"] = {"a": 1}
    assert from_wire(json.dumps(newer).encode(), type(task)) == task


def test_an_input_in_a_record_has_to_be_an_object() -> None:
    """Only unknown fields are ignored: a question that is no object is refused."""
    with pytest.raises(ValidationError, match="await"):
        from_wire(b'{"await": ["x"]}', PlanOutcome)


def test_a_part_of_an_unknown_kind_survives() -> None:
    """A message part of a newer version is read and written unchanged."""
    data = b'{"role":"user","parts":[{"provider_metadata":{"k":1},"type":"hologram","beams":[1,{"a":null}],"text":"x"}]}'
    assert to_wire(from_wire(data, Message)) == data


def test_the_type_of_a_part_selects_its_class(subtests: pytest.Subtests) -> None:
    """`type` selects the class of a message part, and is always written."""
    rows = [
        ({"type": "text", "text": "x"}, message.TextPart),
        ({"type": "tool_call", "tool_call_id": "c", "name": "n"}, message.ToolCallPart),
        ({"type": "tool_result", "result": {}}, message.ToolResultPart),
        ({"type": "thinking"}, message.ThinkingPart),
        ({"type": "image", "media_type": "image/png"}, message.ImagePart),
        ({"type": "document", "media_type": "application/pdf"}, message.DocumentPart),
        ({"type": "later"}, message.OtherPart),
    ]
    for data, kind in rows:
        with subtests.test(data=data, kind=kind):
            (part,) = Message.model_validate({"role": "user", "parts": [data]}).parts
            assert type(part) is kind
            assert json.loads(to_wire(Message(role="user", parts=[part])))["parts"] == [data]


def test_a_part_without_a_type_is_refused() -> None:
    """A message part that has no `type`, or is no object, raises a ValidationError."""
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "user", "parts": [{"text": "x"}]})
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "user", "parts": ["x"]})


def test_await_and_wait_are_the_wire_names() -> None:
    """`await_` and `wait_` are written, and can be read, as `await` and `wait`."""
    plan = PlanResult(await_=AwaitClarification(question="?"), wait_=timedelta(seconds=90))
    assert json.loads(to_wire(plan)) == {"await": {"question": "?"}, "wait": "PT1M30S"}
    assert PlanResult.model_validate({"await": {"question": "?"}, "wait": "PT1M30S"}) == plan


def test_a_policy_is_written_in_full() -> None:
    """A recorded policy holds all fields, so a later default does not change it."""
    data = json.loads(to_wire(PlanOutcome(policy=RunPolicy())))
    assert list(data["policy"]) == list(RunPolicy.model_fields)


def test_a_null_result_is_a_result() -> None:
    """The result None is left out on the wire and read back as a success."""
    assert to_wire(ToolResult(name="a.b.c", result=None)) == b'{"name":"a.b.c"}'
    assert from_wire(b'{"name":"a.b.c"}', ToolResult).ok


# Writing and reading back.

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: st.text(max_size=10),
    int: st.integers(1, 5_000),  # the most that a quota takes
    float: st.floats(0, 10**9),
    bool: st.booleans(),
    type(None): st.none(),
    timedelta: st.timedeltas(timedelta(microseconds=1), timedelta(days=900)),
    datetime: st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    ToolId: st.just(ToolId("a.b.c")),
}
LEAVES[AwareDatetime] = LEAVES[datetime]
MADE: dict[type[BaseModel], st.SearchStrategy[Any]] = {}


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """A strategy for values of a field's type."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return values(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of([values(arg) for arg in args])
    if origin is list:
        return st.lists(values(args[0]), max_size=2)
    if origin in (dict, Mapping):
        return st.dictionaries(st.text(max_size=5), values(args[1]), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return st.deferred(lambda: instances(annotation))
    return LEAVES[annotation]


def instances(kind: type[BaseModel]) -> st.SearchStrategy[Any]:
    """A strategy for instances of a contract, with its required fields and any of the others."""
    if kind not in MADE:
        fields = {name: values(field.annotation) for name, field in kind.model_fields.items()}
        needed = {name: made for name, made in fields.items() if kind.model_fields[name].is_required()}
        if kind is message.OtherPart:
            needed["type"] = st.sampled_from(["hologram", ""])
            fields["beams"] = JSON
        optional = {name: made for name, made in fields.items() if name not in needed}
        MADE[kind] = st.fixed_dictionaries(needed, optional=optional).map(lambda given: kind(**given))
    return MADE[kind]


def test_every_contract_is_read_back_as_it_was_written(subtests: pytest.Subtests) -> None:
    """A decoded record equals the encoded one; defaults are not written, and unknown fields are ignored."""
    for name, kind in CONTRACTS.items():
        with subtests.test(name):
            settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))(
                given(instances(kind))(assert_is_read_back)
            )()


def assert_is_read_back(value: BaseModel) -> None:
    kind = type(value)
    data = to_wire(value)
    assert from_wire(data, kind) == value
    written = json.loads(data)
    for name, field in kind.model_fields.items():
        is_default = not field.is_required() and getattr(value, name) == default_of(field)
        is_default = is_default and not (name == "type" and issubclass(kind, BaseEvent))
        assert (wire_name(kind, name) in written) is (kind in WRITTEN_IN_FULL or not is_default), name
    if kind is not message.OtherPart:
        assert from_wire(json.dumps({**written, "a_later_field": [1]}).encode(), kind) == value


if __name__ == "__main__":
    update()
