"""Done: the results and answers that a transcript has for a flow."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.contracts.message import Message
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.repair.last_step import stem

__all__ = ["Answer", "Done"]

_UNANSWERED = ("The question was declined", "Nobody answered within ")
"""How the messages begin that a run adds for a question without an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a question ended."""

    text: str | None
    """The person's answer; None when the question was declined, or nobody answered in time."""
    place: int
    """The index of its message in the transcript."""


class Done:
    """The steps that a transcript has the outcome of.

    Args:
        messages: The transcript.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._results: dict[str, tuple[ToolResult, int]] = {}
        self._answers: defaultdict[str, list[Answer]] = defaultdict(list)
        asked = ""
        for place, message in enumerate(messages):
            for result in message.tool_results:
                self._results[stem(result.tool_call_id)] = result, place
            if asked and message.role == "user":
                self._answers[asked].append(Answer(message.text, place))
            elif asked and message.role == "system" and message.text.startswith(_UNANSWERED):
                self._answers[asked].append(Answer(None, place))
            asked = message.text if message.role == "assistant" and not message.tool_calls else ""
        places = [place for _, place in self._results.values()]
        places += [answer.place for answers in self._answers.values() for answer in answers]
        self.newest = max(places, default=-1)
        """The index of the message with the newest outcome; -1 before the first."""

    def result(self, call_id: str) -> tuple[ToolResult, int] | None:
        """The result of a call, or of the last call in its place, and the index of its message."""
        return self._results.get(call_id)

    def answer(self, question: str, number: int) -> Answer | None:
        """The answer to a question that was asked for the nth time, from 0."""
        answers = self._answers[question]
        return answers[number] if number < len(answers) else None
