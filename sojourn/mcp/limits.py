"""Limits on the messages of an MCP server, and its texts made safe to display."""

from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache

from sojourn.core.payload.masking import secret_forms
from sojourn.values.text import clip, plain, readable

__all__ = [
    "CONNECT_TIMEOUT",
    "LIST_TIMEOUT",
    "MAX_DESCRIPTION",
    "MAX_INLINE_TEXT",
    "MAX_INPUT_REQUESTS",
    "MAX_INPUT_ROUNDS",
    "MAX_INSTRUCTIONS",
    "MAX_MESSAGE_BYTES",
    "MAX_PAGES",
    "MAX_SCHEMA_BYTES",
    "MAX_SESSIONS",
    "MAX_TEXT_BESIDE",
    "MAX_TOOLS",
    "READ_RESOURCE",
    "SESSION_IDLE",
    "TTL",
    "clean_text",
    "longest_form",
    "mask_secrets",
    "mask_start",
    "progress_line",
]

MAX_MESSAGE_BYTES = 8_000_000
"""Bytes of one message on the wire: room for a result of 1 MB sent twice (structured and as text), or for an image."""

MAX_PAGES = 50
MAX_TOOLS = 1_000
MAX_SCHEMA_BYTES = 100_000
MAX_DESCRIPTION = 4_000

MAX_INLINE_TEXT = 20_000
"""Characters of a resource's text in a result; a longer one is an artifact."""

MAX_INSTRUCTIONS = 2_000

READ_RESOURCE = "\0resources/read"
"""The pseudo tool name of reading a resource: no tool has a name with NUL."""

MAX_TEXT_BESIDE = 100_000
"""Characters of the texts beside structured content; longer ones are an artifact."""

MAX_INPUT_REQUESTS = 20

MAX_INPUT_ROUNDS = 10
"""Requests in one execution of a call that all ask for input without a person; as in the SDKs."""

CONNECT_TIMEOUT = timedelta(seconds=30)
LIST_TIMEOUT = timedelta(seconds=60)
TTL = timedelta(minutes=5)
MAX_SESSIONS = 32
SESSION_IDLE = timedelta(minutes=10)
_MIN_SECRET = 6
_MAX_PROGRESS = 200


def clean_text(text: str, limit: int) -> str:
    """Return at most `limit` characters, a space for each unsafe one.

    Line breaks and tabs stay. Control and bidirectional characters are unsafe.
    """
    return clip(readable(text[: limit + 1]).strip(), limit)


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret, in every form, replaced by `***`.

    Mask a text before it is cut: half a secret is not found.
    """
    for form in _forms(tuple(secrets)):
        text = text.replace(form, "***")
    return text


def mask_start(text: str, secrets: Iterable[str]) -> str:
    """Return the masked start of a longer text, without the first part of a secret."""
    secrets = tuple(secrets)
    return mask_secrets(text, secrets)[: -longest_form(secrets) or None]


def longest_form(secrets: Iterable[str]) -> int:
    return max(map(len, _forms(tuple(secrets))), default=0)


@lru_cache(maxsize=16)
def _forms(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts to replace, the longest first, as it may contain others."""
    found = {form for secret in secrets if len(secret) >= _MIN_SECRET for form in secret_forms(secret)}
    return tuple(sorted((form for form in found if len(form) >= _MIN_SECRET), key=len, reverse=True))


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """Return a progress notification as a line, such as `3 of 10: reading`."""
    figure = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
    return plain(f"{figure}: {message}" if message else figure, _MAX_PROGRESS)
