"""Answers from people: is this an answer to the open question? Checked by hand, in workflow code.

A signal from Temporal's CLI or UI carries whatever somebody typed, so nothing here may raise.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.awaits import AwaitClarification

__all__ = ["MAX_ANSWER_CHARS", "Answer", "Refused", "read_answer"]

MAX_ANSWER_CHARS = 64_000
"""Characters of an answer, as JSON."""

_MAX_BY_CHARS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer."""

    await_id: str
    text: str
    """The text, or the values by field as JSON."""
    by: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why it is no answer, for whoever sent it."""

    reason: str
    kind: str = "InvalidAnswer"
    """`InvalidAnswer`, `AwaitClosed` (answered before) or `AwaitNotOpen` (unknown, perhaps not asked yet)."""


def read_answer(value: Any, question: AwaitClarification | None, closed: Collection[str]) -> Answer | Refused:
    """Judge `{"id": ..., "answer": text or object, "by": ...}` against the open question.

    The id may be left out while exactly one question is open. An answer to a closed question
    is refused and never used later.
    """
    if not isinstance(value, dict):
        return Refused('an answer is an object: {"id": "...", "answer": "text"}')
    fields = cast("dict[str, Any]", value)
    await_id, answer, by = fields.get("id") or "", fields.get("answer"), fields.get("by")
    if question is None or (await_id and await_id != question.id):
        return _not_open(await_id, question, closed)
    if not isinstance(answer, (str, dict)) or not answer:
        return Refused(
            f"the answer to {question.id} is a text or an object of values by field, and not empty"
        )
    if by is not None and (not isinstance(by, str) or len(by) > _MAX_BY_CHARS):
        return Refused(f"`by` is a name of at most {_MAX_BY_CHARS} characters")
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    if len(text) > MAX_ANSWER_CHARS:
        return Refused(f"an answer has at most {MAX_ANSWER_CHARS:,} characters; this one has {len(text):,}")
    return Answer(question.id, text, by)


def _not_open(await_id: Any, question: AwaitClarification | None, closed: Collection[str]) -> Refused:
    named = str(await_id)[:120]
    if named in closed:
        return Refused(f"the question {named} was answered before", "AwaitClosed")
    if question is None:
        return Refused("the run has no open question", "AwaitNotOpen")
    return Refused(f"there is no question {named}; the open one is {question.id}", "AwaitNotOpen")
