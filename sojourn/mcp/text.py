"""Texts of servers, made safe to show: printable, of limited length, and without the secrets sent to the server."""

from collections.abc import Iterable
from functools import lru_cache

from sojourn.core.payload.masking import secret_forms
from sojourn.core.values.text import clip, plain, readable

__all__ = ["cleaned", "longest_form", "masked", "masked_start", "progress_line"]

_MIN_SECRET = 6
"""Characters of the shortest value that is masked; shorter ones are too common in texts."""

_MAX_PROGRESS = 200


def cleaned(text: str, limit: int) -> str:
    """Return at most `limit` characters, with line breaks and tabs; a space replaces each control or bidirectional character."""
    return clip(readable(text[: limit + 1]).strip(), limit)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret of at least 6 characters replaced by `***`, in every form of `secret_forms`.

    A text is masked before it is cut: half a secret is not found.
    """
    for form in _forms(tuple(secrets)):
        text = text.replace(form, "***")
    return text


def masked_start(text: str, secrets: Iterable[str]) -> str:
    """Return the start of a longer text, masked, without as much of its end as the first part of a secret may take."""
    secrets = tuple(secrets)
    return masked(text, secrets)[: -longest_form(secrets) or None]


def longest_form(secrets: Iterable[str]) -> int:
    """Return the characters of the longest text that `masked` replaces."""
    return max(map(len, _forms(tuple(secrets))), default=0)


@lru_cache(maxsize=16)
def _forms(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is replaced, the longest first, since a longer secret may contain a shorter one."""
    found = {form for secret in secrets if len(secret) >= _MIN_SECRET for form in secret_forms(secret)}
    return tuple(sorted((form for form in found if len(form) >= _MIN_SECRET), key=len, reverse=True))


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """Return a progress notification as a line, such as `3 of 10: reading`."""
    figure = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
    return plain(f"{figure}: {message}" if message else figure, _MAX_PROGRESS)
