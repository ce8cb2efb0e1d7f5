"""The safeguards of a run: repeated failures and loops, judged once a step, in call order (ME-1 to ME-10)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import Safeguards
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.counts import was_tried
from sojourn.core.loops import ToolCalls
from sojourn.core.safeguards import CallOutcome, ErrorPatterns
from sojourn.core.wire import encode

__all__ = ["RETRIES_STOPPED", "Guards"]

RETRIES_STOPPED = "retries_stopped"
"""Why the final turn comes, when a safeguard says so."""

_ANSWER = "Do not try again. Tell this to the person, and answer with what you know."


@dataclass(frozen=True, slots=True)
class Guards:
    """What has been seen so far."""

    patterns: ErrorPatterns = field(default_factory=ErrorPatterns)
    """Errors of one kind in a row."""
    calls: ToolCalls = field(default_factory=ToolCalls)
    """The last calls, for loops."""

    def settle(
        self, calls: Sequence[ToolRequest], executed: Sequence[ToolResult], at: datetime | None
    ) -> "Guards":
        """The state after a step whose admitted calls ended with these results."""
        patterns, past = self.patterns, self.calls
        if patterns.count or any(result.error for result in executed):
            patterns = patterns.record_step(map(_outcome, filter(was_tried, executed)), at)
        for call, result in zip(calls, executed, strict=False):
            arguments = call.raw if call.raw is not None else call.payload
            said = [result.result, result.error]
            past = past.record(call.name, _digest(arguments), _digest(said), result.error is not None)
        return Guards(patterns, past)

    def new_turn(self) -> "Guards":
        """A person has spoken: what they ask for again is no loop (ME-25)."""
        return Guards(self.patterns)

    def finalize(self) -> Finalize | None:
        """Why the next turn must be the last, with what a person can do about it (ME-5, ME-9)."""
        said = self.patterns.suggestion() or self.calls.suggestion()
        return Finalize(reason=RETRIES_STOPPED, message=f"{said}\n{_ANSWER}") if said else None

    def shown(self) -> Safeguards | None:
        """The records, for status; None while there is nothing to show (ME-15)."""
        entries, loop = self.patterns.entries, self.calls.loop()
        if not entries and not loop:
            return None
        return Safeguards(
            category=entries[-1].category if entries else "",
            similar=self.patterns.count,
            stopped=self.patterns.should_stop or loop is not None,
            loop=loop,
            errors=[
                {"message": one.message, "tool": one.tool, "category": one.category, "matched": one.matched}
                for one in entries
            ],
        )


def _outcome(result: ToolResult) -> CallOutcome:
    hint = result.retry_hint
    return CallOutcome(
        tool=result.name,
        error=result.error.message if result.error else None,
        reason=hint.reason if hint else None,
        fields=tuple(issue.field for issue in hint.issues) if hint else (),
    )


def _digest(value: object) -> str:
    return hashlib.blake2b(encode(value), digest_size=8).hexdigest()
