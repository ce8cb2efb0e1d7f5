"""Rows of the list of runs.

A row has the request of a run, and its current activity or its end on one line.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sojourn.answers import wait_view
from sojourn.client.stuck import Stuck
from sojourn.console.views.markdown import spoken
from sojourn.console.views.states import OPEN, word_of
from sojourn.console.views.waits import wait_line
from sojourn.contracts.run import RunStatus
from sojourn.reader import Detail, ListedRun, RunEnd
from sojourn.values.visible import one_line

__all__ = ["RunRow", "doing", "row_of", "stuck_line"]

MAX_ASKED = 160


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of the list."""

    run_id: str
    agent_id: str
    session_id: str
    asked: str
    """The request on one line. Empty if it cannot be read here."""
    status: str
    """A status of `views.states`."""
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
    """Return the row of a run.

    Args:
        run: The run, as listed.
        detail: Its status or its end, if one was read.
        stuck: The reason if it is stuck.
        otherwise: The text if none of these is known.
    """
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
        return state
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
    """Return why a run is stuck, on one line."""
    return one_line(stuck.reason or "it fails again and again; the history does not say why")


def _end(ended: RunEnd) -> str:
    if ended.output is not None:
        return one_line(spoken(ended.output.text))
    return one_line(str(ended.error)) if ended.error else ""


def doing(status: RunStatus) -> str:
    """Return the current activity of an open run, on one line."""
    if status.paused is not None:
        return f"paused: {one_line(status.paused)}" if status.paused else "paused"
    if line := _waiting(status):
        return line
    if status.hints:
        return one_line(status.hints[0])
    running = [one_line(call.name, 60) for call in status.calls if call.state == "running"]
    if running:
        more = f" and {len(running) - 3} more" if len(running) > 3 else ""
        return f"calls {', '.join(running[:3])}{more}"
    if status.status == "idle":
        queued = f", {status.queued} queued" if status.queued else ""
        return f"waits for a message after {status.turns} {'turn' if status.turns == 1 else 'turns'}{queued}"
    return {"planning": "plans", "finalizing": "writes its last answer"}.get(
        status.phase, status.phase.replace("_", " ")
    )


def _waiting(status: RunStatus) -> str:
    by_run = {status.run_id: status.awaits, **status.child_awaits}
    for run_id, waits in by_run.items():
        if line := wait_line([wait_view(wait, run_id) for wait in waits]):
            return line if run_id == status.run_id else f"a child run {line}"
    return ""
