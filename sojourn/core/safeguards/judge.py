"""The safeguards of a run: repeated failures and loops, judged once a step, in call order (ME-1 to ME-10).

A run that was judged by version 1 of the rules stays with it, so that its history replays. The state by both
versions is kept; a patch is asked for and recorded only where their verdicts differ.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import Safeguards
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.safeguards.error_classes import RULES
from sojourn.core.safeguards.error_patterns import CallOutcome, ErrorPatterns
from sojourn.core.safeguards.loops import PastCall, ToolCalls, suggestion
from sojourn.core.values.frozen import changed
from sojourn.core.values.wire import encode

__all__ = ["RETRIES_STOPPED", "SECOND_RULES", "SafeguardState", "was_tried"]

RETRIES_STOPPED = "retries_stopped"
"""The reason of a final turn that a safeguard demands."""

SECOND_RULES = "safeguards-2"
"""The patch that a history records where the versions of the rules differ and the current one is used."""

_INSTRUCTION = "Do not try again. Tell this to the person, and answer with what you know."


@dataclass(frozen=True)
class SafeguardState:
    """What the safeguards have recorded of a run."""

    patterns: ErrorPatterns = field(default_factory=ErrorPatterns)
    """Similar errors in a row."""
    first_patterns: ErrorPatterns = field(default_factory=lambda: ErrorPatterns(rules=1))
    """Similar errors in a row, by version 1 of the rules."""
    calls: ToolCalls = field(default_factory=ToolCalls)
    """The last steps, for loops."""
    rules: int = RULES
    """The version of the rules that judges this run."""

    def settle(
        self, calls: Sequence[ToolRequest], executed: Sequence[ToolResult], at: datetime | None
    ) -> "SafeguardState":
        """The state after a step, from the results of its admitted calls."""
        patterns, first = self.patterns, self.first_patterns
        if patterns.count or first.count or any(result.error for result in executed):
            outcomes = [_outcome(result) for result in executed if was_tried(result)]
            patterns, first = patterns.record_step(outcomes, at), first.record_step(outcomes, at)
        past = [_past(call, result) for call, result in zip(calls, executed, strict=False)]
        return SafeguardState(patterns, first, self.calls.record_step(past), self.rules)

    def new_turn(self) -> "SafeguardState":
        """The state after a person's message: repeating a step for a new request is not a loop (ME-25)."""
        return changed(self, calls=ToolCalls())

    def after_stop(self) -> "SafeguardState":
        """The state in which the next turn of a conversation begins: errors that have stopped a turn, and were told, do not stop the next one."""
        if not self.stops:
            return self
        return changed(self, patterns=self.patterns.reset(), first_patterns=self.first_patterns.reset())

    @property
    def stops(self) -> bool:
        """Whether retrying has to stop."""
        return self._stops(self.rules)

    @property
    def is_judged_otherwise(self) -> bool:
        """Whether version 1 of the rules gives another verdict."""
        return self.rules > 1 and self._stops(1) != self._stops(RULES)

    def by_first_rules(self) -> "SafeguardState":
        """The state judged by version 1 of the rules."""
        return changed(self, rules=1)

    def finalize(self) -> Finalize | None:
        """Why the next turn must be the last, with next steps for a person (ME-5, ME-9); None while retrying may go on."""
        if not self.stops:
            return None
        message = self._patterns(self.rules).suggestion() or suggestion(self._loop(self.rules) or "")
        return Finalize(reason=RETRIES_STOPPED, message=message, instruction=_INSTRUCTION)

    def shown(self) -> Safeguards | None:
        """The records for the status; None while there is none (ME-15)."""
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
        return self.patterns if rules > 1 else self.first_patterns

    def _loop(self, rules: int) -> str | None:
        return self.calls.loop() if rules > 1 else self.calls.loop_of_calls()


def _past(call: ToolRequest, result: ToolResult) -> PastCall:
    arguments = call.raw if call.raw is not None else call.payload
    outcome = [result.result, result.error]
    return PastCall(call.name, _digest(arguments), _digest(outcome), result.error is not None)


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


_NOT_TRIED = ("canceled", "denied", "not_executed", "time_budget")
"""Error codes of calls that say nothing about their tool."""


def was_tried(result: ToolResult) -> bool:
    """Whether a call says something about its tool: it was neither held back nor cut off."""
    return result.error is None or result.error.code not in _NOT_TRIED
