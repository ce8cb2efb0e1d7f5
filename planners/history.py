"""What happened since a question was asked, read from the transcript."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn import Message, ToolResult

__all__ = ["Answer", "Attempt", "History", "history_of"]

_DECLINED = "The question was declined"
"""What the transcript says when a person will not answer."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call and how it ended."""

    number: int
    """Counts the calls since the question, from 1."""
    payload: dict[str, Any]
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered."""

    after: int
    """The calls that were made before."""
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """Calls and answers, in order."""

    attempts: list[Attempt]
    answers: list[Answer]

    def of(self, tool: str) -> list[Attempt]:
        """The calls of one tool."""
        return [attempt for attempt in self.attempts if attempt.result.name == tool]

    def answers_after(self, number: int) -> list[Answer]:
        """The answers given after a call."""
        return [answer for answer in self.answers if answer.after >= number]


def history_of(messages: Sequence[Message]) -> History:
    """The calls and answers in these messages, which begin after the question."""
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
