"""Loops: the same calls coming back with the same results.

A model that debugs what it has just made can go round for ever without one call failing
the same way twice. Only an exact repetition counts: the same names, the same arguments and
the same results, for asking again about a job whose answer changes is work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sojourn.core.wording import MAX_NAME, plain

__all__ = ["MAX_CALLS", "PastCall", "ToolCalls"]

MAX_CALLS = 20
"""Calls that are remembered."""

_LIMITS = ((1, 5, 8), (2, 3, 5), (3, 3, 5))
"""Calls in a cycle, repetitions that are a loop when one of these calls failed, and when none did.

The shortest loop has five calls, so four or fewer never are one.
"""

_STEPS = (
    "Say what you want to have changed or found out; the same question gets the same answer.",
    "Give what is missing: other values, a file, a permission.",
    "Ask for another tool or a smaller step.",
)


@dataclass(frozen=True, slots=True)
class PastCall:
    """One executed call; two are equal when name, arguments and result are, whether or not they failed."""

    name: str
    """The tool that was called."""
    arguments_hash: str
    """Of its arguments, equal for equal arguments."""
    result_hash: str
    """Of its result or error, equal for equal answers."""
    failed: bool = field(compare=False)
    """Whether it failed."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The last calls of a run, in call order."""

    calls: tuple[PastCall, ...] = ()
    """The last twenty, oldest first."""

    def record(self, name: str, arguments_hash: str, result_hash: str, failed: bool) -> "ToolCalls":
        """The state after one executed call.

        Args:
            name: The tool that was called.
            arguments_hash: Of its arguments.
            result_hash: Of its result or error.
            failed: Whether it failed.
        """
        call = PastCall(name, arguments_hash, result_hash, failed)
        return ToolCalls((*self.calls[1 - MAX_CALLS :], call))

    def loop(self) -> str | None:
        """The cycle the last calls repeat, as `a → b → a`, or None when they are work.

        A cycle of one call is a loop from five repetitions with a failure among them, or eight
        without; one of two or three calls from three with, or five without.
        """
        for length, failing, clean in _LIMITS:
            times = _repetitions(self.calls, length)
            if times < failing:
                continue
            if times >= clean or any(call.failed for call in self.calls[-times * length :]):
                cycle = (*self.calls[-length:], self.calls[-length])
                return " → ".join(plain(call.name, MAX_NAME) for call in cycle)
        return None

    def suggestion(self) -> str:
        """What to tell a person about a loop; empty when there is none."""
        cycle = self.loop()
        if cycle is None:
            return ""
        told = f"The same calls kept coming back with the same results: {cycle}."
        return "\n".join([told, "What you can do:", *(f"- {step}" for step in _STEPS)])


def _repetitions(calls: Sequence[PastCall], length: int) -> int:
    """How often the last `length` calls stand at the end one after the other; 1 when they are news."""
    same = 0
    while same + length < len(calls) and calls[-1 - same] == calls[-1 - same - length]:
        same += 1
    return same // length + 1
