"""Frozen values with other fields: what `dataclasses.replace` gives, at a tenth of its cost.

A run's state is replaced some twenty times a call, in workflow code.
"""

from typing import Any, TypeVar

__all__ = ["changed"]

T = TypeVar("T")


def changed(value: T, **changes: Any) -> T:
    """The same frozen dataclass with these fields; it has no slots, and nothing to do after it is made."""
    assert changes.keys() <= value.__dict__.keys()
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__)
    made.__dict__.update(changes)
    return made
