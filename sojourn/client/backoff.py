"""Delays for polling: short at first, then longer."""

import itertools
from collections.abc import Iterator

__all__ = ["backoff"]

_FIRST = 0.01
_FACTOR = 1.5


def backoff(longest: float) -> Iterator[float]:
    """Yield delays in seconds without end: 10 ms, then half as much again each time, up to `longest`."""
    for power in itertools.count():
        delay = _FIRST * _FACTOR**power
        if delay >= longest:
            break
        yield delay
    yield from itertools.repeat(longest)
