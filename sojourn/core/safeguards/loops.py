"""Detect steps that come back with the same results.

A model that debugs its own work can go round for ever without one call failing the same way twice. Only
an exact repetition counts: the same names, the same arguments and the same results, since polling a job
whose answer changes is progress. There must be no wait between the steps. The unit is the step, all
calls of one plan: equal calls within one plan are not a loop.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sojourn.values.text import MAX_NAME, plain

__all__ = ["MAX_CALLS", "PastCall", "PastStep", "ToolCalls", "suggestion"]

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
