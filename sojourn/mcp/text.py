"""Texts of servers, made fit to be shown: printable, cut short, without the secrets that were sent."""

from collections.abc import Iterable

from sojourn.core.values.text import clip, plain, readable

__all__ = ["cleaned", "masked", "progress_line"]

_MIN_SECRET = 6
"""A shorter value is too common a word to hide."""

_MAX_PROGRESS = 200


def cleaned(text: str, limit: int) -> str:
    """At most `limit` printable characters; line breaks and tabs stay, control and direction characters go."""
    return clip(readable(text[: limit + 1]).strip(), limit)


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with every value that a server was given in confidence hidden."""
    for secret in secrets:
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, "***")
    return text


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """A progress notification as a line: `3 of 10: reading`."""
    figure = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
    return plain(f"{figure}: {message}" if message else figure, _MAX_PROGRESS)
