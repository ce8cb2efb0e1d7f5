"""Verdict: what a text says about a call that waits for approval; with the call's code it says which call it means."""

import re
from dataclasses import dataclass

from sojourn.contracts.event import AwaitAnsweredEvent

__all__ = ["Verdict", "is_same_answer", "verdict_of"]

YES = frozenset({"yes", "y", "approve", "approved", "ok", "okay"})
"""The word of an approval, in any case; nothing is beside it but the code, and perhaps a full stop."""

NO = frozenset({"no", "n", "deny", "denied"})
"""The word of a denial."""

_NAMED = re.compile(r"[\s`'\"]*(\w+)[\s,:`'\"]+([0-9a-f]{12})\b[\s.,:;!`'\"]*(.*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision on a call."""

    is_approved: bool
    """Whether the call may run."""
    reason: str = ""
    """Why it may not."""
    code: str = ""
    """The code of the call that is meant; empty where the text names none."""
    is_plain: bool = True
    """Whether it begins with the word of an approval or a denial; a text without one denies, and may be about something else."""


def verdict_of(text: str) -> Verdict:
    """What a text says. All but an approval denies: it is a person's words, not a button."""
    if found := _NAMED.fullmatch(text):
        word, code, rest = found[1].casefold(), found[2].casefold(), found[3].strip()
        if word in YES:
            return Verdict(not rest, reason=rest and text, code=code)
        if word in NO:
            return Verdict(is_approved=False, reason=rest, code=code)
    plain = _plain(text)
    if plain in YES:
        return Verdict(is_approved=True)
    is_plain = _plain(text.partition(" ")[0].rstrip(",:;")) in NO
    return Verdict(is_approved=False, reason="" if plain in NO else text, is_plain=is_plain)


def is_same_answer(event: AwaitAnsweredEvent, text: str) -> bool:
    """Whether a text says what a wait was answered with: of a call the verdict, of a question the text."""
    return event.text == text if event.approved is None else event.approved == verdict_of(text).is_approved


def _plain(text: str) -> str:
    return text.strip().rstrip(".!").strip("`'\"").casefold()
