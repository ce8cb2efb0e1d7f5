"""Read a person's text as the answer to a wait.

Every chat reads by these rules what its user writes. Text that decides on a call approves it only in so
many words: everything else denies, since it may be about something else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, cast

from sojourn.answers.submitting import Answer, Decision, Declined, GivenAnswer
from sojourn.answers.wait_view import WaitView
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.core.awaits.clarification import EMPTY_ANSWER
from sojourn.core.awaits.confirmation import NO_EDIT
from sojourn.errors import InvalidInput, StaleDigest
from sojourn.values.numbers import restore_exact

__all__ = ["NO_EDIT_HERE", "Verdict", "parse_answer", "parse_decision", "parse_payload", "read_verdict"]

YES = frozenset({"yes", "y", "approve", "approved", "ok", "okay"})
"""Words of an approval, in any case. A text may add only the code and a full stop."""

NO = frozenset({"no", "n", "deny", "denied"})
"""Words of a denial."""

NO_EDIT_HERE = f"arguments cannot be edited here: {NO_EDIT}"
"""The advice to the sender of other arguments by a protocol that has no field for them."""

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
        InvalidInput: No text answers a wait of this kind, or the text is blank.
        StaleDigest: The text decides on another call.
    """
    if not text.strip():
        raise InvalidInput(EMPTY_ANSWER.format(view.await_id), run_id=view.run_id)
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
        InvalidInput: It is neither, or the wait takes other answers, or may not be declined.
    """
    if declined and not view.may_be_declined:
        raise InvalidInput(f"{view.await_id}, {view.noun}, cannot be declined: answer it", run_id=view.run_id)
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


def parse_decision(
    view: WaitView,
    fields: Mapping[str, Any],
    known: Sequence[str],
    *,
    approved: Any = None,
    edited_as: str = "",
) -> Decision:
    """Return the fields of a decision on a call, bound to the call as displayed.

    A malformed decision is refused, so that it does not become a denial, and so is a further field, which would be
    ignored: such a field is mostly an attempt to run the call with other arguments.

    Args:
        view: The call.
        fields: What the client sent: `approved`, and perhaps `reason` and `scope`.
        known: The fields that the protocol knows.
        approved: The verdict, if the protocol has another field for it.
        edited_as: The field for edited arguments, if the protocol has one.

    Raises:
        InvalidInput: A field is unknown, or not of its type.
    """
    known = (*known, *filter(None, [edited_as]))
    for name in fields:
        if name not in known:
            how = f"edited arguments are sent as `{edited_as}`" if edited_as else NO_EDIT_HERE
            message = f"a decision on a call has no field {name[:80]!r}, but {', '.join(known)}; {how}"
            raise InvalidInput(message, run_id=view.run_id)
    approved = fields.get("approved") if approved is None else approved
    reason, scope = fields.get("reason"), fields.get("scope", "call")
    edited = fields.get(edited_as) if edited_as else None
    wrong = ""
    if not isinstance(approved, bool):
        wrong = "`approved` is true or false"
    elif not isinstance(reason, (str, NoneType)):
        wrong = "`reason` is a text"
    elif scope not in ("call", "tool", "sources") or (scope != "call" and not approved):
        wrong = "`scope` is `call`, or with an approval `tool` or `sources`"
    elif not isinstance(edited, (dict, NoneType)):
        wrong = f"`{edited_as}` is an object with all arguments of the call"
    if wrong:
        example = '{"approved": true}, or {"approved": false, "reason": "..."}'
        raise InvalidInput(f"{wrong}: decide on {view.await_id} by {example}", run_id=view.run_id)
    arguments = None if edited is None else restore_exact(edited, view.payload)
    return Decision(approved is True, view.digest, reason or "", scope, arguments)


def _decision(view: WaitView, text: str) -> Decision:
    verdict, code = read_verdict(text), view.ref.code
    if verdict.code not in ("", code):
        message = f"the answer names another call than the one that waits: answer yes {code}, or no {code}, once it was seen"
        raise StaleDigest(message, run_id=view.run_id, await_id=view.await_id, digest=view.digest or "")
    return Decision(verdict.is_approved, view.digest, "" if verdict.is_approved else verdict.reason)
