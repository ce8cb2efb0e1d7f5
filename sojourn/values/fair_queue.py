"""A queue of work of several tenants, in which a long line delays no other line.

This is start-time fair queueing. Every line has a start tag, the cost that its earlier items had, and the
item of the line with the lowest tag goes next. A line that begins gets the tag of the last item that went,
so time without work gives no credit. Within a line items keep their order.

Of two tenants that both wait, neither gets ahead of the other by more than one item.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

__all__ = ["FairQueue"]

Item = TypeVar("Item")


@dataclass(slots=True)
class _Line(Generic[Item]):
    start: float
    """The tag of the line's first item, or of its next one while it is empty."""
    items: deque[tuple[int, float, Item]] = field(default_factory=deque[tuple[int, float, Item]])
    """The items with their number among all tenants' and their cost."""


class FairQueue(Generic[Item]):
    """Items by tenant. An item is found again by identity, so it may be any object."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line[Item]] = {}
        self._numbers = count()
        self._now = 0.0
        """The tag of the last item that went."""

    def __len__(self) -> int:
        return sum(len(line.items) for line in self._lines.values())

    def push(self, tenant: str, item: Item, cost: float = 1.0) -> None:
        self._line(tenant).items.append((next(self._numbers), cost, item))

    def first(self) -> Item | None:
        """Return the item that goes next, and leave it."""
        waiting = self._waiting()
        return waiting[0].items[0][2] if waiting else None

    def pop(self, fits: Callable[[Item], bool] = lambda _: True) -> Item | None:
        """Remove and return the first item that fits, or None.

        Items that do not fit keep their place.
        """
        for line in self._waiting():
            for place, (_, cost, item) in enumerate(line.items):
                if fits(item):
                    del line.items[place]
                    self._now = max(self._now, line.start)
                    line.start += cost
                    self._forget()
                    return item
        return None

    def remove(self, tenant: str, item: Item) -> None:
        """Remove an item that no longer waits, at no cost."""
        line = self._lines[tenant]
        line.items = deque(each for each in line.items if each[2] is not item)
        self._forget()

    def ahead(self, tenant: str) -> float:
        """Return the cost of the items that would go before a new one of this tenant."""
        line = self._lines.get(tenant)
        own = sum(each[1] for each in line.items) if line else 0.0
        start = self._start_of(line) + own
        others = (each for whose, each in self._lines.items() if whose != tenant)
        return own + sum(_cost_until(each, start) for each in others)

    def charge(self, tenant: str, cost: float) -> None:
        """Correct what a tenant's earlier items cost, while others wait."""
        if self._lines:
            line = self._line(tenant)
            line.start = max(line.start + cost, self._now)

    def _line(self, tenant: str) -> _Line[Item]:
        line = self._lines.setdefault(tenant, _Line(self._now))
        if not line.items:
            line.start = self._start_of(line)
        return line

    def _start_of(self, line: _Line[Item] | None) -> float:
        if line is None:
            return self._now
        return line.start if line.items else max(line.start, self._now)

    def _waiting(self) -> list[_Line[Item]]:
        """Return the lines with items, in the order in which their first ones go."""
        lines = [line for line in self._lines.values() if line.items]
        return sorted(lines, key=lambda line: (line.start, line.items[0][0]))

    def _forget(self) -> None:
        """Drop empty lines without a debt, and all debts once no item waits."""
        if not any(line.items for line in self._lines.values()):
            self._lines, self._now = {}, 0.0
            return
        self._lines = {
            tenant: line for tenant, line in self._lines.items() if line.items or line.start > self._now
        }


def _cost_until(line: _Line[Any], start: float) -> float:
    """Return the cost of a line's items whose tag is not above `start`."""
    tag = line.start
    for _, cost, _ in line.items:
        if tag > start:
            break
        tag += cost
    return tag - line.start
