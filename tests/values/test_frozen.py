"""Copies of frozen dataclasses with changed fields, as `dataclasses.replace` makes them."""

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from sojourn.values.frozen import copy_with


@dataclass(frozen=True)
class Point:
    x: int = 1
    y: int = 2


def test_changed_equals_replace() -> None:
    """The copy has the changed fields, and the original stays as it was."""
    before = Point()
    assert copy_with(before, y=5) == replace(before, y=5) == Point(1, 5)
    assert before == Point(1, 2)


def test_a_changed_copy_is_frozen_too() -> None:
    """Setting a field of the copy raises, and so does changing an unknown field."""
    with pytest.raises(FrozenInstanceError):
        copy_with(Point(), x=3).x = 4  # type: ignore[misc]
    with pytest.raises(AssertionError):
        copy_with(Point(), z=1)
