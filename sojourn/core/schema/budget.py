"""The cost and context of one validation: how much it may still do, and where references lead.

A step is one subschema that meets one value, some microseconds of work. What a keyword does besides
(names looked through, values compared) is counted in steps too, so that no schema buys work that
its size and its value's do not show.
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
"""Steps of one validation, a few seconds: what is more than that is not checked, and so refused."""

FREE_STEPS = 20_000
"""Steps that the smallest value may take."""

STEPS_PER_BYTE = 5
"""Steps for each byte of a value; a number is five of them."""

_PARTS_PER_STEP = 16
"""Names or values that a keyword lists, looked through in the time of one step."""

_LOOKED_UP = ("enum", "const")
"""Found at once, however many values there are."""

_TOO_LARGE = 1 << 40


class TooMuchWorkError(Exception):
    """The schema asks for more steps than any honest payload of this size needs."""


@dataclass(slots=True)
class Known:
    """What is found out of a schema once, by the identity of a list, which is held so that it stays its own."""

    discriminators: dict[int, tuple[list[Any], Discriminator | None]] = field(
        default_factory=dict[int, tuple[list[Any], Discriminator | None]]
    )
    """Of each list of branches."""
    choices: dict[int, tuple[list[Any], frozenset[Any]]] = field(
        default_factory=dict[int, tuple[list[Any], frozenset[Any]]]
    )
    """Of each `enum`, its values as they are compared."""
    weights: dict[int, int] = field(default_factory=dict[int, int])
    """Of each subschema, the steps that it takes to be entered."""


@dataclass(slots=True)
class ValidationBudget:
    """What one validation needs to know beside the schema at hand."""

    root: Schema
    """Where references lead."""
    steps: int
    """Steps that may still be taken."""
    known: Known = field(default_factory=Known)

    def enter(self, schema: Any) -> None:
        """Count a subschema that meets a value.

        Raises:
            TooMuchWorkError: there are no steps left.
        """
        weight = self.known.weights.get(id(schema))
        if weight is None:
            weight = self.known.weights[id(schema)] = _weight(schema)
        self.spend(weight)

    def spend(self, steps: int) -> None:
        """Count what a keyword does besides.

        Raises:
            TooMuchWorkError: there are no steps left.
        """
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWorkError


BUDGET: ContextVar[ValidationBudget] = ContextVar("sojourn_validation")
"""The validation going on; set around every use of `Dialect`."""

_ALLOWANCE: ContextVar[list[int] | None] = ContextVar("sojourn_allowance", default=None)


@contextmanager
def allowance() -> Generator[None]:
    """Let all validations of the body together take the steps of one: a repair tries many values."""
    token = _ALLOWANCE.set([MAX_STEPS])
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


@contextmanager
def working(work: ValidationBudget) -> Generator[None]:
    """Validate with no more steps than there are, nor than what the allowance leaves."""
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
    """Steps that the validation of a value may take."""
    return min(MAX_STEPS, FREE_STEPS + STEPS_PER_BYTE * volume(value))


def volume(value: Any) -> int:
    """About how many bytes a value holds: never fewer than values are in it. Found in no time."""
    try:
        return len(marshal.dumps(value, 2))
    except ValueError:  # nested without end, or no JSON
        return _TOO_LARGE


def _weight(schema: Any) -> int:
    if not is_object(schema):
        return 1
    lists = (rule for word, rule in schema.items() if word not in _LOOKED_UP)
    parts = sum(len(rule) for rule in lists if is_object(rule) or is_array(rule))
    return 1 + (len(schema) + parts) // _PARTS_PER_STEP
