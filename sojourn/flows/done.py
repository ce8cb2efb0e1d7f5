"""Done: the results, answers and sleeps that a transcript has for a flow."""

import json
import re
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.repair.calls import is_repair, stem
from sojourn.core.values.timers import seconds_of
from sojourn.flows.steps import Recorded

__all__ = ["Answer", "Done"]

_UNANSWERED = ("The question was declined", "Nobody answered within ")
"""How the messages begin that a run adds for a question without an answer."""

_SLEPT = re.compile(r"(?:Waited|The wait of) (\S+) s\b")
"""How the message begins that a run adds after a sleep, with its seconds."""


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
        self._sleeps: defaultdict[str, list[int]] = defaultdict(list)
        self.calls: list[Recorded] = []
        """The calls that the flow has made, without those in their place."""
        own_ids: dict[str, str] = {}
        self._planned = -1
        asked, slept = "", ""
        for place, message in enumerate(messages):
            if message.tool_calls:
                self._planned = place
            for call in message.tool_calls:
                own_ids[call.tool_call_id] = _own_id(call)
                if not is_repair(call.tool_call_id):
                    self.calls.append(Recorded(_own_id(call), call.name, _as_called(call)))
                if slept and is_repair(call.tool_call_id):
                    self._sleeps[slept].pop()  # the sleep before a repair is not the flow's
                slept = ""
            for result in message.tool_results:
                self._results[own_ids.get(stem(result.tool_call_id), stem(result.tool_call_id))] = (
                    result,
                    place,
                )
            if asked and message.role == "user":
                self._answers[asked].append(Answer(message.text, place))
            elif asked and message.role == "system" and message.text.startswith(_UNANSWERED):
                self._answers[asked].append(Answer(None, place))
            asked = message.text if message.role == "assistant" and not message.tool_calls else ""
            if message.role == "system" and (match := _SLEPT.match(message.text)):
                slept = match[1]
                self._sleeps[slept].append(place)
        places = [place for _, place in self._results.values()]
        places += [answer.place for answers in self._answers.values() for answer in answers]
        places += [place for sleeps in self._sleeps.values() for place in sleeps]
        self.newest = max(places, default=-1)
        """The index of the message with the newest outcome; -1 before the first."""
        self.tools = {result.name for result, _ in self._results.values()}
        """The ids of the tools that have been called."""

    def result(self, call_id: str) -> tuple[ToolResult, int] | None:
        """The result of a call, or of the last call in its place, and the index of its message."""
        return self._results.get(call_id)

    def new_but(self, call_ids: Container[str]) -> list[ToolResult]:
        """The results of the last step whose calls are not among these; none where those of an earlier step are not either."""
        others = [(result, place) for id, (result, place) in self._results.items() if id not in call_ids]
        are_new = all(place > self._planned for _, place in others)
        return [result for result, _ in others] if are_new else []

    def answer(self, question: str, number: int) -> Answer | None:
        """The answer to a question that was asked for the nth time, from 0."""
        answers = self._answers[question]
        return answers[number] if number < len(answers) else None

    def sleep(self, duration: timedelta, number: int) -> int | None:
        """The index of the message after the nth sleep of this duration, from 0; None before it."""
        sleeps = self._sleeps[seconds_of(duration)]
        return sleeps[number] if number < len(sleeps) else None


def _as_called(call: ToolCallPart) -> Mapping[str, Any]:
    """The arguments that the flow gave a call, before the boundary read them."""
    if call.written is None:
        return call.payload
    given: Any = json.loads(call.written)
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else call.payload


def _own_id(call: ToolCallPart) -> str:
    """The id that the flow gave a call; the run replaces one that it has used before."""
    return str((call.provider_metadata or {}).get("tool_call_id", call.tool_call_id))
