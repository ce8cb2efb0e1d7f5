"""Match the steps of a flow with recorded calls, and return their results.

A step's id follows from its name: the one that its flow gives it, or its tool and its number among the
calls of that tool. So a step keeps its call if its tool is renamed or its arguments are reworded. Calls of
an earlier version of the flow are found by their tool and arguments, or by their number.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from pydantic_core import to_jsonable_python

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.repair.calls import is_repair, stem
from sojourn.core.run.approval import APPROVE
from sojourn.core.run.ids import default_name, is_step_id, step_id
from sojourn.values.timers import seconds_of

__all__ = [
    "ChangedFlowError",
    "FlowStep",
    "Outcomes",
    "QuestionOutcome",
    "Recorded",
    "Steps",
    "differing_fields",
]


class ChangedFlowError(Exception):
    """A flow does not fit the recorded calls, for which the run fails."""


@dataclass(frozen=True, slots=True)
class Recorded:
    id: str
    tool: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FlowStep:
    name: str
    call: ToolRequest
    recorded: Recorded | None = None
    """The call that was made for the step, if one was."""

    @property
    def differs_in(self) -> list[str]:
        return differing_fields(self.recorded.payload, self.call.payload) if self.recorded else []

    @property
    def difference(self) -> str:
        if self.recorded is None:
            return ""
        fields = self.differs_in
        what = [f"called {self.recorded.tool}"] if self.recorded.tool != self.call.name else []
        what += [f"had another {', '.join(fields[:5])}"] if fields else []
        return f"{self.name} {' and '.join(what)} when it ran" if what else ""


class Steps:
    """The steps of one run of a flow's function, in the order in which it makes them.

    `stands` says whether a recorded call may stand for another: all but definite failures.
    """

    def __init__(self, recorded: Sequence[Recorded], stands: Callable[[Recorded], bool]) -> None:
        self._recorded = list(recorded)
        self._by_id = {each.id: each for each in recorded}
        self._stands = stands
        self._made: Counter[str] = Counter()
        self._named: Counter[str] = Counter()
        self.taken: dict[str, FlowStep] = {}

    def take(self, call: ToolRequest, name: str | None) -> FlowStep:
        """Return the step of a call, with the id of the recorded call if there is one.

        Raises:
            ChangedFlowError: Two calls are the same recorded one.
        """
        self._made[call.name] += 1
        number = self._made[call.name]
        if name is None:
            name = default_name(call.name, number)
            found = self._equal(call, name) or self._at(call.name, number)
        else:
            self._named[name] += 1
            name = name if self._named[name] == 1 else f"{name}#{self._named[name]}"
            found = self._free(step_id(name)) or self._free(name) or self._equal(call, name)
        self._refuse_ambiguous(call, found)
        call_id = found.id if found else self._new_id(name)
        step = FlowStep(name, call.model_copy(update={"tool_call_id": call_id}), found)
        self.taken[call_id] = step
        return step

    def unclaimed(self) -> list[Recorded]:
        return [each for each in self._recorded if each.id not in self.taken]

    def name_of(self, recorded: Recorded) -> str:
        """Return the name with which a flow can take up a recorded call, as its `step`."""
        slug = recorded.id.rpartition("-s")[0]
        names = [default_name(recorded.tool, number) for number in range(1, len(self._recorded) + 1)]
        names += [slug, re.sub(r"-(\d+)$", r"#\1", slug)]
        return next((name for name in names if step_id(name) == recorded.id), recorded.id)

    def _free(self, call_id: str) -> Recorded | None:
        return None if call_id in self.taken else self._by_id.get(call_id)

    def _equal(self, call: ToolRequest, name: str) -> Recorded | None:
        """Return the recorded call with equal arguments, best the one of this name."""
        payload = _canonical(call.payload)
        equal = [
            each
            for each in self.unclaimed()
            if each.tool == call.name and _canonical(each.payload) == payload
        ]
        return next((each for each in equal if each.id == step_id(name)), equal[0] if equal else None)

    def _at(self, tool: str, number: int) -> Recorded | None:
        """Return the recorded call with this number among its tool's calls, or None.

        Its arguments may differ. An approval never matches this way, because it holds only for what was
        shown.
        """
        if tool == APPROVE:
            return None
        found = self._free(step_id(default_name(tool, number)))
        if found is None:
            earlier = [each for each in self._recorded if each.tool == tool and not is_step_id(each.id)]
            found = self._free(earlier[number - 1].id) if number <= len(earlier) else None
        return found if found and found.tool == tool and self._stands(found) else None

    def _refuse_ambiguous(self, call: ToolRequest, found: Recorded | None) -> None:
        if found is not None and _canonical(found.payload) == _canonical(call.payload):
            return
        payload = _canonical(call.payload)
        for step in self.taken.values():
            before = step.recorded
            if (
                before
                and before.tool == call.name
                and step.differs_in
                and _canonical(before.payload) == payload
            ):
                name = self.name_of(before)
                raise ChangedFlowError(
                    f"two steps of the flow may be the call {name} that has run: {step.name}, by its number, and a later "
                    f"call of {call.name}, by its arguments; name the step that it is: "
                    f"case.call(..., step={name!r}), and give the other a name of its own"
                )

    def _new_id(self, name: str) -> str:
        new, number = step_id(name), 1
        while new in self._by_id or new in self.taken:
            number += 1
            new = step_id(f"{name}~{number}")
        return new


def differing_fields(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name in dict.fromkeys([*one, *other])
        if (name in one) != (name in other) or _canonical(one[name]) != _canonical(other[name])
    ]


def _canonical(value: Any) -> str:
    plain = to_jsonable_python(value, fallback=lambda each: type(each).__name__)
    return json.dumps(plain, sort_keys=True)


_UNANSWERED = ("The question was declined", "Nobody answered within ")
"""Beginning of the messages that a run adds for a question without an answer."""

_SLEPT = re.compile(r"(?:Waited|The wait of) (\S+) s\b")
"""Beginning of the message that a run adds after a sleep, with its seconds."""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    text: str | None
    """None if the question was declined, or not answered in time."""
    place: int


class Outcomes:
    """The steps that a transcript has the outcome of."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._results: dict[str, tuple[ToolResult, int]] = {}
        self._answers: defaultdict[str, list[QuestionOutcome]] = defaultdict(list)
        self._sleeps: defaultdict[str, list[int]] = defaultdict(list)
        self.calls: list[Recorded] = []
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
                self._answers[asked].append(QuestionOutcome(message.text, place))
            elif asked and message.role == "system" and message.text.startswith(_UNANSWERED):
                self._answers[asked].append(QuestionOutcome(None, place))
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

    def result(self, call_id: str) -> tuple[ToolResult, int] | None:
        """Return the result of a call, or of the last in its place, and its message."""
        return self._results.get(call_id)

    def new_but(self, call_ids: Container[str]) -> list[ToolResult]:
        """Return the results of the last step whose calls are not among these."""
        others = [(result, place) for id, (result, place) in self._results.items() if id not in call_ids]
        are_new = all(place > self._planned for _, place in others)
        return [result for result, _ in others] if are_new else []

    def answer(self, question: str, number: int) -> QuestionOutcome | None:
        answers = self._answers[question]
        return answers[number] if number < len(answers) else None

    def sleep(self, duration: timedelta, number: int) -> int | None:
        sleeps = self._sleeps[seconds_of(duration)]
        return sleeps[number] if number < len(sleeps) else None


def _as_called(call: ToolCallPart) -> Mapping[str, Any]:
    if call.written is None:
        return call.payload
    given: Any = json.loads(call.written)
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else call.payload


def _own_id(call: ToolCallPart) -> str:
    """Return the flow's id of a call, which the run may have replaced."""
    return str((call.provider_metadata or {}).get("tool_call_id", call.tool_call_id))
