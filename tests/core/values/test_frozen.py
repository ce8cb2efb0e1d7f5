"""Frozen values with other fields: as `dataclasses.replace` makes them."""

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from sojourn.core.values.frozen import changed


@dataclass(frozen=True)
class Point:
    x: int = 1
    y: int = 2


def test_a_change_is_what_replace_makes() -> None:
    """The fields that are named are new, the others stay, and the value before is as it was."""
    before = Point()
    assert changed(before, y=5) == replace(before, y=5) == Point(1, 5)
    assert before == Point(1, 2)


def test_what_was_changed_is_frozen_too() -> None:
    """Nobody sets a field of it, and an unknown field is refused."""
    with pytest.raises(FrozenInstanceError):
        changed(Point(), x=3).x = 4  # type: ignore[misc]
    with pytest.raises(AssertionError):
        changed(Point(), z=1)
