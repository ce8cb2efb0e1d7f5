"""Three strikes: errors that keep coming back stop the retrying (ME-2 to ME-10, ME-15).

Frozen state of one run and pure transitions, so that two runs share
nothing, a replay counts the same, and any error can be tried without running a tool. The class
of an error decides what counts as the same: a missing font is a missing font
whichever tool reports it, but two errors of no known class are similar only word for word.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sojourn.core.safeguards.error_classes import MAX_READ, RULES, class_named, match_class
from sojourn.core.values.text import MAX_NAME, plain

__all__ = ["MAX_ENTRIES", "STRIKES", "CallOutcome", "ErrorEntry", "ErrorPatterns"]

MAX_ENTRIES = 10
"""Errors kept (ME-6)."""

STRIKES = 3
"""Similar errors in a row that stop the retrying (ME-4)."""

_MAX_MESSAGE = 500
_MAX_TOOL = 200
_MAX_FINGERPRINT = 300
_MAX_SHOWN = 200

_VARYING = re.compile(
    r"""
      (?<!\w)'[^'\n]*'(?!\w) | "[^"\n]*" | `[^`\n]*`   # what is quoted
    | (?<!\S)\S*[/\\@]\S*                              # paths, addresses
    | (?<![\w.-])[\w.-]*\d[\w.,:+-]*                   # numbers, ids, dates, versions
    | \b[a-f]{8,}\b                                    # hex that happens to have no digit
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How one executed call ended; calls that were denied, cancelled or refused by a cap have no outcome."""

    tool: str
    """The tool that was called."""
    error: str | None = None
    """The tool's error message; None for a success."""
    reason: str | None = None
    """The `RetryReason` of the hint, when there is one."""
    fields: tuple[str, ...] = ()
    """The fields of the hint's issues."""

    @property
    def failed(self) -> bool:
        """Whether the call failed; an empty message is a failure too."""
        return self.error is not None


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One error as it is kept: bounded, printable, with what it is compared by."""

    message: str
    """The first line that is not blank, at most 500 characters."""
    tool: str
    """The tool that failed."""
    category: str
    """The class of the error."""
    at: datetime | None
    """When the run received the error."""
    fingerprint: str = ""
    """Where the class alone does not distinguish errors: the message without numbers, ids, paths and
    quoted values, or the fields.
    """
    matched: str = ""
    """The words or the reason that decided the class (ME-15)."""

    @classmethod
    def of(cls, outcome: CallOutcome, at: datetime | None, rules: int = RULES) -> "ErrorEntry":
        """The entry of a failed call, with its class by these rules."""
        message = (outcome.error or "")[:MAX_READ]
        category, matched = match_class(message, outcome.reason, rules)
        lines = (line.strip() for line in message.splitlines())
        return cls(
            message=plain(next(filter(None, lines), ""), _MAX_MESSAGE),
            tool=plain(outcome.tool, _MAX_TOOL),
            category=category,
            at=at,
            fingerprint=_fingerprint(category, message, outcome.fields),
            matched=matched,
        )

    def similar_to(self, other: "ErrorEntry") -> bool:
        """Whether two errors are similar: of one class and, where the class requires it, with equal details."""
        if self.category != other.category:
            return False
        if class_named(self.category).alike_by == "class":
            return True
        return self.tool == other.tool and self.fingerprint == other.fingerprint


@dataclass(frozen=True, slots=True)
class ErrorPatterns:
    """The errors of one run, and whether they stop the retrying; a new run starts with none (ME-2, ME-10)."""

    entries: tuple[ErrorEntry, ...] = ()
    """The last ten errors, oldest first (ME-6)."""
    count: int = 0
    """Similar errors in a row, the last entry included; 0 once the tool that failed last succeeds."""
    strikes: tuple[ErrorEntry, ...] = ()
    """The similar errors that stopped the retrying, kept from then on; empty before."""
    rules: int = RULES
    """The version of the rules that classify messages."""

    @property
    def should_stop(self) -> bool:
        """Whether to stop retrying: true from the third similar error on, until `reset` (ME-4)."""
        return bool(self.strikes)

    def record(
        self,
        message: str,
        tool: str,
        at: datetime | None,
        *,
        reason: str | None = None,
        fields: Sequence[str] = (),
    ) -> "ErrorPatterns":
        """The state after one error, which need not come from a call (ME-7).

        Args:
            message: The tool's message; hostile, of any length.
            tool: The tool that failed.
            at: When, on the run's clock.
            reason: The `RetryReason` of the failure, compared before the message.
            fields: The fields with issues, for contract errors.
        """
        return _after(self, ErrorEntry.of(CallOutcome(tool, message, reason, tuple(fields)), at, self.rules))

    def succeeded(self, tool: str) -> "ErrorPatterns":
        """The state after a success: a success of the tool that failed last resets the count, any other changes nothing."""
        if not self.count or self.entries[-1].tool != tool:
            return self
        return replace(self, count=0)

    def record_step(self, outcomes: Iterable[CallOutcome], at: datetime | None) -> "ErrorPatterns":
        """The state after a whole step.

        Outcomes are taken in call order, not in order of arrival. Each tool counts once for each
        class, so five parallel time-outs of a tool are one strike; a success among them resets
        the count, and the tool's later errors of that class do not count.

        Args:
            outcomes: One for each executed call, in call order.
            at: When the step was settled.
        """
        patterns, counted = self, set[tuple[str, str]]()
        for outcome in outcomes:
            if outcome.error is None:
                patterns = patterns.succeeded(outcome.tool)
                continue
            entry = ErrorEntry.of(outcome, at, self.rules)
            if (entry.tool, entry.category) not in counted:
                counted.add((entry.tool, entry.category))
                patterns = _after(patterns, entry)
        return patterns

    def reset(self) -> "ErrorPatterns":
        """An empty state, for a conversation that starts again or is rewound by hand (ME-10)."""
        return ErrorPatterns(rules=self.rules)

    def suggestion(self) -> str:
        """The message for a person once retrying stopped; empty before (ME-5)."""
        if not self.strikes:
            return ""
        row = class_named(self.strikes[-1].category)
        tools = list(dict.fromkeys(plain(entry.tool, MAX_NAME) for entry in self.strikes))
        messages = [plain(entry.message, _MAX_SHOWN) or "(no message)" for entry in self.strikes]
        count = len(self.strikes)
        failed = (
            f"{_listed(tools)} failed {count} times in a row"
            if len(tools) == 1
            else f"{count} similar errors in a row, of {_listed(tools)}"
        )
        return "\n".join(
            [
                f"{failed}: {row.problem}.",
                "What you can do:",
                *(f"- {step}" for step in row.suggestion),
                "Last errors:",
                *(f"- {message}" for message in messages),
            ]
        )

    def dump(self) -> dict[str, Any]:
        """The state as JSON, for status and debugging: what matched, how often, whether it stopped (ME-15)."""
        return {
            "category": self.entries[-1].category if self.entries else None,
            "count": self.count,
            "should_stop": self.should_stop,
            "records": [
                asdict(entry) | {"at": entry.at.isoformat() if entry.at else None} for entry in self.entries
            ],
        }


def _after(patterns: ErrorPatterns, entry: ErrorEntry) -> ErrorPatterns:
    is_similar = patterns.count > 0 and entry.similar_to(patterns.entries[-1])
    count = patterns.count + 1 if is_similar else 1
    entries = (*patterns.entries[1 - MAX_ENTRIES :], entry)
    stops = count == STRIKES and not patterns.strikes
    strikes = entries[-STRIKES:] if stops else patterns.strikes
    return replace(patterns, entries=entries, count=count, strikes=strikes)


def _fingerprint(category: str, message: str, fields: Sequence[str]) -> str:
    alike_by = class_named(category).alike_by
    if alike_by == "class":
        return ""
    text = ", ".join(sorted(set(fields))) if alike_by == "fields" else _VARYING.sub("#", message.lower())
    return plain(text, _MAX_FINGERPRINT)


def _listed(tools: Sequence[str]) -> str:
    names = [f"`{tool}`" for tool in tools]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
