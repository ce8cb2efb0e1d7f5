"""Figures: the counts and costs by which a run's limits go, whoever states them."""

from collections.abc import Iterable
from typing import Any

from sojourn.core.wording import echo

__all__ = ["MAX_FIGURE", "wrong_figure"]

MAX_FIGURE = 2**53
"""The largest count or cost: up to here every reader of JSON agrees on an integer, and no sum is endless."""


def wrong_figure(figures: Iterable[tuple[str, Any]]) -> str | None:
    """The first figure that would lift a limit, or that is no number; None stands for one that nobody knows."""
    for name, figure in figures:
        is_number = isinstance(figure, (int, float)) and not isinstance(figure, bool)
        if figure is not None and not (is_number and 0 <= figure <= MAX_FIGURE):
            return f"`{name}` is {echo(figure)}, and is a number from 0 to 2^53"
    return None
