"""Follow-ups: a short message in a conversation that asks the last question again, about something else."""

import re
from collections.abc import Iterable
from dataclasses import replace

from planners.questions import (
    DEVICE,
    SITE,
    ListDevices,
    ListWorkOrders,
    Question,
    ShowReadings,
    WhyDark,
    question_of,
)
from planners.windows import window_of

__all__ = ["asked", "begins_anew"]

_FILLERS = re.compile(
    r"\b(?:a|about|again|also|and|at|between|days?|device|for|from|hours?|how|is|it|last|months?|of|ok|okay|on|over"
    r"|past|please|same|site|so|that|the|then|this|to|until|weeks?|what)\b"
)
"""Words that a follow-up may have beside what it is about."""

_LEADS = re.compile(r"\s*(?:and|again|(?:what|how) about)\b", re.IGNORECASE)
"""How a follow-up begins that is no answer: a site alone may be one."""

_REPEATS = re.compile(r"\b(?:and|again)\b", re.IGNORECASE)
"""What asks the last question once more, where nothing else is named."""


def asked(text: str, earlier: Iterable[str]) -> Question | None:
    """Return the question in a text; of `and s-3?`, the last question of the texts before, about s-3."""
    texts = list(earlier)
    start = next((place for place in reversed(range(len(texts))) if question_of(texts[place])), len(texts))
    known: Question | None = None
    for each in texts[start:]:
        known = _meant(each, known) or known
    return _meant(text, known)


def begins_anew(text: str) -> bool:
    """Whether a message is a question or a follow-up also where an answer is awaited, or while a turn is under way."""
    return question_of(text) is not None or (_LEADS.match(text) is not None and not _says_more(text))


def _meant(text: str, known: Question | None) -> Question | None:
    return question_of(text) or (known and _about(text, known))


def _about(text: str, known: Question) -> Question | None:
    """The known question about the site, device or time of a text; None where the text has something else in it."""
    site, device, window = SITE.search(text), DEVICE.search(text), window_of(text)
    changes = {
        name: value
        for name, value in (
            ("site_id", site and site[1].lower()),
            ("device_id", device and device[1].lower()),
            ("window", window),
        )
        if value
    }
    is_lookup = isinstance(known, WhyDark | ListDevices | ShowReadings | ListWorkOrders)
    fits = is_lookup and all(hasattr(known, name) for name in changes)
    repeats = changes or _REPEATS.search(text)
    return replace(known, **changes) if fits and repeats and not _says_more(text) else None


def _says_more(text: str) -> bool:
    """Whether a text has more in it than fillers, and what a follow-up is about."""
    rest = _FILLERS.sub("", DEVICE.sub("", SITE.sub("", text)).lower())
    return re.search(r"[^\W\d_]", rest) is not None
