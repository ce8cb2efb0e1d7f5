"""Read a person's text as the answer to a wait.

Every chat reads by these rules what its user writes. Text that decides on a call approves it only in so
many words: everything else denies, since it may be about something else.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

from sojourn.answers.submitting import Answer, Decision, Declined, GivenAnswer
from sojourn.answers.wait_view import WaitView
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.errors import InvalidInput, StaleDigest

__all__ = ["Verdict", "parse_answer", "parse_payload", "read_verdict"]

YES = frozenset({"yes", "y", "approve", "approved", "ok", "okay"})
"""Words of an approval, in any case. A text may add only the code and a full stop."""

NO = frozenset({"no", "n", "deny", "denied"})
"""Words of a denial."""

_NAMED = re.compile(r"[\s`'\"]*(\w+)[\s,:`'\"]+([0-9a-f]{12})\b[\s.,:;!`'\"]*(.*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a text on a call."""

    is_approved: bool
    """Whether the call may run."""
    reason: str = ""
    """The reason of a denial."""
    code: str = ""
    """Code of the call that the text names, or empty."""
    is_plain: bool = True
    """Whether the text begins with a word of approval or denial.

    A text without one denies, and may be about something else.
    """


def read_verdict(text: str) -> Verdict:
    """Parse a text as the verdict on a call.

    Everything but an approval denies, since these are a person's words, not a button.
    """
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


def _plain(text: str) -> str:
    return text.strip().rstrip(".!").strip("`'\"").casefold()


def parse_answer(view: WaitView, text: str) -> GivenAnswer:
    """Return a text as the answer to a wait.

    Raises:
        InvalidInput: No text answers a wait of this kind.
        StaleDigest: The text decides on another call.
    """
    match view.wait:
        case AwaitClarification():
            return Answer(text)
        case AwaitConfirmation():
            return _decision(view, text)
        case AwaitExternalTools():
            message = f"{view.await_id} waits for results of calls, and not for a text"
            raise InvalidInput(message, run_id=view.run_id)


def parse_payload(view: WaitView, value: Any, *, declined: bool = False, reason: str = "") -> GivenAnswer:
    """Return a value, or that it is declined, as the answer to a wait.

    The wait `takes_words`: the value is a text, or has the values by field.

    Raises:
        InvalidInput: It is neither, or the wait takes other answers.
    """
    match view.wait:
        case AwaitClarification() if declined:
            return Declined(reason)
        case AwaitClarification() if isinstance(value, (str, dict)):
            return Answer(cast("str | dict[str, Any]", value))
        case AwaitClarification():
            message = f"the answer to {view.await_id} is a text, or an object with values by field"
        case AwaitConfirmation():
            message = f"{view.await_id} waits for a decision on a call"
        case AwaitExternalTools():
            message = f"{view.await_id} waits for results of calls"
    raise InvalidInput(message, run_id=view.run_id)


def _decision(view: WaitView, text: str) -> Decision:
    verdict, code = read_verdict(text), view.ref.code
    if verdict.code not in ("", code):
        message = f"the answer names another call than the one that waits: answer yes {code}, or no {code}, once it was seen"
        raise StaleDigest(message, run_id=view.run_id, await_id=view.await_id, digest=view.digest or "")
    return Decision(verdict.is_approved, view.digest, "" if verdict.is_approved else verdict.reason)
