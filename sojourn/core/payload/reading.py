"""Normalize the forms in which models commonly write arguments, without loss.

A model writes `""` for no arguments, `null` for each field that it does not use, a list as JSON text, `10.0`
for 10. The meaning is certain. A refusal costs a step at best, and a model that repeats itself loses the
run. So, before validation, a payload that its schema refuses is read, and only if that makes a refused value
fit:

| kind | what was sent | what it is read as |
|---|---|---|
| `absent` | nothing, blanks or `null` in place of the object | `{}` |
| `json_text` | JSON in a string, if the schema takes no string | the value |
| `json_text` | a string that holds the whole object | the object |
| `json_text` | `"null"`, if the schema takes null, but not this string | null |
| `left_out` | `null`, `""` or `"null"` in an optional field | the field is left out |
| `whole_number` | `10.0` for an integer | `10` |
| `exact_number` | a fraction with more digits than a float holds, if the schema takes a string too | its text |
| `default` | nothing for a required field whose schema has a default, in an object without undeclared fields | the default |

Nothing is guessed. If a field may be null, and is not null by default, `""` may mean either, and stays a
fault. A value that fits stays, so JSON in a field that takes strings is a string. A reading that leaves a
fault in its place, or makes one elsewhere, is undone. Everything that decides about a call (policy engine,
approval, interceptor, tool) gets the arguments as read, and so does the model, in its transcript.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.tool_call import ArgumentReading
from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.payload.coerce import BLANKS, MAPS, may_be_misnamed, null_differs, takes_null
from sojourn.core.payload.example import set_value
from sojourn.core.payload.parse import NotAnObject, Parsed, ParseFault, decode_text, parse_arguments
from sojourn.core.schema.budget import allowance
from sojourn.core.schema.issues import MAX_ALLOWED, type_names
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import json_fault
from sojourn.values.json_value import (
    ABSENT,
    expand,
    is_array,
    is_object,
    json_type,
    locate,
    to_pointer,
    to_tokens,
    value_at,
)
from sojourn.values.numbers import LongNumber

__all__ = ["PayloadReading", "fits_for_certain", "read_payload", "read_text", "wrapper_issues"]

MAX_RECORDED = 20
"""Most readings of one call that are recorded."""

MAX_FAULTS = 2_000
"""Most faults of a payload to read in one round."""

MAX_ROUNDS = 8
"""Most rounds: a value may need two attempts, and a text may hold values that are read in turn."""

_WRAPPERS = frozenset(
    (
        "args",
        "argument",
        "arguments",
        "input",
        "inputs",
        "kwargs",
        "parameters",
        "params",
        "payload",
        "tool_args",
        "tool_arguments",
        "tool_input",
    )
)
"""The fields in which models write the arguments of a call once more."""

_WHOLE = 2**63
"""The floats below are read as integers. From 2^53, a number that was written is an integer already, with all its digits."""


@dataclass(frozen=True, slots=True)
class PayloadReading:
    """A payload as it was read."""

    payload: dict[str, Any]
    fits: bool
    readings: tuple[ArgumentReading, ...] = ()


def read_text(raw: str) -> Parsed | ParseFault:
    """Return the object that a model's text holds, or the fault.

    Absent arguments are `{}`. An object in a string is decoded.
    """
    parsed = parse_arguments(raw)
    if isinstance(parsed, Parsed):
        return parsed
    if parsed.kind == "empty":
        return Parsed({}, ("absent",))
    if not isinstance(parsed, NotAnObject):
        return parsed
    inner = parsed.value
    if inner is None or (isinstance(inner, str) and inner.strip() in ("", "null")):
        return Parsed({}, ("absent",))
    opened = decode_text(inner) if isinstance(inner, str) else ABSENT
    return Parsed(opened, ("json_text",)) if is_object(opened) else parsed


def fits_for_certain(validator: Validator, payload: Mapping[str, Any]) -> bool:
    """Return whether a payload certainly fits as it is.

    The check takes a few milliseconds. False means unknown.
    """
    fits = validator.fits_at_once(payload) and not _has_whole_floats(validator, payload)
    return fits and not wrapper_issues(validator, payload)


def wrapper_issues(validator: Validator, payload: Mapping[str, Any]) -> list[FieldIssue]:
    """Return the issues of fields that seem to hold all arguments.

    An open schema takes any field, such as `parameters`. A server that ignores it would run the tool without
    its arguments.
    """
    found = [name for name in payload if name in _WRAPPERS]
    if not found:
        return []
    parts = expand(validator.schema, validator.schema)
    declared: set[str] = {name for part in parts for name in part.get("properties", ())}
    is_map = any(is_object(part.get(word)) and part[word] for part in parts for word in MAPS)
    if not declared or is_map:
        return []
    return [
        FieldIssue(field=to_pointer((name,)), constraint="unknown_field")
        for name in found
        if name not in declared
    ]


def read_payload(validator: Validator, payload: dict[str, Any]) -> PayloadReading:
    """Return the payload as it is read before validation."""
    exact, digits = _restore_digits(validator, payload)
    fits = validator.is_valid(exact)
    if fits and not _has_whole_floats(validator, exact):
        return PayloadReading(exact, fits=True, readings=digits)
    with allowance():
        read = _Reading(validator, exact, fits=fits).result()
    if not read.readings:
        return PayloadReading(read.payload, read.fits, digits)
    exact, more = _restore_digits(validator, read.payload)  # numbers inside texts
    return PayloadReading(exact, read.fits, (*digits, *read.readings, *more)[:MAX_RECORDED])


def _restore_digits(
    validator: Validator, payload: dict[str, Any]
) -> tuple[dict[str, Any], tuple[ArgumentReading, ...]]:
    # A fraction becomes its text if the schema takes that, else the float.
    long = list(_long_numbers(payload))
    if not long:
        return payload, ()
    made, takes_text = deepcopy(payload), dict[tuple[str, ...], bool]()
    readings: list[ArgumentReading] = []
    has_places = '"prefixItems"' in json.dumps(validator.schema)
    for path, number in long:
        tokens = tuple("0" if isinstance(each, int) and not has_places else str(each) for each in path)
        if tokens not in takes_text:
            takes_text[tokens] = _takes_text(validator, tokens, number.text)
        name = str(path[-1])
        set_value(
            value_at(made, [str(each) for each in path[:-1]]),
            name,
            number.text if takes_text[tokens] else float(number),
        )
        if takes_text[tokens] and len(readings) < MAX_RECORDED:
            readings.append(ArgumentReading(kind="exact_number", field=to_pointer(path)))
    return made, tuple(readings)


def _long_numbers(
    value: Any, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], LongNumber]]:
    inner = value.items() if is_object(value) else enumerate(value) if is_array(value) else ()
    for name, each in inner:
        if isinstance(each, LongNumber):
            yield (*at, name), each
        elif is_object(each) or is_array(each):
            yield from _long_numbers(each, (*at, name))


def _takes_text(validator: Validator, tokens: tuple[str, ...], text: str) -> bool:
    root = validator.schema
    parts = (part for found in locate(root, tokens) for part in expand(root, found))
    return any(
        "string" in type_names(part.get("type")) and validator.is_valid(text, schema=part) for part in parts
    )


def _has_whole_floats(validator: Validator, payload: Any) -> bool:
    if not validator.has_integers:
        return False
    level = [payload]
    while level:
        value = level.pop()
        if is_object(value):
            level.extend(value.values())
        elif is_array(value):
            level.extend(value)
        elif isinstance(value, float) and value.is_integer():
            return True
    return False


@dataclass(slots=True)
class _Edit:
    """A reading of the value at one place."""

    kind: str
    was: Any
    """The value that was sent, or `ABSENT` if there was none."""
    others: Iterator[tuple[str, Any]]
    """Further readings, should this one not fit."""


class _Reading:
    """The reading of one payload.

    All faults are read at once, then validated. A reading is undone if a fault remains.
    """

    def __init__(self, validator: Validator, payload: dict[str, Any], *, fits: bool) -> None:
        self._validator = validator
        self._sent = payload
        self._fits = fits
        self._payload = deepcopy(payload)
        self._edits: dict[str, _Edit] = {}
        self._given_up: set[str] = set()

    def result(self) -> PayloadReading:
        before = faults = self._faults()
        if len(faults) >= MAX_FAULTS and self._has_too_many():
            return PayloadReading(self._sent, fits=self._fits)
        for _ in range(MAX_ROUNDS):
            if not self._round(faults):
                break
            faults = self._faults()
        faults = self._undo_vain_edits(faults)
        is_sound = {_key(each) for each in faults} <= {_key(each) for each in before}
        if not self._edits or not is_sound or json_fault(self._payload):
            return PayloadReading(self._sent, fits=self._fits)
        fits = self._fits or not faults or self._validator.is_valid(self._payload)
        readings = [ArgumentReading(kind=edit.kind, field=field) for field, edit in self._edits.items()]
        return PayloadReading(self._payload, fits, tuple(readings[:MAX_RECORDED]))

    def _has_too_many(self) -> bool:
        most = MAX_FAULTS * MAX_ROUNDS
        return len(self._validator.issues(self._payload, most=most + 1, exact_integers=True)) > most

    def _faults(self) -> list[FieldIssue]:
        return self._validator.issues(self._payload, most=MAX_FAULTS, exact_integers=True)

    def _round(self, faults: list[FieldIssue]) -> bool:
        changed, first = False, dict[str, FieldIssue]()
        for fault in faults:
            first.setdefault(fault.field, fault)
        for field, fault in first.items():
            if field in self._given_up:
                continue
            if (edit := self._edits.get(field)) is not None:
                self._undo(field)
            else:
                edit = self._begin_edit(fault)
            if edit is not None and self._next(field, edit):
                changed = True
            else:
                self._given_up.add(field)
        return changed

    def _begin_edit(self, fault: FieldIssue) -> _Edit | None:
        # None if its place is gone, because a value above it was read another way.
        *above, name = to_tokens(fault.field) or ("",)
        parent = value_at(self._payload, above)
        is_item = is_array(parent) and name.isdecimal() and int(name[:9]) < len(parent)
        if not fault.field or not (is_object(parent) or is_item):
            return None
        was = value_at(parent, [name])
        return _Edit("", was, self._readings(fault, (*above, name), was))

    def _next(self, field: str, edit: _Edit) -> bool:
        tokens = to_tokens(field)
        parent = value_at(self._payload, tokens[:-1])
        for kind, value in edit.others:
            edit.kind = kind
            if value is ABSENT:
                del parent[tokens[-1]]
            else:
                set_value(parent, tokens[-1], value)
            self._edits[field] = edit
            return True
        return False

    def _undo(self, field: str) -> None:
        tokens, edit = to_tokens(field), self._edits.pop(field)
        for inner in [each for each in self._edits if each.startswith(f"{field}/")]:
            del self._edits[inner]
        parent = value_at(self._payload, tokens[:-1])
        if edit.was is not ABSENT:
            set_value(parent, tokens[-1], edit.was)
        else:
            del parent[tokens[-1]]

    def _undo_vain_edits(self, faults: list[FieldIssue]) -> list[FieldIssue]:
        vain = [
            field
            for field in self._edits
            if any(each.field == field or each.field.startswith(f"{field}/") for each in faults)
        ]
        if not vain:
            return faults
        for field in vain:
            if field in self._edits:
                self._undo(field)
        return self._faults()

    def _readings(self, fault: FieldIssue, tokens: tuple[str, ...], was: Any) -> Iterator[tuple[str, Any]]:
        # `ABSENT` leaves the value out.
        expected = (fault.expected_type or "").split(" or ")
        if fault.constraint == "missing_field":
            if not self._fits and was is ABSENT and (default := self._default(tokens)) is not ABSENT:
                yield "default", default
            return
        if fault.constraint == "invalid_field_type" and _is_whole(was) and "integer" in expected:
            yield "whole_number", int(was)
        if self._fits or fault.constraint == "unknown_field":
            return
        if isinstance(was, str) and _forbids_text(fault, expected):
            value = decode_text(was)
            if value is not ABSENT and _is_among(value, fault, expected):
                yield "json_text", int(value) if _is_whole(value) and "integer" in expected else value
        if was == "null" and takes_null(self._validator, tokens):
            yield "json_text", None
        elif self._is_unused(tokens, was):
            yield "left_out", ABSENT

    def _is_unused(self, tokens: tuple[str, ...], was: Any) -> bool:
        # If the field may be null, the blank may mean that instead.
        is_blank = any(was is each or was == each for each in BLANKS)
        return is_blank and self._is_declared(tokens) and not null_differs(self._validator, tokens)

    def _default(self, tokens: tuple[str, ...]) -> Any:
        # `ABSENT` if the field's schemas state no default or several, or if an undeclared field may be meant.
        root = self._validator.schema
        if may_be_misnamed(root, tokens, value_at(self._payload, tokens[:-1])):
            return ABSENT
        parts = [part for found in locate(root, tokens) for part in expand(root, found)]
        found = {
            json.dumps(part["default"], sort_keys=True): part["default"]
            for part in parts
            if "default" in part
        }
        return deepcopy(next(iter(found.values()))) if len(found) == 1 else ABSENT

    def _is_declared(self, tokens: tuple[str, ...]) -> bool:
        # An entry of a map and an item of a list are not optional fields.
        root = self._validator.schema
        parts = (part for found in locate(root, tokens[:-1]) for part in expand(root, found))
        return any(tokens[-1] in (part.get("properties") or {}) for part in parts)


def _key(issue: FieldIssue) -> tuple[str, str]:
    return issue.field, issue.constraint


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE


def _forbids_text(fault: FieldIssue, expected: list[str]) -> bool:
    if fault.constraint == "invalid_field_type":
        return "string" not in expected
    allowed = fault.allowed or []
    is_whole_list = fault.constraint == "invalid_enum_value" and 0 < len(allowed) < MAX_ALLOWED
    return is_whole_list and not any(isinstance(each, str) for each in allowed)


def _is_among(value: Any, fault: FieldIssue, expected: list[str]) -> bool:
    if fault.constraint == "invalid_enum_value":
        return any(
            value == each and isinstance(value, bool) == isinstance(each, bool)
            for each in fault.allowed or []
        )
    kind = json_type(value)
    return (
        kind in expected
        or (kind == "integer" and "number" in expected)
        or (_is_whole(value) and "integer" in expected)
    )
