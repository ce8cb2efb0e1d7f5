"""Judge repeated failures and loops of a run, once a step (ME-1 to ME-10).

Calls are judged in call order. A run that an earlier version of the rules has judged stays with that
version, so that its history replays. The state by each version is stored. A patch is requested and
recorded only if the verdicts of the versions differ.

A model that debugs its own work can go round for ever without one call failing the same way twice. So a loop of steps with
the same results is detected too. Only an exact repetition counts: the same names, the same arguments and the same results,
since polling a job whose answer changes is progress. There must be no wait between the steps. The unit is the step, all
calls of one plan: equal calls within one plan are not a loop.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from pydantic_core import from_json

from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import Safeguards
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.safeguards.error_classes import RULES
from sojourn.core.safeguards.error_patterns import STRIKES, CallOutcome, ErrorPatterns
from sojourn.values.frozen import copy_with
from sojourn.values.text import MAX_NAME, plain
from sojourn.values.wire import encode

__all__ = [
    "MAX_CALLS",
    "PATCHES",
    "RETRIES_STOPPED",
    "PastCall",
    "PastStep",
    "SafeguardState",
    "ToolCalls",
    "is_waiting_tool",
    "suggestion",
    "was_tried",
]

MAX_CALLS = 20
"""Steps kept, and calls kept for version 1 of the rules."""

_LIMITS = ((1, 5, 8), (2, 3, 5), (3, 3, 5))
"""Steps of a cycle; repetitions that make it a loop when one of its calls failed; repetitions when none did.

The shortest loop has five steps, so four or fewer never are one.
"""

_MAX_NAMED = 3

_STEPS = (
    "Say what you want to have changed or found out; the same question gets the same answer.",
    "Give what is missing: other values, a file, a permission.",
    "Ask for another tool or a smaller step.",
)


@dataclass(frozen=True, slots=True)
class PastCall:
    """One executed call.

    Two are equal if name, arguments and result are equal, whether or not they failed.
    """

    name: str
    arguments_hash: str
    result_hash: str
    """Hash of the result or error."""
    failed: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class PastStep:
    """The executed calls of one plan.

    Two are equal if they hold equal calls, in any order and number.
    """

    key: str
    names: str = field(compare=False)
    failed: bool = field(compare=False)

    @classmethod
    def of(cls, calls: Sequence[PastCall]) -> "PastStep":
        keys = sorted({f"{call.name} {call.arguments_hash} {call.result_hash}" for call in calls})
        key = (
            keys[0]
            if len(keys) == 1
            else hashlib.blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
        )
        names = list(dict.fromkeys(plain(call.name, MAX_NAME) for call in calls))
        more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        return cls(key, " + ".join([*names[:_MAX_NAMED], *more]), any(call.failed for call in calls))


@dataclass(frozen=True, slots=True)
class ToolCalls:
    steps: tuple[PastStep, ...] = ()
    """The last twenty steps, oldest first."""
    calls: tuple[PastCall, ...] = ()
    """The last twenty calls, which version 1 of the rules searches for loops."""

    def record(self, name: str, arguments_hash: str, result_hash: str, failed: bool) -> "ToolCalls":
        return self.record_step([PastCall(name, arguments_hash, result_hash, failed)])

    def record_step(self, calls: Sequence[PastCall]) -> "ToolCalls":
        """Return the state after a step with these executed calls."""
        if not calls:
            return self
        return ToolCalls(
            (*self.steps[1 - MAX_CALLS :], PastStep.of(calls)), (*self.calls, *calls)[-MAX_CALLS:]
        )

    def loop(self) -> str | None:
        """Return the cycle that the last steps repeat, as `a → b → a`, or None.

        A cycle of one step is a loop from five repetitions with a failure among them, or eight
        without; one of two or three steps from three with a failure, or five without.
        """
        cycle = _cycle(self.steps)
        return " → ".join(step.names for step in cycle) if cycle else None

    def loop_of_calls(self) -> str | None:
        """Return the cycle that the last calls repeat, by version 1 of the rules.

        In that version, calls of one plan count separately.
        """
        cycle = _cycle(self.calls)
        return " → ".join(plain(call.name, MAX_NAME) for call in cycle) if cycle else None


def suggestion(loop: str) -> str:
    text = f"The same calls kept coming back with the same results: {loop}."
    return "\n".join([text, "What you can do:", *(f"- {step}" for step in _STEPS)])


_Past = TypeVar("_Past", PastCall, PastStep)


def _cycle(past: Sequence[_Past]) -> Sequence[_Past]:
    for length, failing, clean in _LIMITS:
        times = _repetitions(past, length)
        if times < failing:
            continue
        if times >= clean or any(each.failed for each in past[-times * length :]):
            return (*past[-length:], past[-length])
    return ()


def _repetitions(past: Sequence[_Past], length: int) -> int:
    same = 0
    while same + length < len(past) and past[-1 - same] == past[-1 - same - length]:
        same += 1
    return same // length + 1


RETRIES_STOPPED = "retries_stopped"
"""The reason of a final turn that a safeguard demands."""

PATCHES = {3: "safeguards-4", 2: "safeguards-3", 1: "safeguards-2"}
"""By an earlier version of the rules: the patch that a history records.

It does so if that version would decide otherwise and a later one is used.
"""

_INSTRUCTION = "Do not try again. Tell this to the person, and answer with what you know."


@dataclass(frozen=True)
class SafeguardState:
    patterns: ErrorPatterns = field(default_factory=lambda: ErrorPatterns(rules=2))
    """Similar errors in a row, by version 2 of the rules."""
    first_patterns: ErrorPatterns = field(default_factory=lambda: ErrorPatterns(rules=1))
    """Similar errors in a row, by version 1 of the rules."""
    calls: ToolCalls = field(default_factory=ToolCalls)
    """The last steps, for loops."""
    rules: int = RULES
    """The version of the rules that judges this run."""
    third_patterns: ErrorPatterns = field(default_factory=lambda: ErrorPatterns(rules=3))
    """Similar errors in a row, by version 3 of the rules."""
    waited: bool = False
    """Whether the planner has waited since the last step, so that a further try is polling."""
    fourth_patterns: ErrorPatterns = field(default_factory=ErrorPatterns)
    """Similar errors in a row, by version 4 of the rules, for which a tool may wait too."""
    fourth_calls: ToolCalls = field(default_factory=ToolCalls)
    """The last steps, by version 4 of the rules."""
    slept: bool = False
    """Whether a tool of the last step has waited, which is a wait by version 4 of the rules."""

    def __post_init__(self) -> None:
        """Name the version of errors that an execution wrote whose newest version it was."""
        for name, rules in (("patterns", 2), ("third_patterns", 3)):
            patterns: ErrorPatterns = getattr(self, name)
            if patterns.rules != rules:
                object.__setattr__(self, name, replace(patterns, rules=rules))

    def settle(
        self,
        calls: Sequence[ToolRequest],
        executed: Sequence[ToolResult],
        at: datetime | None,
        *,
        similar_errors: int | None = STRIKES,
    ) -> "SafeguardState":
        """Return the state after a step, from the results of its admitted calls."""
        first, second, third = self.first_patterns, self.patterns, self.third_patterns
        fourth, waited = self.fourth_patterns, self.waited or self.slept
        calls_before = ToolCalls() if self.waited or third.is_due(at) else self.calls
        steps_before = ToolCalls() if waited or fourth.is_due(at) else self.fourth_calls
        fails = any(result.error for result in executed)
        if (
            fails
            or first.count
            or second.count
            or third.count
            or third.in_row
            or fourth.count
            or fourth.in_row
        ):
            outcomes = [
                _outcome(call, result)
                for call, result in zip(calls, executed, strict=False)
                if was_tried(result)
            ]
            first, second = first.record_step(outcomes, at), second.record_step(outcomes, at)
            third = third.record_step(outcomes, at, limit=similar_errors, waited=self.waited)
            fourth = fourth.record_step(outcomes, at, limit=similar_errors, waited=waited)
        pairs = list(zip(calls, executed, strict=False))
        calls_after = calls_before.record_step([_make_past_call(call, result) for call, result in pairs])
        seen = [_make_past_call(call, result, pictures=True) for call, result in pairs]
        return SafeguardState(
            second,
            first,
            calls_after,
            self.rules,
            third,
            fourth_patterns=fourth,
            fourth_calls=ToolCalls(steps_before.record_step(seen).steps),
            slept=any(is_waiting_tool(call.name) and result.error is None for call, result in pairs),
        )

    def after_wait(self) -> "SafeguardState":
        """Return the state after the planner has waited.

        After a wait, the same step, or an error like the last one, is polling.
        """
        return copy_with(self, waited=True)

    def new_turn(self) -> "SafeguardState":
        """Return the state after a person's message.

        Repeating a step for a new request is not a loop (ME-25), and different errors are not one
        problem.
        """
        return copy_with(
            self,
            calls=ToolCalls(),
            third_patterns=self.third_patterns.new_turn(),
            fourth_patterns=self.fourth_patterns.new_turn(),
            fourth_calls=ToolCalls(),
        )

    def after_stop(self) -> "SafeguardState":
        """Return the state in which the next turn of a conversation begins.

        Errors that have stopped a turn, and were reported, do not stop the next one.
        """
        if not self.stops:
            return self
        return copy_with(
            self,
            patterns=self.patterns.reset(),
            first_patterns=self.first_patterns.reset(),
            third_patterns=self.third_patterns.reset(),
            fourth_patterns=self.fourth_patterns.reset(),
        )

    @property
    def stops(self) -> bool:
        return self._stops(self.rules)

    def differs_by(self, rules: int) -> bool:
        return rules < self.rules and self._stops(rules) != self.stops

    def by(self, rules: int) -> "SafeguardState":
        return copy_with(self, rules=rules)

    def where_stopped(self, *, is_stopped: bool, from_first: bool) -> "SafeguardState":
        """Return the state judged by the version of the rules that a run must have used.

        The run's verdict shows the version.
        """
        order = (4, 3, 2) if not from_first or self._stops(2) == is_stopped else (1, 4, 3)
        rules = (each for each in order if each <= self.rules and self._stops(each) == is_stopped)
        return self.by(next(rules, self.rules))

    def finalize(self) -> Finalize | None:
        """Return why the next turn must be the last, or None while retries may continue.

        The reason holds the next steps for a person (ME-5, ME-9).
        """
        if not self.stops:
            return None
        message = self._patterns(self.rules).suggestion() or suggestion(self._loop(self.rules) or "")
        return Finalize(reason=RETRIES_STOPPED, message=message, instruction=_INSTRUCTION)

    def status(self) -> Safeguards | None:
        patterns, loop = self._patterns(self.rules), self._loop(self.rules)
        entries = patterns.entries
        if not entries and not loop:
            return None
        return Safeguards(
            category=entries[-1].category if entries else "",
            similar=patterns.count,
            stopped=self.stops,
            loop=loop,
            errors=[
                {
                    "message": entry.message,
                    "tool": entry.tool,
                    "category": entry.category,
                    "matched": entry.matched,
                }
                for entry in entries
            ],
        )

    def _stops(self, rules: int) -> bool:
        return self._patterns(rules).should_stop or self._loop(rules) is not None

    def _patterns(self, rules: int) -> ErrorPatterns:
        return (self.first_patterns, self.patterns, self.third_patterns, self.fourth_patterns)[rules - 1]

    def _loop(self, rules: int) -> str | None:
        if rules > 3:
            return self.fourth_calls.loop()
        return self.calls.loop() if rules > 1 else self.calls.loop_of_calls()


def is_waiting_tool(tool: str) -> bool:
    """Return whether a tool waits, as its name says.

    A server's `sleep` and `browser_wait_for` wait too, but `waitlist_add` does not.
    """
    name = tool.split(".", 2)[-1]
    words = [word.lower() for word in _WORD.findall(name)]
    return not _WAITS.isdisjoint(words) or words in _WAITING_ALONE


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_WAITS = frozenset(("sleep", "sleeps", "wait", "waits"))

_WAITING_ALONE = (["delay"], ["pause"])
"""With another word they are done to something: `pause_campaign`."""


def _make_past_call(call: ToolRequest, result: ToolResult, *, pictures: bool = False) -> PastCall:
    # Pictures count by their sizes, since a run carries artifacts without their data.
    outcome = [result.result, result.error, *result.remarks]
    if pictures:
        outcome += [f"{each.media_type} {each.size}" for each in result.artifacts if each.media_type]
    return PastCall(call.name, _digest(_arguments(call)), _digest(outcome), result.error is not None)


def _arguments(call: ToolRequest) -> object:
    # Their values count, but neither blanks nor the order of names.
    given: object = call.payload
    try:
        if call.raw is not None:
            given = from_json(call.raw)
        return json.loads(json.dumps(given, sort_keys=True, default=str))
    except (ValueError, RecursionError):
        return given if call.raw is None else call.raw


def _outcome(call: ToolRequest, result: ToolResult) -> CallOutcome:
    if result.error is None:
        return CallOutcome(tool=result.name)
    hint = result.retry_hint
    issues = hint.issues if hint else []
    return CallOutcome(
        tool=result.name,
        error=result.error.message,
        reason=hint.reason if hint else None,
        fields=tuple(issue.field for issue in issues),
        faults=tuple(issue.constraint for issue in issues),
        arguments=_digest(_arguments(call)),
        retry_after=hint.retry_after if hint else None,
    )


def _digest(value: object) -> str:
    return hashlib.blake2b(encode(value), digest_size=8).hexdigest()


_NOT_TRIED = ("canceled", "denied", "not_executed", "time_budget")
"""Error codes of calls that say nothing about their tool."""


def was_tried(result: ToolResult) -> bool:
    """Return whether a call says something about its tool.

    It does if it was neither held back nor cut off.
    """
    return result.error is None or result.error.code not in _NOT_TRIED
