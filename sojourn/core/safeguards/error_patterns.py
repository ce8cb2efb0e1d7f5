"""Stop the retrying of errors that come back three times (ME-2 to ME-15).

Messages are hostile and may be long: only their beginning is read, and no pattern repeats without a bound.

Frozen state of one run and pure transitions, so that two runs share
nothing, a replay counts the same, and any error can be tried without running a tool. The class
of an error decides what counts as the same: a missing font is a missing font
whichever tool reports it, but another file, another host or another day is progress, and two errors of no known
class are similar only for the same arguments, or word for word if the arguments are not known.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sojourn.core.safeguards.error_classes import MAX_READ, RULES, class_named, match_class
from sojourn.values.text import MAX_NAME, plain

__all__ = ["MAX_ENTRIES", "MAX_TARGET", "STRIKES", "CallOutcome", "ErrorEntry", "ErrorPatterns", "target_of"]

MAX_TARGET = 300

_MAX_NAMED = 20

_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{0,20}://([^\s/'\"`<>?#()\[\],;]{1,200})([^\s'\"`<>()\[\],;]{0,200})"
)
_QUOTED = re.compile(r"(?<!\w)'([^'\n]{1,200})'(?!\w)|\"([^\"\n]{1,200})\"|`([^`\n]{1,200})`")
_PATH = re.compile(r"(?<![^\s'\"`=:(\[])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+~-]{1,200}){1,40}[/\\]?")
_NAME = re.compile(
    r"(?<![\w.@/\\-])(?:(?:[\w-]{1,63}\.){1,10}(?![\w-]*(?:error|exception|timeout)\b)[A-Za-z][A-Za-z0-9]{1,5}"
    r"|\d{1,3}(?:\.\d{1,3}){3}|localhost)(?::\d{1,5})?(?![\w/\\-])"
)
_RELATIVE = re.compile(r"(?<![^\s'\"`=:(\[])(?:[\w.-]{1,100}[/\\]){1,40}[\w-]{1,100}\.\w{1,10}(?!\w)")


def target_of(category: str, message: str) -> str:
    """Return the hosts that a message of a network error names."""
    found = _hosts(message[:MAX_READ]) if category == "network_error" else _places(message[:MAX_READ])
    names = sorted({name.rstrip(".,:;") for name in found} - {""})[:_MAX_NAMED]
    return plain(" ".join(names), MAX_TARGET)


def _hosts(text: str) -> Iterator[str]:
    yield from (found[1].rpartition("@")[2].lower() for found in _URL.finditer(text))
    yield from (found[0].lower() for found in _NAME.finditer(_URL.sub(" ", text)))


def _places(text: str) -> Iterator[str]:
    yield from (f"{found[1].rpartition('@')[2]}{found[2]}" for found in _URL.finditer(text))
    rest = _URL.sub(" ", text)
    yield from (found[1] or found[2] or found[3] for found in _QUOTED.finditer(rest))
    rest = _QUOTED.sub(" ", rest)
    for pattern in (_PATH, _RELATIVE, _NAME):
        yield from (found[0] for found in pattern.finditer(rest))


MAX_ENTRIES = 10
"""Errors kept (ME-6)."""

STRIKES = 3
"""Similar errors in a row that stop the retrying, unless the policy says otherwise (ME-4)."""

OF_ONE_CLASS = 2
"""So many times more errors of one class, similar or not, stop it when no call has succeeded between them."""

_SHOWN_ERRORS = 3

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
    """How one executed call ended.

    Calls that were denied, cancelled or refused by a cap have no outcome.
    """

    tool: str
    error: str | None = None
    """The tool's error message; None for a success."""
    reason: str | None = None
    """The `RetryReason` of the hint, when there is one."""
    fields: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """The issue's constraint in each of those fields."""
    arguments: str = ""
    """A hash of the arguments. Empty if they are unknown."""
    retry_after: timedelta | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the call failed, even if the error message is empty."""
        return self.error is not None


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One recorded error: bounded, printable, with the details it is compared by."""

    message: str
    """The first line that is not blank, at most 500 characters."""
    tool: str
    category: str
    at: datetime | None
    fingerprint: str = ""
    """Distinguishes errors of a class, unless the class alone decides.

    It is the paths or hosts, the message, or the fields and their faults.
    """
    matched: str = ""
    arguments: str = ""
    retry_at: datetime | None = None
    """When the same call could succeed, as its hint said; a later try is polling."""

    @classmethod
    def of(cls, outcome: CallOutcome, at: datetime | None, rules: int = RULES) -> "ErrorEntry":
        message = (outcome.error or "")[:MAX_READ]
        category, matched = match_class(message, outcome.reason, rules)
        lines = (line.strip() for line in message.splitlines())
        return cls(
            message=plain(next(filter(None, lines), ""), _MAX_MESSAGE),
            tool=plain(outcome.tool, _MAX_TOOL),
            category=category,
            at=at,
            fingerprint=_fingerprint(category, message, outcome, rules),
            matched=matched,
            arguments=outcome.arguments,
            retry_at=at + outcome.retry_after if at and outcome.retry_after else None,
        )

    def similar_to(self, other: "ErrorEntry", rules: int = RULES) -> bool:
        """Return whether two errors are similar.

        Similar errors are of one class. If the class requires it, they are also of one tool, and have
        equal details.
        """
        if self.category != other.category:
            return False
        alike_by = _alike_by(self.category, rules)
        if alike_by == "class":
            return True
        if self.tool != other.tool:
            return False
        if rules > 2 and self.arguments and other.arguments:
            if self.arguments == other.arguments:
                return True
            if alike_by == "message":  # many tools answer "not found" to each id
                return False
        if alike_by == "target" and not self.fingerprint:  # then the arguments are the target
            return not (self.arguments or other.arguments or other.fingerprint)
        return self.fingerprint == other.fingerprint


@dataclass(frozen=True, slots=True)
class ErrorPatterns:
    """The errors of one run, and whether they stop the retrying.

    A new run starts with none (ME-2, ME-10).
    """

    entries: tuple[ErrorEntry, ...] = ()
    """The last ten errors, oldest first (ME-6)."""
    count: int = 0
    """Similar errors in a row, the last entry included; 0 after a success that clears them."""
    strikes: tuple[ErrorEntry, ...] = ()
    """The similar errors that stopped the retrying. Empty before."""
    rules: int = RULES
    in_row: int = 0
    """Errors in a row of the last entry's class, similar or not, without a success of any tool between them."""

    @property
    def should_stop(self) -> bool:
        """Whether to stop retrying (ME-4).

        It is true from the third similar error on, or the sixth of one class, until `reset`.
        """
        return bool(self.strikes)

    def is_due(self, at: datetime | None) -> bool:
        """Return whether the last call failed and may be retried at this time."""
        retry_at = self.entries[-1].retry_at if self.entries and self.in_row else None
        return retry_at is not None and at is not None and at >= retry_at

    def record(
        self,
        message: str,
        tool: str,
        at: datetime | None,
        *,
        reason: str | None = None,
        fields: Sequence[str] = (),
    ) -> "ErrorPatterns":
        """Return the state after one error, which need not come from a call (ME-7)."""
        return _after(self, ErrorEntry.of(CallOutcome(tool, message, reason, tuple(fields)), at, self.rules))

    def succeeded(self, tool: str) -> "ErrorPatterns":
        """Return the state after a success of a tool, which clears the count.

        If the environment lacks something, such as a font, only a success of the tool that failed last shows that it is there now.
        """
        if not (self.count or self.in_row):
            return self
        last = self.entries[-1]
        clears = last.tool == tool or (self.rules > 2 and _alike_by(last.category, self.rules) != "class")
        count, in_row = 0 if clears else self.count, 0 if self.rules > 2 else self.in_row
        return (
            self
            if (count, in_row) == (self.count, self.in_row)
            else replace(self, count=count, in_row=in_row)
        )

    def record_step(
        self,
        outcomes: Iterable[CallOutcome],
        at: datetime | None,
        *,
        limit: int | None = STRIKES,
        waited: bool = False,
    ) -> "ErrorPatterns":
        """Return the state after a whole step.

        Outcomes count in call order, not in order of arrival. Each tool counts once for each class, so
        five parallel time-outs of a tool are one strike. A success among them resets the count, and the
        tool's later errors of that class do not count. Of the errors of one class in a row, a step
        counts one, however many tools raised them.
        """
        patterns, counted, classes = self, set[tuple[str, str]](), set[str]()
        for outcome in outcomes:
            if outcome.error is None:
                patterns = patterns.succeeded(outcome.tool)
                continue
            entry = ErrorEntry.of(outcome, at, self.rules)
            if (entry.tool, entry.category) not in counted:
                counted.add((entry.tool, entry.category))
                patterns = _after(patterns, entry, limit, waited=waited, same_step=entry.category in classes)
                classes.add(entry.category)
        return patterns

    def new_turn(self) -> "ErrorPatterns":
        """Return the state after a person's message.

        The count of similar errors continues. That of different errors of one class begins anew.
        """
        return replace(self, in_row=0) if self.in_row else self

    def reset(self) -> "ErrorPatterns":
        """Return an empty state."""
        return ErrorPatterns(rules=self.rules)

    def suggestion(self) -> str:
        """Return the message for a person once retrying has stopped, empty before (ME-5)."""
        if not self.strikes:
            return ""
        row = class_named(self.strikes[-1].category)
        tools = list(dict.fromkeys(plain(entry.tool, MAX_NAME) for entry in self.strikes))
        last = self.strikes[-_SHOWN_ERRORS:]
        messages = [plain(entry.message, _MAX_SHOWN) or "(no message)" for entry in last]
        count = len(self.strikes)
        failed = (
            f"{_list_fields(tools)} failed {count} times in a row"
            if len(tools) == 1
            else f"{count} similar errors in a row, of {_list_fields(tools)}"
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
        """Return the state as JSON, for status and debugging (ME-15)."""
        return {
            "category": self.entries[-1].category if self.entries else None,
            "count": self.count,
            "should_stop": self.should_stop,
            "records": [
                asdict(entry) | {"at": entry.at.isoformat() if entry.at else None} for entry in self.entries
            ],
        }


def _after(
    patterns: ErrorPatterns,
    entry: ErrorEntry,
    limit: int | None = STRIKES,
    *,
    waited: bool = False,
    same_step: bool = False,
) -> ErrorPatterns:
    last = patterns.entries[-1] if patterns.entries else None
    is_similar = patterns.count > 0 and last is not None and entry.similar_to(last, patterns.rules)
    count = patterns.count + 1 if is_similar else 1
    in_row = patterns.in_row + 1 if last and patterns.in_row and last.category == entry.category else 1
    if same_step and last and last.category == entry.category:
        in_row = max(patterns.in_row, 1)
    if patterns.rules > 2 and is_similar and last and (waited or _is_due(last, entry)):
        count, in_row = patterns.count, patterns.in_row
    entries = (*patterns.entries[1 - MAX_ENTRIES :], entry)
    strikes = patterns.strikes
    if patterns.rules <= 2:
        strikes = strikes or (entries[-STRIKES:] if count == STRIKES else ())
    elif limit is not None and not strikes:
        reached = count if count >= limit else in_row if in_row >= OF_ONE_CLASS * limit else 0
        strikes = entries[-reached:] if reached else ()
    return replace(patterns, entries=entries, count=count, strikes=strikes, in_row=in_row)


def _is_due(last: ErrorEntry, entry: ErrorEntry) -> bool:
    """Return whether a call was tried again when its hint had said."""
    return last.retry_at is not None and entry.at is not None and entry.at >= last.retry_at


def _alike_by(category: str, rules: int) -> str:
    alike_by = class_named(category).alike_by
    return "class" if alike_by == "target" and rules <= 2 else alike_by


def _fingerprint(category: str, message: str, outcome: CallOutcome, rules: int) -> str:
    match _alike_by(category, rules):
        case "target":
            return target_of(category, message)
        case "fields" if rules > 2 and outcome.faults:
            text = ", ".join(
                sorted({" ".join(pair) for pair in zip(outcome.fields, outcome.faults, strict=False)})
            )
        case "fields":
            text = ", ".join(sorted(set(outcome.fields)))
        case "message" if rules > 2:
            text = message.strip()
        case "message":
            text = _VARYING.sub("#", message.lower())
        case _:
            return ""
    if rules > 2 and len(text) > _MAX_FINGERPRINT:
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return f"{plain(text, _MAX_FINGERPRINT)} {digest}"
    return plain(text, _MAX_FINGERPRINT)


def _list_fields(tools: Sequence[str]) -> str:
    names = [f"`{tool}`" for tool in tools]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
