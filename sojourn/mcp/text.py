"""Texts of servers, made safe to show: printable, of limited length, and without the secrets sent to the server."""

from collections.abc import Iterable

from sojourn.core.values.text import clip, plain, readable

__all__ = ["cleaned", "masked", "progress_line"]

_MIN_SECRET = 6
"""Characters of the shortest value that is masked; shorter ones are too common in texts."""

_MAX_PROGRESS = 200


def cleaned(text: str, limit: int) -> str:
    """Return at most `limit` characters, with line breaks and tabs; a space replaces each control or bidirectional character."""
    return clip(readable(text[: limit + 1]).strip(), limit)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret of at least 6 characters replaced by `***`."""
    for secret in secrets:
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, "***")
    return text


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """Return a progress notification as a line, such as `3 of 10: reading`."""
    figure = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
    return plain(f"{figure}: {message}" if message else figure, _MAX_PROGRESS)
