"""Error excerpt: a bounded piece of a provider's error message, without keys, addresses or quotes of a prompt."""

import re
from typing import Any, Final

from sojourn.core.values.json_value import is_object
from sojourn.core.values.text import plain

__all__ = ["error_excerpt", "is_content_filter"]

_FILTERS: Final = {
    "content_filter",
    "content_policy_violation",
    "data_inspection_failed",
    "responsibleaipolicyviolation",
}
"""Codes of content filters: of OpenAI and Azure, of OpenAI's images, of Alibaba, and Azure's inner one."""

_MAX_TEXT = 160

_MAX_READ = 2_000

_SECRETS: Final = (
    (re.compile(r"\S*(?:://|\?\S*=|@\S*:)\S*"), "[address]"),
    (re.compile(r"\b(?:(?:sk|pk|rk|gsk|xai|key)[-_*]|AIza|Bearer\s+)\S{6,}", re.IGNORECASE), "[key]"),
    (re.compile(r"(?=[^\s\d*]*[\d*])[\w*+/=-]{32,}"), "[key]"),
    (re.compile(r"""(?<!\w)(["'`]).{41,}?(?:\1|\Z)""", re.DOTALL), "[quoted]"),
)
"""Patterns and their replacements, which rather match too much; a long quotation more likely holds the prompt than a setting."""
_ECHO: Final = re.compile(r"""["']?\binput(?:_value)?["']?\s*[=:].*""", re.DOTALL)
"""The rest of a message from where a server that validates with pydantic quotes its input."""


def error_excerpt(error: BaseException) -> str:
    """Return the provider's error message as a line of at most 160 characters; empty when there is none.

    Args:
        error: An error of pydantic-ai, which has the response's JSON as `body`.
    """
    text = _message(getattr(error, "body", None))
    text = _ECHO.sub("", text[:_MAX_READ])
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return plain(text.strip(), _MAX_TEXT).rstrip(" .,;:")


def is_content_filter(error: BaseException) -> bool:
    """Whether the error's body, or its `error` object, has the code or the type of a content filter."""
    body = getattr(error, "body", None)
    for each in (body.get("error"), body) if is_object(body) else ():
        found = (each.get("code"), each.get("type")) if is_object(each) else ()
        if any(isinstance(code, str) and code.lower() in _FILTERS for code in found):
            return True
    return False


def _message(body: Any) -> str:
    """Return the message of an error's body, from its `error` object or from the body itself; empty when there is none."""
    for each in (body.get("error"), body) if is_object(body) else ():
        message = each.get("message") if is_object(each) else None
        if isinstance(message, str):
            return message
    return ""
