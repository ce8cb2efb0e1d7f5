"""A run as a row of a list, and the head of its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sojourn.answers import wait_view
from sojourn.checks.workers import mend_of
from sojourn.client.conversation_id import is_conversation
from sojourn.client.stuck import Stuck
from sojourn.console.views.markdown import spoken
from sojourn.console.views.text import OPEN, money, short_number, word_of
from sojourn.console.views.waits import wait_line
from sojourn.contracts.run import RunStatus
from sojourn.contracts.run_policy import Caps
from sojourn.reader import Detail, ListedRun, RunEnd, Snapshot
from sojourn.timeline import TokenUsage
from sojourn.values.visible import format_duration, one_line

__all__ = ["RunRow", "doing", "head_of", "row_of", "waits_line"]

MAX_ASKED = 160


@dataclass(frozen=True, slots=True)
class RunRow:
    run_id: str
    agent_id: str
    session_id: str
    asked: str
    """The request on one line. Empty if it cannot be read here."""
    status: str
    """A status of `WORDS` in `text.py`."""
    word: str
    now: str
    """Its current activity, its wait, or its answer."""
    started_at: datetime | None
    closed_at: datetime | None
    took: timedelta | None
    """Time from start to end. None while the run is open."""
    cost: float | None
    tokens: int
    parent: str
    """Parent of a child run."""
    origin: str
    """The run from which a fork was made."""


def row_of(
    run: ListedRun,
    detail: Detail | None = None,
    *,
    stuck: Stuck | None = None,
    otherwise: str = "",
) -> RunRow:
    status = detail if isinstance(detail, RunStatus) else None
    ended = detail if isinstance(detail, RunEnd) else None
    state = _state(run, status, stuck)
    usage = ended.output.total_usage if ended and ended.output else status.used if status else None
    return RunRow(
        run_id=run.run_id,
        agent_id=run.agent_id,
        session_id=run.session_id,
        asked=one_line(run.asked, MAX_ASKED),
        status=state,
        word=word_of(state),
        now=_now(status, stuck, ended) or otherwise,
        started_at=run.started_at,
        closed_at=run.closed_at,
        took=run.closed_at - run.started_at if run.closed_at and run.started_at else None,
        cost=usage.cost if usage else None,
        tokens=usage.input_tokens + usage.output_tokens if usage else 0,
        parent=run.run_id.rpartition("/")[0],
        origin=run.forked_from.run_id if run.forked_from else "",
    )


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
        return one_line(spoken(ended.output.text))
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
    by_run = {status.run_id: status.awaits, **status.child_awaits}
    for run_id, waits in by_run.items():
        if line := wait_line([wait_view(wait, run_id) for wait in waits]):
            return line if run_id == status.run_id else f"Child run: {line[:1].lower()}{line[1:]}"
    return ""


SHOWN = 3
"""Child runs that are named."""


@dataclass(frozen=True, slots=True)
class RunHead:
    run_id: str
    agent_id: str
    session_id: str
    asked: str
    by: str
    """The principal who asked for the run. Empty if the program named none."""
    labels: dict[str, str]
    status: str
    word: str
    now: str
    """Its current activity. Empty if it has ended."""
    failure: str
    mend: str
    """Advice for a run that is stuck."""
    is_open: bool
    is_paused: bool
    is_conversation: bool
    has_talk: bool
    """Whether it is a conversation that Talk finds by its session."""
    parent: str
    """Parent of a child run."""
    children: list[str]
    """The last child runs, the newest first."""
    more_children: int
    """Number of other child runs in the tree."""
    origin: str
    """The run from which a fork was made."""
    started_at: datetime | None
    closed_at: datetime | None
    took: timedelta | None
    spent: TokenUsage
    tool_calls: int
    left: list[tuple[str, str]]
    """Remaining budget: each limit, and the amount left of it."""


def head_of(
    status: RunStatus,
    snapshot: Snapshot,
    spent: TokenUsage,
    children: Sequence[str] = (),
    stuck: Stuck | None = None,
) -> RunHead:
    is_open = status.status in OPEN
    state = "gave_up" if status.gave_up else status.status
    if state == "running":
        state = "waiting" if status.child_awaits else "stuck" if stuck else state
    return RunHead(
        run_id=status.run_id,
        agent_id=status.agent_id,
        session_id=status.session_id,
        asked=snapshot.asked,
        by=status.principal.subject if status.principal else "",
        labels=dict(snapshot.labels),
        status=state,
        word=word_of(state),
        now=stuck_line(stuck) if stuck and state == "stuck" else doing(status) if is_open else "",
        mend=mend_of(status.run_id, stuck) if stuck and state == "stuck" else "",
        failure=status.failure or status.gave_up.replace("_", " "),
        is_open=is_open,
        is_paused=status.paused is not None,
        is_conversation=status.conversation,
        has_talk=status.conversation and is_conversation(status.run_id, status.agent_id, status.session_id),
        parent=status.run_id.rpartition("/")[0],
        children=list(children)[: -SHOWN - 1 : -1],
        more_children=max(0, len(children) - SHOWN),
        origin=status.forked_from.run_id if status.forked_from else "",
        started_at=status.started_at,
        closed_at=status.closed_at,
        took=status.closed_at - status.started_at if status.closed_at and status.started_at else None,
        spent=spent,
        tool_calls=max(status.tool_calls, len(status.calls)),
        left=left_of(status.caps) if is_open else [],
    )


def left_of(caps: Caps) -> list[tuple[str, str]]:
    """Return the rest of each limit, in words. Absent limits are left out."""
    known = (
        ("calls", None if caps.tool_calls is None else f"{caps.tool_calls:,}"),
        ("rounds in this turn", None if caps.rounds is None else f"{caps.rounds:,}"),
        ("failed steps in a row", None if caps.failed_steps is None else f"{caps.failed_steps:,}"),
        ("active time", format_duration(caps.time) if caps.time is not None else None),
        ("tokens", short_number(caps.tokens) if caps.tokens is not None else None),
        ("money", money(caps.cost) if caps.cost is not None else None),
    )
    return [(name, amount) for name, amount in known if amount is not None]
