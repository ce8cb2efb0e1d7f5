"""Defaults: a payload that spells them out equals one that does not."""

from typing import Any

import pytest

from sojourn.core.schema import defaults
from sojourn.core.schema.defaults import with_defaults, without_defaults
from sojourn.core.schema.validate import Validator

FEE: dict[str, Any] = {"type": "object", "properties": {"currency": {"default": "EUR"}, "note": {}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"fee": FEE},
    "properties": {
        "amount": {"type": "number"},
        "purpose": {"type": "string", "default": ""},
        "fee": {"$ref": "#/$defs/fee", "default": {}},
        "fees": {"type": "array", "items": {"$ref": "#/$defs/fee"}, "prefixItems": [True]},
        "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/fee"}], "default": None},
        "by_name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/fee"}},
    },
    "allOf": [{"properties": {"kind": {"default": "card"}}}],
}
ALL = {"purpose": "", "fee": {"currency": "EUR"}, "either": None, "kind": "card"}


def test_absent_fields_get_their_defaults_at_every_level(subtests: pytest.Subtests) -> None:
    """Also behind references, in arrays, maps and unions; the payload itself is not changed."""
    rows = [
        ({}, ALL),
        ({"amount": 3, "purpose": "lunch"}, {**ALL, "amount": 3, "purpose": "lunch"}),
        ({"fee": {"note": 1}}, {**ALL, "fee": {"note": 1, "currency": "EUR"}}),
        ({"fees": [{}, {}]}, {**ALL, "fees": [{}, {"currency": "EUR"}]}),
        ({"either": {}}, {**ALL, "either": {"currency": "EUR"}}),
        ({"either": "x"}, {**ALL, "either": "x"}),
        ({"by_name": {"a": {}}}, {**ALL, "by_name": {"a": {"currency": "EUR"}}}),
    ]
    for payload, filled in rows:
        with subtests.test(payload=payload, filled=filled):
            before = repr(payload)
            assert with_defaults(Validator(SCHEMA), payload) == filled
            assert repr(payload) == before


def test_top_level_fields_with_their_default_are_left_out() -> None:
    """A value that only looks like the default in Python, as 0 like False, is kept."""
    validator = Validator({"properties": {"urgent": {"default": False}, "fee": {**FEE, "default": {}}}})
    assert without_defaults(validator, {"urgent": False, "fee": {"currency": "EUR"}, "x": 1}) == {"x": 1}
    assert without_defaults(validator, {"urgent": 0}) == {"urgent": 0}


def test_defaults_without_end_are_not_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile schema, whose defaults have defaults, or that has too many references, changes nothing and takes no time."""
    endless = {"properties": {name: {"$ref": "#", "default": {}} for name in "abcd"}}
    assert with_defaults(Validator(endless), {"x": 1}) == {"x": 1}
    monkeypatch.setattr(defaults, "MAX_VALUES", 2)
    assert with_defaults(Validator({"allOf": [{}, {}, {}]}), {}) == {}
