"""Read the answers to questions, and format a question for Temporal's screens."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from sojourn.contracts.awaits import Await, AwaitClarification
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.wire_names import PROVIDE_CLARIFICATION
from sojourn.core.awaits.disclosure import describe_expiry, disclose, fence_signal, indent_lines, join_lines
from sojourn.core.awaits.envelope import Channel, Rejection, answer_digest, read_text, write_json
from sojourn.core.awaits.form import form_faults, mismatch_of, values_of
from sojourn.core.awaits.principals import answerer_of
from sojourn.core.payload.parse import arguments_digest
from sojourn.values.json_fault import json_fault
from sojourn.values.json_text import duplicate_name, loads, name_given_twice
from sojourn.values.visible import fence, visible
from sojourn.values.wire import MAX_ANSWER_CHARS

__all__ = [
    "DECLINED",
    "EMPTY_ANSWER",
    "Clarified",
    "clarification_digest",
    "faults_of",
    "format_clarification",
    "is_equal_answer",
    "read_clarification",
    "sample_clarification",
    "wanted_fields",
]

EMPTY_ANSWER = "the answer to {} is a text or an object of values by field, and not empty"
"""The refusal of an answer that says nothing, such as a blank text."""

DECLINED = "declined"
"""The code of an answer that declines a question."""


@dataclass(frozen=True, slots=True)
class Clarified:
    """An accepted answer to a question."""

    await_id: str
    text: str
    """The text, or the values by field as JSON. If declined, the reason."""
    by: str | None
    values: dict[str, Any] | None = None
    """The values by field if the question has a form, or None for a text."""
    declined: bool = False
    principal: Principal | None = None

    @property
    def code(self) -> str | None:
        return DECLINED if self.declined else None

    @property
    def digest(self) -> str:
        """A digest that is equal for a repetition of the answer."""
        return answer_digest([self.declined, "" if self.declined else self.text])

    @property
    def message(self) -> Message:
        """What the planner reads of it."""
        if not self.declined:
            return Message.user(self.text)
        return Message.system(f"The question was declined{f': {self.text}' if self.text else '.'}")


def read_clarification(
    question: AwaitClarification, fields: dict[str, Any], by: str | None, channel: Channel
) -> Clarified | Rejection:
    principal = answerer_of(fields, channel)
    if isinstance(principal, Rejection):
        return principal
    read = _read(question, fields, by, channel)
    return read if isinstance(read, Rejection) or principal is None else replace(read, principal=principal)


def is_equal_answer(recorded: str, answer: str | dict[str, Any]) -> bool:
    """Return whether an answer is the one whose text was recorded.

    Values by field are equal as JSON: in any order, with 5.0 for 5, and as an object or its text.
    """
    if answer == recorded:
        return True
    one, other = _values_in(recorded), answer if isinstance(answer, dict) else _values_in(answer)
    return one is not None and other is not None and arguments_digest(one) == arguments_digest(other)


def _values_in(text: str) -> dict[str, Any] | None:
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def clarification_digest(fields: dict[str, Any]) -> str:
    """Return the digest that `Clarified` would have for a message."""
    declined, answer = fields.get("declined") is True, fields.get("answer")
    text = answer if isinstance(answer, str) else write_json(answer)
    return answer_digest([declined, "" if declined else text])


def _read(
    question: AwaitClarification, fields: dict[str, Any], by: str | None, channel: Channel
) -> Clarified | Rejection:
    if fields.get("declined") is True:
        reason = read_text(fields, "reason")
        return reason if isinstance(reason, Rejection) else Clarified(question.id, reason, by, declined=True)
    answer = fields.get("answer")
    is_yes = answer == {} and question.tool_call_id is not None  # an empty form needs no values
    is_blank = channel == "update" and isinstance(answer, str) and not answer.strip()
    if not isinstance(answer, (str, dict)) or is_blank or not (answer or is_yes):
        return Rejection(EMPTY_ANSWER.format(question.id))
    text = answer if isinstance(answer, str) else write_json(answer)
    if len(text) > MAX_ANSWER_CHARS:
        return Rejection(f"an answer has at most {MAX_ANSWER_CHARS:,} characters; this one has {len(text):,}")
    if fault := _fault_of(answer, channel):
        return Rejection(f"the answer to {question.id} cannot be used: {fault}")
    if question.form is None:
        values = cast("dict[str, Any]", answer) if question.closed and isinstance(answer, dict) else {}
        named: dict[str, Any] = {name: {} for name in question.missing_fields}
        if wrong := mismatch_of({"properties": named}, values, whole=False, closed=True):
            return Rejection(f"the answer to {question.id} does not fit: {wrong}")
        return Clarified(question.id, text, by)
    values = cast("dict[str, Any]", answer) if isinstance(answer, dict) else values_of(question.form, answer)
    if values is None and question.tool_call_id is None:
        return Clarified(question.id, text, by)  # a person's own words, for the planner to read
    if fault := json_fault(values, max_bytes=None):  # a text may contain JSON that cannot be written again
        return Rejection(f"the answer to {question.id} cannot be used: {fault.message}")
    wrong = mismatch_of(
        question.form,
        values,
        whole=_is_whole(question) if channel != "accepted" else question.tool_call_id is not None,
        closed=question.closed,
        in_full=question.checks_in_full,
    )
    if wrong:
        return Rejection(f"the answer to {question.id} does not fit: {wrong}")
    return Clarified(question.id, text, by, values)


def faults_of(wait: Await, fields: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the fields of an answer that do not fit, each with a `message`."""
    if not isinstance(wait, AwaitClarification):
        return []
    named: dict[str, Any] = {name: {} for name in wait.missing_fields}
    form: dict[str, Any] = {"properties": named} if wait.form is None else wait.form
    answer = fields.get("answer")
    values = cast("dict[str, Any]", answer) if isinstance(answer, dict) else values_of(form, str(answer))
    if values is None:
        return []
    is_known = wait.form is not None
    rules = {
        "whole": is_known and _is_whole(wait),
        "closed": wait.closed,
        "in_full": is_known and wait.checks_in_full,
    }
    try:
        return form_faults(form, values, **rules)
    except (ValueError, RecursionError, OverflowError):
        return []


def _is_whole(question: AwaitClarification) -> bool:
    """Return whether an answer by field has all fields that the form requires.

    A planner reads the answer to a form that it gave itself, whatever is in it.
    """
    return question.tool_call_id is not None or (question.closed and question.checks_in_full)


def _fault_of(answer: Any, channel: Channel) -> str | None:
    # Only a new answer is refused because a name occurs twice: recorded histories contain such answers.
    if channel == "update" and isinstance(answer, str) and (name := duplicate_name(answer)) is not None:
        return name_given_twice(name)
    fault = json_fault(answer, max_bytes=None)
    return fault.message if fault else None


def format_clarification(run_id: str, wait: AwaitClarification) -> str:
    """Return a question in Markdown for Temporal's screens, with its answer command."""
    text = join_lines(_question(wait))
    command = fence_signal(run_id, PROVIDE_CLARIFICATION, sample_clarification(wait))
    return "\n\n".join(["**Waiting for an answer:**", fence(text), command])


def sample_clarification(wait: AwaitClarification) -> dict[str, Any]:
    return {"id": wait.id, "answer": "YOUR ANSWER"}


def _question(wait: AwaitClarification) -> list[str]:
    return [
        visible(wait.question, keep="\n"),
        visible(wait.clarifying_prompt or "", keep="\n"),
        f"Wanted: {', '.join(wanted_fields(wait))}" if wait.missing_fields else "",
        *(["For example:", *indent_lines(disclose(wait.example_input))] if wait.example_input else []),
        f"Asked by {visible(wait.server)}" if wait.server else "",
        describe_expiry(wait),
    ]


def wanted_fields(wait: AwaitClarification) -> list[str]:
    return [_format_field(name, wait.form) for name in wait.missing_fields]


def _format_field(name: str, form: dict[str, Any] | None) -> str:
    fields = (form or {}).get("properties")
    field = cast("dict[str, Any]", fields).get(name) if isinstance(fields, dict) else None
    kind = cast("dict[str, Any]", field).get("type") if isinstance(field, dict) else None
    return f"{visible(name)} ({visible(kind)})" if isinstance(kind, str) else visible(name)
