"""A bounded excerpt of a provider's error, without keys, addresses or prompts."""

import re
from collections.abc import Collection
from typing import Any, Final

from sojourn.values.json_value import is_object
from sojourn.values.text import CUT, plain

__all__ = [
    "MAX_EXCERPT",
    "error_excerpt",
    "error_message",
    "is_content_filter",
    "is_of_template",
    "is_too_long",
    "is_unsupported",
    "is_web_page",
]

_FILTERS: Final = {
    "content_filter",
    "content_policy_violation",
    "data_inspection_failed",
    "responsibleaipolicyviolation",
}
"""Codes of content filters: of OpenAI and Azure, of OpenAI's images, of Alibaba, and Azure's inner one."""

_FILTERED: Final = re.compile(
    r"content[ _-]?(?:filter|management policy|polic(?:y|ies) violat)"
    r"|violat\w* (?:of )?(?:our |the )?(?:usage|content|safety) (?:polic|guideline)"
    r"|(?:block|reject|flag|filter)\w* (?:by|due to|for|as a result of) (?:\w+ ){0,3}?(?:safety|prohibited|usage polic|content (?:safety|polic|moderation))",
    re.IGNORECASE,
)
"""Providers' messages for a prompt or answer that a content filter holds back."""

_TOO_LONG: Final = re.compile(
    r"context[ _-]?(?:length|size|window)[ _-]?exceeded"
    r"|exceed\w* (?:the |its |your |model'?s? )?(?:available |maximum |max )?(?:context|token limit)"
    r"|maximum (?:context|prompt) length|context (?:window|size|length|the) (?:\w+ ){0,2}?(?:full|exceeded|overflow|too small)"
    r"|(?:prompt|input|request) (?:is )?too long|too many (?:input )?tokens|input tokens exceed"
    r"|request too large for .* limit \d+, requested \d+",
    re.IGNORECASE | re.DOTALL,
)
"""Servers' messages for a conversation that is too long, some with the status of another failure."""

_OF_TEMPLATE: Final = re.compile(r"\bjinja|\bminja|chat template", re.IGNORECASE)

_UNSUPPORTED: Final = re.compile(r"\bno (?:\w+ )?(?:endpoints?|providers?)\b.{0,80}\bsupport", re.IGNORECASE)
"""Routers' messages for an unsupported request, with the status of an unknown model."""

MAX_EXCERPT: Final = 600
"""Most characters of an excerpt: the first two thirds and the last third of a longer message, whose cause is often its last line."""

_TAIL: Final = 200

_MAX_READ: Final = 20_000

_MAX_WORD: Final = 300
"""Longest word that is read; a longer one is data, such as a prompt as JSON."""

_MAX_QUOTE: Final = 40
"""Longest quotation with a space to keep: a longer one may hold the prompt."""

_MAX_QUOTED_WORD: Final = 128
"""Longest quotation without a space to keep, such as a pattern or a field's path."""

_ADDRESS: Final = re.compile(r"\S*(?:://|\?\S*=|@\S*:)\S*")

_KEY: Final = re.compile(r"\b(?:(?:sk|pk|rk|gsk|xai|key)[-_*]|AIza|Bearer\s+)\S{6,}", re.IGNORECASE)

_DIGITS: Final = re.compile(r"(?=[^\s\d*]*[\d*])[\w*+/=-]{32,}")
"""A long word with digits, which is a key unless it is the name of a tool."""

_QUOTATION: Final = re.compile(
    r"""(?<!\w)(["'`])(?=\S)(?P<quoted>.*?)(?:(?P<end>\1)(?!\w)|(?=\n[^\s:]*(?:Error|Exception)\b)|\Z)""",
    re.DOTALL,
)
"""A quotation with both its marks, so that the closing mark of one is never read as the opening mark of the next."""

_ECHO: Final = re.compile(r"""(?<![\w.])["']?input(?:_value)?["']?\s*[=:].*""", re.DOTALL)
"""The rest of a message, from the point at which a server's pydantic quotes the input."""


def error_excerpt(error: BaseException, names: Collection[str] = ()) -> str:
    """Return the error message as a line of at most 600 characters."""
    text = _ECHO.sub("", error_message(error)[:_MAX_READ])
    text = re.sub(r"\S+", lambda word: _word(word[0]), text)
    text = _KEY.sub("[key]", text)
    text = _DIGITS.sub(lambda found: found[0] if found[0] in names else "[key]", text)
    text = _QUOTATION.sub(_quotation, text)
    return _bound(plain(text.strip(), _MAX_READ)).rstrip(" .,;:")


def error_message(error: BaseException) -> str:
    """Return the message of an error's body, unless it is a web page."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, str):
        return "" if body.lstrip()[:1] in ("<", "{", "[") else body  # a page, or JSON that is broken
    for each in (body.get("error"), body) if is_object(body) else ():
        message = each.get("message") if is_object(each) else each
        if isinstance(message, str):
            return message
    detail = body.get("detail") if is_object(body) else None
    return detail if isinstance(detail, str) else ""


def is_web_page(error: BaseException) -> bool:
    """Return whether an error is a web page, as of a firewall in front of a provider."""
    body: Any = getattr(error, "body", None)
    return isinstance(body, str) and body.lstrip()[:1] == "<"


def is_too_long(error: BaseException) -> bool:
    """Return whether an error says that the conversation is too long."""
    return _TOO_LONG.search(error_message(error)[:_MAX_READ]) is not None


def is_of_template(error: BaseException) -> bool:
    """Return whether a chat template failed, as it does for these messages."""
    return _OF_TEMPLATE.search(error_message(error)[:_MAX_READ]) is not None


def is_unsupported(error: BaseException) -> bool:
    """Return whether no server of the model supports the request."""
    return _UNSUPPORTED.search(error_message(error)[:_MAX_READ]) is not None


def is_content_filter(error: BaseException) -> bool:
    """Return whether an error is a content filter's, by its code or words."""
    body = getattr(error, "body", None)
    for each in (body.get("error"), body) if is_object(body) else ():
        found = (each.get("code"), each.get("type")) if is_object(each) else ()
        if any(isinstance(code, str) and code.lower() in _FILTERS for code in found):
            return True
    return _FILTERED.search(error_message(error)[:_MAX_READ]) is not None


def _word(word: str) -> str:
    return "[quoted]" if len(word) > _MAX_WORD else _ADDRESS.sub("[address]", word)


def _quotation(found: re.Match[str]) -> str:
    quoted = found["quoted"]
    longest = _MAX_QUOTE if re.search(r"\s", quoted) else _MAX_QUOTED_WORD
    return found[0] if len(quoted) <= longest else "[quoted]"


def _bound(text: str) -> str:
    if len(text) <= MAX_EXCERPT:
        return text
    return f"{text[: MAX_EXCERPT - _TAIL - 3].rstrip()} {CUT} {text[-_TAIL:].lstrip()}"
