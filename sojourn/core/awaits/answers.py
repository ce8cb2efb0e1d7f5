"""What people and systems send to a run, read by hand in workflow code.

A signal from Temporal's CLI or UI carries whatever somebody typed, so nothing here may raise, and
what is accepted must not depend on a library's version.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.core.awaits.form import misfit_of, values_of
from sojourn.core.values.json_fault import json_fault
from sojourn.core.values.sizes import MAX_ANSWER_CHARS, MAX_RESULT_BYTES
from sojourn.core.values.text import clip, echo
from sojourn.core.values.visible import visible

__all__ = [
    "CLARIFICATION",
    "CONFIRMATION",
    "TOOL_RESULTS",
    "Answer",
    "Clarified",
    "Decided",
    "Door",
    "Refused",
    "Supplied",
    "by_of",
    "digest_of",
    "digest_sent",
    "is_writable",
    "kind_of",
    "read",
    "text_of",
]

CLARIFICATION = "provide_clarification"
CONFIRMATION = "provide_confirmation"
TOOL_RESULTS = "provide_tool_results"

Door = Literal["update", "signal", "accepted"]
"""How it came: by an update that is still to be judged, by a signal, by an update that was accepted before.

Only the first is held to every rule of today: the others are in histories that a rule must not change.
"""

_MAX_BY_CHARS = 200
_MAX_REASON_CHARS = 2_000
_MAX_REFUSAL_CHARS = 480


@dataclass(frozen=True, slots=True)
class Clarified:
    """An accepted answer to a question."""

    await_id: str
    text: str
    """The text, or the values by field as JSON; why, where it was declined."""
    by: str | None
    values: dict[str, Any] | None = None
    """By field, where the question has a form; None where only a text was given."""
    declined: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """An accepted decision on a call."""

    await_id: str
    approved: bool
    reason: str
    by: str | None
    scope: str = "call"
    """`call`, or `tool`: stop asking about it in this run."""

    @property
    def text(self) -> str:
        """What was said beside it."""
        return self.reason


@dataclass(frozen=True, slots=True)
class Supplied:
    """Accepted results of calls that were executed outside."""

    await_id: str
    results: dict[str, dict[str, Any]]
    """By call: `result`, or `error` and perhaps `retry_hint`; checked against the tool later."""
    by: str | None

    @property
    def text(self) -> str:
        """Nothing was said."""
        return ""


Answer = Clarified | Decided | Supplied


@dataclass(frozen=True, slots=True)
class Refused:
    """Why it is no answer, for whoever sent it."""

    reason: str
    """One printable line, cut short: it may repeat what was sent."""
    kind: str = "InvalidAnswer"
    """`InvalidAnswer`, `AwaitClosed` (answered before), `AwaitNotOpen` (unknown, perhaps not asked yet) or `NotBound`
    (a decision that does not say about which arguments)."""

    def __post_init__(self) -> None:
        """Keep what was sent from doing harm where the reason is shown."""
        shown = visible(self.reason[: _MAX_REFUSAL_CHARS + 1])
        object.__setattr__(self, "reason", clip(shown, _MAX_REFUSAL_CHARS))


def kind_of(wait: Await) -> str:
    """By which update or signal this is answered."""
    if isinstance(wait, AwaitClarification):
        return CLARIFICATION
    return CONFIRMATION if isinstance(wait, AwaitConfirmation) else TOOL_RESULTS


def read(wait: Await, fields: dict[str, Any], door: Door = "signal") -> Answer | Refused:
    """Judge what was sent in answer to an open wait."""
    by = by_of(fields)
    if isinstance(by, Refused):
        return by
    try:
        if isinstance(wait, AwaitClarification):
            return _clarified(wait, fields, by)
        if isinstance(wait, AwaitConfirmation):
            return _decided(wait, fields, by, door)
        return _supplied(wait, fields, by)
    except (ValueError, RecursionError, OverflowError):  # such as a number of 5,000 digits
        return Refused(f"the answer to {wait.id} cannot be written as JSON")


def by_of(fields: dict[str, Any]) -> str | Refused | None:
    """Who sent it, as they say."""
    by = fields.get("by")
    if by is not None and (not isinstance(by, str) or len(by) > _MAX_BY_CHARS or not is_writable(by)):
        return Refused(f"`by` is a name of at most {_MAX_BY_CHARS} characters")
    return by or None


def text_of(fields: dict[str, Any], name: str) -> str | Refused:
    """A short text that may be left out."""
    text = fields.get(name)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > _MAX_REASON_CHARS or not is_writable(text):
        return Refused(f"`{name}` is a text of at most {_MAX_REASON_CHARS:,} characters")
    return text


def digest_of(answer: Answer) -> str:
    """What tells a repetition of an answer from another one."""
    match answer:
        case Clarified():
            return _digest([answer.declined, "" if answer.declined else answer.text])
        case Decided():
            return _digest([answer.approved, answer.scope])
        case Supplied():
            return ""


def digest_sent(fields: dict[str, Any]) -> str:
    """The same of what was sent, as far as it is an answer at all."""
    try:
        if "approved" in fields:
            return _digest([fields["approved"], fields.get("scope") or "call"])
        declined = fields.get("declined") is True
        return _digest([declined, "" if declined else _said(fields.get("answer"))])
    except (ValueError, RecursionError, OverflowError):
        return "no answer"


def _digest(said: Any) -> str:
    return hashlib.sha256(_json(said).encode(errors="surrogatepass")).hexdigest()[:16]


def _said(answer: Any) -> str:
    return answer if isinstance(answer, str) else _json(answer)


def _clarified(question: AwaitClarification, fields: dict[str, Any], by: str | None) -> Clarified | Refused:
    if fields.get("declined") is True:
        reason = text_of(fields, "reason")
        return reason if isinstance(reason, Refused) else Clarified(question.id, reason, by, declined=True)
    answer = fields.get("answer")
    is_yes = answer == {} and question.tool_call_id is not None  # to a form with nothing that must be filled
    if not isinstance(answer, (str, dict)) or not (answer or is_yes):
        return Refused(
            f"the answer to {question.id} is a text or an object of values by field, and not empty"
        )
    text = _said(answer)
    if len(text) > MAX_ANSWER_CHARS:
        return Refused(f"an answer has at most {MAX_ANSWER_CHARS:,} characters; this one has {len(text):,}")
    if fault := json_fault(answer, max_bytes=None):
        return Refused(f"the answer to {question.id} cannot be used: {fault.message}")
    if question.form is None:
        values = cast("dict[str, Any]", answer) if question.closed and isinstance(answer, dict) else {}
        named: dict[str, Any] = {name: {} for name in question.missing_fields}
        if wrong := misfit_of({"properties": named}, values, whole=False, closed=True):
            return Refused(f"the answer to {question.id} does not fit: {wrong}")
        return Clarified(question.id, text, by)
    values = cast("dict[str, Any]", answer) if isinstance(answer, dict) else values_of(question.form, answer)
    if values is None and question.tool_call_id is None:
        return Clarified(question.id, text, by)  # a person's own words, for the planner to read
    if fault := json_fault(values, max_bytes=None):  # a text may say in JSON what cannot be written
        return Refused(f"the answer to {question.id} cannot be used: {fault.message}")
    wrong = misfit_of(question.form, values, whole=question.tool_call_id is not None, closed=question.closed)
    if wrong:
        return Refused(f"the answer to {question.id} does not fit: {wrong}")
    return Clarified(question.id, text, by, values)


def _decided(
    call: AwaitConfirmation, fields: dict[str, Any], by: str | None, door: Door
) -> Decided | Refused:
    approved, scope = fields.get("approved"), fields.get("scope") or "call"
    if not isinstance(approved, bool):
        return Refused(f"the answer to {call.id} says `approved`: true or false")
    if scope not in ("call", "tool") or (scope == "tool" and not approved):
        return Refused("`scope` is `call`, or with an approval `tool`")
    reason = text_of(fields, "reason")
    if isinstance(reason, Refused):
        return reason
    digest = fields.get("payload_digest")
    if digest is None and call.payload_digest and (door == "update" or (door == "signal" and call.binds)):
        bound = {"id": call.id, "approved": approved, "payload_digest": call.payload_digest}
        return Refused(
            f"a decision says which arguments were seen: look at them, and send {_json(bound)}", "NotBound"
        )
    if digest is not None and digest != call.payload_digest:
        return Refused(f"{call.id} is about other arguments than those of this digest")
    return Decided(call.id, approved, reason, by, scope)


def _supplied(wait: AwaitExternalTools, fields: dict[str, Any], by: str | None) -> Supplied | Refused:
    results = fields.get("results")
    if not isinstance(results, list) or not results:
        return Refused('`results` is a list of {"tool_call_id": "...", "result": ...} or with an "error"')
    asked = {item.tool_call_id for item in wait.items}
    given: dict[str, dict[str, Any]] = {}
    for result in cast("list[Any]", results):
        one = _one_result(result, asked)
        if isinstance(one, Refused):
            return one
        if one[0] in given:
            return Refused(f"call {one[0]} is answered twice")
        given[one[0]] = one[1]
    if len(_json(given).encode()) > MAX_RESULT_BYTES:
        return Refused(f"results have together at most {MAX_RESULT_BYTES:,} bytes; send them in parts")
    return Supplied(wait.id, given, by)


def _one_result(value: Any, asked: set[str]) -> tuple[str, dict[str, Any]] | Refused:
    if not isinstance(value, dict):
        return Refused("a result is an object with `tool_call_id`")
    fields = cast("dict[str, Any]", value)
    call_id = fields.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in asked:
        return Refused(f"no call {echo(call_id)} waits here; open: {_listed(sorted(asked))}")
    if ("result" in fields) == ("error" in fields):
        return Refused(f"call {call_id} is answered by either `result` or `error`")
    if "error" in fields and not _is_error(fields["error"]):
        return Refused(f"the error of call {call_id} is a text, or an object with a `message`")
    given = {name: fields[name] for name in ("result", "error", "retry_hint") if name in fields}
    for name, said in given.items():
        if fault := json_fault(said, max_bytes=None):
            return Refused(f"the {name} of call {call_id} cannot be used: {fault.message}")
    return call_id, given


def _is_error(error: Any) -> bool:
    if isinstance(error, dict):
        error = cast("dict[str, Any]", error).get("message")
    return isinstance(error, str) and bool(error)


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids[:5]) + (" ..." if len(ids) > 5 else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def is_writable(text: str) -> bool:
    """Whether a text is characters all through: half of a surrogate pair would fail what writes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
