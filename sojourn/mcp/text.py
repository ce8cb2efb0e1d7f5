"""Texts of servers, made fit to be shown: printable, cut short, without the secrets we sent."""

from collections.abc import Iterable

from sojourn.core.values.text import clip, readable

__all__ = ["cleaned", "masked"]

_MIN_SECRET = 6
"""A shorter value is too common a word to hide."""


def cleaned(text: str, limit: int) -> str:
    """At most `limit` printable characters; line breaks and tabs stay, control and direction characters go."""
    return clip(readable(text[: limit + 1]).strip(), limit)


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with every value that a server was given in confidence hidden."""
    for secret in secrets:
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, "***")
    return text
