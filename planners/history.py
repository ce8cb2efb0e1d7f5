"""History: the calls and answers since a question, read from the transcript."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn import Message, ToolResult

__all__ = ["Answer", "Attempt", "History", "history_of"]

_DECLINED = "The question was declined"
"""Begins the message of the transcript after a question that a person declined."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call and how it ended."""

    number: int
    """The number of the call since the question, from 1."""
    payload: dict[str, Any]
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a person."""

    after: int
    """The number of calls made before."""
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """Calls and answers, in order."""

    attempts: list[Attempt]
    answers: list[Answer]

    def of(self, tool: str) -> list[Attempt]:
        """Return the calls of one tool."""
        return [attempt for attempt in self.attempts if attempt.result.name == tool]

    def answers_after(self, number: int) -> list[Answer]:
        """Return the answers given after the call with this number."""
        return [answer for answer in self.answers if answer.after >= number]


def history_of(messages: Sequence[Message]) -> History:
    """Return the calls and answers in messages that begin after the question; a decline is the answer `no`."""
    payloads: dict[str, dict[str, Any]] = {}
    history = History([], [])
    for message in messages:
        payloads |= {call.tool_call_id: call.payload for call in message.tool_calls}
        for result in message.tool_results:
            payload = payloads.get(result.tool_call_id, {})
            history.attempts.append(Attempt(len(history.attempts) + 1, payload, result))
        if message.role == "user" and message.text:
            history.answers.append(Answer(len(history.attempts), message.text))
        elif message.role == "system" and message.text.startswith(_DECLINED):
            history.answers.append(Answer(len(history.attempts), "no"))
    return history
