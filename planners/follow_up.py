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

__all__ = ["asked", "is_thanks"]

_FILLERS = re.compile(
    r"\b(?:a|about|again|also|and|at|between|days?|device|for|from|hours?|how|is|it|last|months?|of|ok|okay|on|over"
    r"|past|please|same|site|so|that|the|then|this|to|until|weeks?|what)\b"
)
"""Words that a follow-up may have beside what it is about."""

_THANKS = frozenset({"thanks", "thank you", "thx", "cheers"})


def asked(text: str, earlier: Iterable[str]) -> Question | None:
    """Return the question in a text; of `and s-3?`, the last question of the texts before, about s-3."""
    known: Question | None = None
    for each in earlier:
        known = _meant(each, known) or known
    return _meant(text, known)


def is_thanks(text: str) -> bool:
    """Whether the text is a thank-you, and nothing more."""
    return text.strip().strip(".!").lower() in _THANKS


def _meant(text: str, known: Question | None) -> Question | None:
    return question_of(text) or (known and _about(text, known))


def _about(text: str, known: Question) -> Question | None:
    """The known question about the site, device or time of a text; None where the text has something else in it."""
    site, device, window = SITE.search(text), DEVICE.search(text), window_of(text)
    rest = _FILLERS.sub("", DEVICE.sub("", SITE.sub("", text)).lower())
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
    says_more = re.search(r"[a-z]", rest)
    return (
        replace(known, **changes) if fits and (changes or "again" in text.lower()) and not says_more else None
    )
