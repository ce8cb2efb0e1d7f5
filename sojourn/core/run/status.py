"""The status of a run: one function for the live query and for the fold of its history."""

from datetime import datetime

from sojourn.contracts.run import IDLE, PAUSED, RunStatus
from sojourn.core.run.state import RunState
from sojourn.core.run.totals import add_totals, used

__all__ = ["status_of"]


def status_of(state: RunState, run_id: str, now: datetime) -> RunStatus:
    """The status of an open run, from its state."""
    paused = state.paused
    waits_for = next(iter(state.waits.open), "")
    return RunStatus(
        run_id=run_id,
        agent_id=state.opening.agent_id,
        session_id=state.opening.session_id,
        principal=state.opening.principal,
        acts_for=state.acts_for,
        forked_from=state.opening.forked_from,
        turn_id=state.turn_id,
        status="paused" if paused else "waiting" if waits_for else "idle" if state.is_idle else "running",
        phase=state.phase,
        awaits=list(state.waits.open.values()),
        awaiting=PAUSED if paused else waits_for or (IDLE if state.is_idle else ""),
        paused=paused.reason if paused else None,
        caps=state.caps(now),
        calls=list(state.calls.values()),
        tool_calls=state.totals.tool_calls,
        rounds=state.totals.turn_rounds,
        used=used(add_totals(state.earlier, state.totals)),
        conversation=state.opening.conversation,
        turns=state.turns,
        queued=len(state.inbox.waiting),
        notes=list(state.notes),
        safeguards=state.safeguards.shown(),
        started_at=state.began,
    )
