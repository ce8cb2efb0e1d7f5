"""The cost and the context of one validation, and the branch of a union.

Pydantic and zod distinguish the members of a union by a constant (`kind: "circle"`). When
every branch that describes fields has one, and no two share a value, the constant decides: only
the value's branch is tried, and only its errors are reported.

A step is one subschema applied to one value, some microseconds of work. Further work of a keyword
(names searched, values compared) is counted in steps too, so that no schema causes more work than
its size and the value's size suggest.
"""

import marshal
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sojourn.values.json_value import Schema, is_array, is_object, resolve

__all__ = [
    "BUDGET",
    "Discriminator",
    "Known",
    "TooMuchWorkError",
    "ValidationBudget",
    "allowance",
    "find_discriminator",
    "steps_for",
    "use_budget",
    "volume",
]

_MAX_REFERENCES = 8


@dataclass(frozen=True, slots=True)
class Discriminator:
    """A property whose value selects the branch."""

    name: str
    by_tag: dict[str, int]
    """Each tag with the index of its branch."""
    required: bool
    """Whether every branch that describes fields requires the property."""

    @property
    def tags(self) -> list[str]:
        return list(self.by_tag)

    @property
    def branches(self) -> frozenset[int]:
        return frozenset(self.by_tag.values())

    def rule_out(self, instance: Any) -> frozenset[int]:
        """Return the branches that a value certainly does not fit, by its tag alone."""
        if not is_object(instance):
            return frozenset()
        value = instance
        if self.name not in value:
            return self.branches if self.required else frozenset()
        tag = value[self.name]
        selected = self.by_tag.get(tag) if isinstance(tag, str) else None
        return self.branches if selected is None else self.branches - {selected}


def find_discriminator(root: Schema, branches: list[Any]) -> Discriminator | None:
    """Return the discriminator of the branches that describe fields."""
    described = [(index, found) for index, branch in enumerate(branches) if (found := _object(root, branch))]
    if len(described) < 2:
        return None
    tagged = [(index, branch, _tags(branch)) for index, branch in described]
    for name in tagged[0][2]:
        pairs = [(tag, index) for index, _, tags in tagged for tag in tags.get(name, ())]
        if all(name in tags for _, _, tags in tagged) and len(dict(pairs)) == len(pairs):
            return Discriminator(
                name, dict(pairs), all(name in branch.get("required", ()) for _, branch, _ in tagged)
            )
    return None


def _object(root: Schema, branch: Any) -> Schema | None:
    for _ in range(_MAX_REFERENCES):
        if not is_object(branch) or "properties" in branch:
            break
        branch = resolve(root, branch.get("$ref", "#/"))
    return branch if is_object(branch) and "properties" in branch else None


def _tags(branch: Schema) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, schema in branch["properties"].items():
        rules: Schema = schema if is_object(schema) else {}
        values = [rules["const"]] if "const" in rules else rules.get("enum", [])
        if values and all(isinstance(value, str) for value in values):
            found[name] = values
    return found


MAX_STEPS = 500_000
"""Most steps of one validation, a few seconds; a value that needs more is refused."""

FREE_STEPS = 20_000
"""Steps that the smallest value may take."""

STEPS_PER_BYTE = 5
"""Steps per byte of a value; a number counts as five bytes."""

_PARTS_PER_STEP = 16
"""Names or values of a keyword that are searched in the time of one step."""

_LOOKED_UP = ("enum", "const")
"""Keywords that take constant time, however many values they list."""

_TOO_LARGE = 1 << 40


class TooMuchWorkError(Exception):
    """The validation needs more steps than a reasonable payload of this size does."""


@dataclass(slots=True)
class Known:
    """Cached facts about a schema, keyed by the `id` of a list.

    Each fact is computed once. The cache holds the list, so that its id stays unique.
    """

    discriminators: dict[int, tuple[list[Any], Discriminator | None]] = field(
        default_factory=dict[int, tuple[list[Any], Discriminator | None]]
    )
    choices: dict[int, tuple[list[Any], frozenset[Any]]] = field(
        default_factory=dict[int, tuple[list[Any], frozenset[Any]]]
    )
    weights: dict[int, int] = field(default_factory=dict[int, int])
    """The steps that entering each subschema takes."""


@dataclass(slots=True)
class ValidationBudget:
    """The state that the keywords of one validation share."""

    root: Schema
    steps: int
    known: Known = field(default_factory=Known)
    exact_integers: bool = False
    """Whether a whole float, such as `10.0`, counts as no integer."""

    def enter(self, schema: Any) -> None:
        """Count a subschema that is applied to a value."""
        weight = self.known.weights.get(id(schema))
        if weight is None:
            weight = self.known.weights[id(schema)] = _weight(schema)
        self.spend(weight)

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWorkError


BUDGET: ContextVar[ValidationBudget] = ContextVar("sojourn_validation")
"""The budget of the current validation; set around every use of `Dialect`."""

_ALLOWANCE: ContextVar[list[int] | None] = ContextVar("sojourn_allowance", default=None)


@contextmanager
def allowance() -> Generator[None]:
    """Limit all validations of the body together to the steps of one.

    A repair tries many values.
    """
    token = _ALLOWANCE.set([MAX_STEPS])
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


@contextmanager
def use_budget(work: ValidationBudget) -> Generator[None]:
    """Validate with this budget, within the current allowance."""
    left = _ALLOWANCE.get()
    if left is not None:
        work.steps = min(work.steps, left[0])
    began = work.steps
    token = BUDGET.set(work)
    try:
        yield
    finally:
        BUDGET.reset(token)
        if left is not None:
            left[0] -= min(began, began - work.steps)


def steps_for(value: Any) -> int:
    return min(MAX_STEPS, FREE_STEPS + STEPS_PER_BYTE * volume(value))


def volume(value: Any) -> int:
    """Return about how many bytes a value holds, never fewer than it has parts.

    This takes next to no time.
    """
    try:
        return len(marshal.dumps(value, 2))
    except ValueError:  # nested without end, or not JSON
        return _TOO_LARGE


def _weight(schema: Any) -> int:
    if not is_object(schema):
        return 1
    lists = (rule for word, rule in schema.items() if word not in _LOOKED_UP)
    parts = sum(len(rule) for rule in lists if is_object(rule) or is_array(rule))
    return 1 + (len(schema) + parts) // _PARTS_PER_STEP
