"""A run as a row of a list, and the head of its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sojourn.checks.workers import mend_of
from sojourn.client.conversation_id import is_conversation
from sojourn.client.forking import RETRYABLE
from sojourn.client.stuck import Stuck
from sojourn.console.views.markdown import plain_words
from sojourn.console.views.text import OPEN, short_number, word_of
from sojourn.console.views.waits import wait_line, waits_of
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunStatus
from sojourn.contracts.run_policy import Caps
from sojourn.reader import Detail, ListedRun, RunEnd, Snapshot
from sojourn.timeline import TokenUsage
from sojourn.values.visible import format_duration, format_money, one_line

__all__ = ["RunHead", "RunRow", "doing", "row_of", "waits_line"]

MAX_ASKED = 160


@dataclass(frozen=True, slots=True)
class RunRow:
    run: ListedRun
    status: str
    """A status of `WORDS` in `text.py`."""
    now: str
    """Its current activity, its wait, or its answer."""
    used: Usage | None
    """What its models used, as far as it is known."""

    @property
    def word(self) -> str:
        return word_of(self.status)

    @property
    def asked(self) -> str:
        """The request on one line. Empty if it cannot be read here."""
        return one_line(self.run.asked, MAX_ASKED)

    @property
    def took(self) -> timedelta | None:
        """Time from start to end. None while the run is open."""
        run = self.run
        return run.closed_at - run.started_at if run.closed_at and run.started_at else None


def row_of(
    run: ListedRun,
    detail: Detail | None = None,
    *,
    stuck: Stuck | None = None,
    otherwise: str = "",
) -> RunRow:
    status = detail if isinstance(detail, RunStatus) else None
    ended = detail if isinstance(detail, RunEnd) else None
    used = ended.output.total_usage if ended and ended.output else status.used if status else None
    now = _now(status, stuck, ended) or otherwise
    return RunRow(run=run, status=_state(run, status, stuck), now=now, used=used)


def _state(run: ListedRun, status: RunStatus | None, stuck: Stuck | None) -> str:
    state = status.status if status and run.status in OPEN else run.status
    if state != "running":
        return "gave_up" if run.gave_up else state
    if status and status.child_awaits:
        return "waiting"  # for an answer to a child run
    return "stuck" if stuck else state


def _now(status: RunStatus | None, stuck: Stuck | None, ended: RunEnd | None) -> str:
    if ended is not None:
        return _end(ended)
    if stuck is not None:
        return stuck_line(stuck)
    return doing(status) if status is not None else ""


def stuck_line(stuck: Stuck) -> str:
    return one_line(stuck.reason or "It keeps failing; the history does not say why")


def _end(ended: RunEnd) -> str:
    if ended.output is not None:
        return one_line(plain_words(ended.output.text))
    return one_line(str(ended.error)) if ended.error else ""


def doing(status: RunStatus) -> str:
    """Return the current activity of an open run, on one line."""
    if status.paused is not None:
        return f"Paused: {one_line(status.paused)}" if status.paused else "Paused"
    if line := waits_line(status):
        return line
    if status.hints:
        return one_line(status.hints[0])
    running = [one_line(call.name, 60) for call in status.calls if call.state == "running"]
    if running:
        more = f" and {len(running) - 3} more" if len(running) > 3 else ""
        return f"Calling {', '.join(running[:3])}{more}"
    if status.status == "idle":
        queued = f", {status.queued} queued" if status.queued else ""
        return f"Waiting for a message · {status.turns} {'turn' if status.turns == 1 else 'turns'}{queued}"
    return {"planning": "Planning", "finalizing": "Writing the final answer"}.get(
        status.phase, status.phase.replace("_", " ")
    )


def waits_line(status: RunStatus) -> str:
    """Describe what an open run and its child runs wait for, on one line."""
    waits = waits_of(status)
    line = wait_line([each for each in waits if each.run_id == waits[0].run_id])
    if not waits or waits[0].run_id == status.run_id:
        return line
    return f"Child run: {line[:1].lower()}{line[1:]}"


SHOWN = 3
"""Child runs that are named."""


@dataclass(frozen=True, slots=True)
class RunHead:
    """A run as it is now, with what the head of its page says of it."""

    run: RunStatus
    snapshot: Snapshot
    """The run's message and its labels."""
    spent: TokenUsage
    children: Sequence[str] = ()
    """Its child runs, the oldest first."""
    stuck: Stuck | None = None
    has_backoff: bool = False
    """Whether a plan or a call waits for the time of its next attempt, or may."""

    @property
    def status(self) -> str:
        """A status of `WORDS` in `text.py`."""
        if self.run.status != "running":
            return "gave_up" if self.run.gave_up else self.run.status
        return "waiting" if self.run.child_awaits else "stuck" if self.stuck else "running"

    @property
    def word(self) -> str:
        return word_of(self.status)

    @property
    def is_open(self) -> bool:
        return self.run.status in OPEN

    @property
    def may_retry(self) -> bool:
        """Whether an operator may go on from it in a new run, without a change."""
        return self.run.status in RETRYABLE

    @property
    def now(self) -> str:
        """Its current activity. Empty if it has ended."""
        if self.stuck and self.status == "stuck":
            return stuck_line(self.stuck)
        return doing(self.run) if self.is_open else ""

    @property
    def failure(self) -> str:
        """Why it failed, or gave up."""
        return self.run.failure or self.run.gave_up.replace("_", " ")

    @property
    def mend(self) -> str:
        """Advice for a run that is stuck."""
        return mend_of(self.run.run_id, self.stuck) if self.stuck and self.status == "stuck" else ""

    @property
    def has_talk(self) -> bool:
        """Whether it is a conversation that Talk finds by its session."""
        run = self.run
        return run.conversation and is_conversation(run.run_id, run.agent_id, run.session_id)

    @property
    def parent(self) -> str:
        """Parent of a child run."""
        return self.run.run_id.rpartition("/")[0]

    @property
    def last_children(self) -> Sequence[str]:
        """The child runs to name, the newest first."""
        return self.children[: -SHOWN - 1 : -1]

    @property
    def took(self) -> timedelta | None:
        run = self.run
        return run.closed_at - run.started_at if run.closed_at and run.started_at else None

    @property
    def tool_calls(self) -> int:
        return max(self.run.tool_calls, len(self.run.calls))

    @property
    def left(self) -> list[tuple[str, str]]:
        """Remaining budget: each limit, and the amount left of it."""
        return remaining_limits(self.run.caps) if self.is_open else []


def remaining_limits(caps: Caps) -> list[tuple[str, str]]:
    """Return the rest of each limit, in words. Absent limits are left out."""
    known = (
        ("calls", None if caps.tool_calls is None else f"{caps.tool_calls:,}"),
        ("rounds in this turn", None if caps.rounds is None else f"{caps.rounds:,}"),
        ("failed steps in a row", None if caps.failed_steps is None else f"{caps.failed_steps:,}"),
        ("active time", format_duration(caps.time) if caps.time is not None else None),
        ("tokens", short_number(caps.tokens) if caps.tokens is not None else None),
        ("money", format_money(caps.cost) or None),
    )
    return [(name, amount) for name, amount in known if amount is not None]
