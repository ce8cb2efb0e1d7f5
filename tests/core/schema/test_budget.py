"""The budget: the work of a validation is bounded by the value's size, whatever keywords the schema has."""

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn.core.payload.example import example_for
from sojourn.core.schema import budget
from sojourn.core.schema.budget import allowance, steps_for, volume
from sojourn.core.schema.enforceable import check
from sojourn.core.schema.fast_validator import fast_validator
from sojourn.core.schema.validate import Validator

CALLS_A_STEP = 150
"""Most Python and C calls for one step, with the making of an issue; 12 to 80 were measured."""

RULES = 400


def many(rule: Any) -> list[Any]:
    """RULES different rules."""
    return [rule(number) for number in range(1, RULES + 1)]


EACH = {
    "allOf": {"allOf": many(lambda n: {"minimum": -n})},
    "anyOf": {"anyOf": many(lambda n: {"const": -n})},
    "oneOf": {"oneOf": many(lambda n: {"const": -n})},
    "not": {"allOf": many(lambda n: {"not": {"const": -n}})},
    "if": {"allOf": many(lambda n: {"if": {"const": -n}, "then": False})},
    "references": {"allOf": many(lambda n: {"$ref": "#/$defs/same"})},
    "type": {"allOf": many(lambda n: {"type": "null"})},
    "enum": {"allOf": many(lambda n: {"enum": [-n]})},
}
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    **{
        name: ({"items": rules, "unevaluatedItems": False, "$defs": {"same": {}}}, list(range(RULES)))
        for name, rules in EACH.items()
    },
    "contains": ({"allOf": many(lambda n: {"contains": {"const": -n}})}, list(range(RULES))),
    "patternProperties": (
        {"patternProperties": {f"^x{n}": {} for n in range(RULES)}},
        {f"y{n}": 1 for n in range(RULES)},
    ),
    "additionalProperties": (
        {"patternProperties": {f"^x{n}": {} for n in range(RULES)}, "additionalProperties": False},
        {f"y{n}": 1 for n in range(RULES)},
    ),
    "propertyNames": (
        {"propertyNames": {"allOf": many(lambda n: {"maxLength": n + 9})}},
        {f"y{n}": 1 for n in range(RULES)},
    ),
    "dependentSchemas": (
        {"dependentSchemas": {f"y{n}": {"maxProperties": n} for n in range(RULES)}},
        {f"y{n}": 1 for n in range(RULES)},
    ),
    "unevaluated": (
        {
            "allOf": many(lambda n: {"dependentSchemas": {"y1": {"$ref": "#/$defs/many"}}}),
            "unevaluatedProperties": False,
            "$defs": {"many": {"allOf": many(lambda n: {"maxLength": n})}},
        },
        {f"y{n}": 1 for n in range(RULES)},
    ),
    "uniqueItems": ({"allOf": many(lambda n: {"uniqueItems": True})}, [[n] for n in range(5 * RULES)]),
    "chosen hashes": ({"uniqueItems": True}, [n * sys.hash_info.modulus for n in range(8 * RULES)]),
    "long constants": (
        {"allOf": many(lambda n: {"const": [*range(RULES), n]})},
        list(range(RULES)),
    ),
    "patterns of a long text": ({"allOf": many(lambda n: {"pattern": f"a{n}b"})}, "c" * 300_000),
    "a long value told by many": ({"allOf": many(lambda n: {"type": "null"})}, list(range(20 * RULES))),
}


def calls_of(job: Any) -> int:
    """The number of Python and C functions that a job calls."""
    count = 0

    def counts(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(counts)
    try:
        job()
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small budget, which the schemas above exceed many times."""
    monkeypatch.setattr(budget, "FREE_STEPS", 700)
    monkeypatch.setattr(budget, "STEPS_PER_BYTE", 1)


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_within_the_budget(name: str) -> None:
    """Hundreds of rules times hundreds of values stay within the budget, for every keyword that applies rules."""
    schema, value = HOSTILE[name]
    check(schema)
    validator = Validator(schema)
    validator._quick = None
    most = steps_for(value) * CALLS_A_STEP
    assert calls_of(lambda: validator.is_valid(value)) < most
    assert calls_of(lambda: validator.issues(value)) < most


@pytest.mark.parametrize("constant", [3, "x", True, None])
def test_a_scalar_constant_is_not_compared_with_each_part_of_a_value(constant: Any) -> None:
    """Comparing a list with a scalar constant costs no more for a larger list, since the types differ."""
    validator = Validator({"allOf": [{"not": {"const": constant}}] * RULES})
    validator._quick = None
    few, many = ([], list(range(1_000)))
    assert calls_of(lambda: validator.is_valid(many)) < calls_of(lambda: validator.is_valid(few)) + 5_000


@pytest.mark.usefixtures("small_budget")
def test_a_value_over_the_budget_has_one_issue() -> None:
    """A value that cannot be validated within the budget is refused with one issue, which asks for a smaller value."""
    validator = Validator({"items": {"allOf": [{"multipleOf": 1}] * 200}})
    value = list(range(50))
    assert not validator.is_valid(value)
    (issue,) = validator.issues(value)
    assert (issue.field, issue.expected_type) == ("", "smaller or flatter value")


@pytest.mark.usefixtures("small_budget")
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    items=st.integers(1, 400),
    names=st.lists(st.sampled_from(sorted(EACH)), min_size=1, max_size=3, unique=True),
    depth=st.integers(0, 3),
)
def test_the_budget_holds_for_compositions(items: int, names: list[str], depth: int) -> None:
    """Nested rules of several kinds stay within the budget of the value's size."""
    rules: dict[str, Any] = {"allOf": [EACH[name] for name in names]}
    for _ in range(depth):
        rules = {"anyOf": [rules, rules]}
    validator = Validator({"items": rules, "unevaluatedItems": False, "$defs": {"same": {}}})
    value = list(range(items))
    assert calls_of(lambda: validator.issues(value)) < steps_for(value) * CALLS_A_STEP


def test_the_fast_check_is_skipped_for_large_values() -> None:
    """The fast check runs only if rules times bytes are few enough, since Rust code cannot be interrupted."""
    schema = {"items": {"allOf": [{"minimum": -n} for n in range(2_000)]}}
    quick = fast_validator(schema)
    assert quick is not None
    assert quick.width >= 2_000
    asked: list[Any] = []
    spied = type(quick)(lambda value: not asked.append(value), quick.width)
    assert spied.accepts([1, 2], at_once=True)
    assert not spied.accepts(list(range(1_000)), at_once=True)
    assert spied.accepts(list(range(1_000)))
    assert not spied.accepts(list(range(100_000)))
    assert asked == [[1, 2], list(range(1_000))]


def test_the_width_is_the_number_of_rules_at_one_place() -> None:
    """Fields of one object do not add to the width, while parts of `allOf` do."""
    wide = fast_validator({"properties": {f"f{n}": {"type": "string"} for n in range(500)}})
    both = fast_validator({"allOf": [{"properties": {"a": {"allOf": [{}] * 3}}}, {"properties": {"a": {}}}]})
    assert wide is not None
    assert wide.width < 100
    assert both is not None
    assert both.width == 5


def test_large_values_of_ordinary_schemas_are_validated() -> None:
    """A megabyte of rows is valid with and without the fast check, and too large for the check that holds up no event loop."""
    row = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"$ref": "#/$defs/N"}}}
    name = {"anyOf": [{"type": "string", "maxLength": 50}, {"type": "null"}]}
    schema = {"type": "array", "items": {**row, "additionalProperties": False}, "$defs": {"N": name}}
    value = [{"id": n, "name": f"device {n}"} for n in range(25_000)]
    validator = Validator(schema)
    assert validator.is_valid(value)
    validator._quick = None
    assert validator.is_valid(value)
    assert not Validator(schema).fits_at_once(value)


def test_a_repair_takes_the_steps_of_one_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """All validations of one search for an example share one budget."""
    rules = {"allOf": [{"pattern": f"a{n}"} for n in range(300)]}
    validator = Validator({"properties": {f"f{n}": rules for n in range(40)}})
    prior = {f"f{n}": "b" for n in range(40)}
    monkeypatch.setattr(budget, "MAX_STEPS", 5_000)
    assert calls_of(lambda: example_for(validator, prior)) < 5_000 * CALLS_A_STEP


def test_an_allowance_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside `allowance`, validations share one budget; without it each has its own."""
    validator = Validator({"items": {"allOf": [{"multipleOf": 1}] * 50}})
    value = list(range(250))
    monkeypatch.setattr(budget, "MAX_STEPS", 20_000)
    with allowance():
        verdicts = [validator.is_valid(value) for _ in range(2)]
    assert verdicts == [True, False]
    assert validator.is_valid(value)


def test_a_volume_counts_every_value() -> None:
    """A value counts at each of its places; a value that cannot be measured counts as more than any budget."""
    one = list(range(100))
    assert volume([one] * 100) > 100 * volume(one) / 2
    endless: list[Any] = []
    endless.append(endless)
    assert volume(endless) > 1_000_000_000
    assert volume(object()) > 1_000_000_000


def test_the_steps_of_a_value_are_bounded() -> None:
    """The steps grow with the value from FREE_STEPS to MAX_STEPS, which large values and values that are no JSON have."""
    most = budget.MAX_STEPS
    assert budget.FREE_STEPS <= steps_for({}) < steps_for("x" * 1_000) < most
    assert steps_for("x" * 500_000) == steps_for(["x" * 500_000] * 4) == steps_for(object()) == most
