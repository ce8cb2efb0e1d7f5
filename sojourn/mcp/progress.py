"""Progress of a call in flight, for whoever carries it out."""

from typing import Protocol

from sojourn.core.values.text import plain

__all__ = ["OnProgress", "told"]

_MAX_LINE = 200


class OnProgress(Protocol):
    """What the SDK calls with each notification."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take one notification."""
        ...


def told(progress: float, total: float | None, message: str | None) -> str:
    """A progress notification as a line: `3 of 10: reading`."""
    figure = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
    return plain(f"{figure}: {message}" if message else figure, _MAX_LINE)
