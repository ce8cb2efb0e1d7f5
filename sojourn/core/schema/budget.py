"""The cost and the context of one validation: how many steps are left, and the root of references.

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

from sojourn.core.schema.unions import Discriminator
from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema

__all__ = [
    "BUDGET",
    "Known",
    "TooMuchWorkError",
    "ValidationBudget",
    "allowance",
    "steps_for",
    "volume",
    "working",
]

MAX_STEPS = 500_000
"""Most steps of one validation, a few seconds; a value that needs more is refused."""

FREE_STEPS = 20_000
"""Steps that the smallest value may take."""

STEPS_PER_BYTE = 5
"""Steps per byte of a value; a number counts as five bytes."""

_PARTS_PER_STEP = 16
"""How many names or values of a keyword are searched in the time of one step."""

_LOOKED_UP = ("enum", "const")
"""Keywords that take constant time, however many values they list."""

_TOO_LARGE = 1 << 40


class TooMuchWorkError(Exception):
    """The validation needs more steps than a reasonable payload of this size does."""


@dataclass(slots=True)
class Known:
    """Facts about a schema, computed once, keyed by the `id` of a list, which is kept alive so that the id stays unique."""

    discriminators: dict[int, tuple[list[Any], Discriminator | None]] = field(
        default_factory=dict[int, tuple[list[Any], Discriminator | None]]
    )
    """The discriminator of each list of branches."""
    choices: dict[int, tuple[list[Any], frozenset[Any]]] = field(
        default_factory=dict[int, tuple[list[Any], frozenset[Any]]]
    )
    """The values of each `enum`, as keys for comparison."""
    weights: dict[int, int] = field(default_factory=dict[int, int])
    """The steps that entering each subschema takes."""


@dataclass(slots=True)
class ValidationBudget:
    """What one validation shares between its keywords."""

    root: Schema
    """The schema in which references are resolved."""
    steps: int
    """Steps that are left."""
    known: Known = field(default_factory=Known)
    exact_integers: bool = False
    """Whether a whole float, such as `10.0`, counts as no integer."""

    def enter(self, schema: Any) -> None:
        """Count a subschema that is applied to a value.

        Raises:
            TooMuchWorkError: No steps are left.
        """
        weight = self.known.weights.get(id(schema))
        if weight is None:
            weight = self.known.weights[id(schema)] = _weight(schema)
        self.spend(weight)

    def spend(self, steps: int) -> None:
        """Count further work of a keyword.

        Raises:
            TooMuchWorkError: No steps are left.
        """
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWorkError


BUDGET: ContextVar[ValidationBudget] = ContextVar("sojourn_validation")
"""The budget of the current validation; set around every use of `Dialect`."""

_ALLOWANCE: ContextVar[list[int] | None] = ContextVar("sojourn_allowance", default=None)


@contextmanager
def allowance() -> Generator[None]:
    """Limit all validations of the body together to the steps of one, since a repair tries many values."""
    token = _ALLOWANCE.set([MAX_STEPS])
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


@contextmanager
def working(work: ValidationBudget) -> Generator[None]:
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
    """Most steps of the validation of a value."""
    return min(MAX_STEPS, FREE_STEPS + STEPS_PER_BYTE * volume(value))


def volume(value: Any) -> int:
    """About how many bytes a value holds, never fewer than it has parts; takes next to no time."""
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
