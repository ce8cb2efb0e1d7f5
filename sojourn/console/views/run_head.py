"""Head of a run's page.

It shows the run's request, its sender, its state, its usage and its remaining budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sojourn.checks.stuck import mend_of
from sojourn.client.conversation_id import is_conversation
from sojourn.client.stuck import Stuck
from sojourn.console.views.amounts import money, short_number
from sojourn.console.views.run_rows import doing, stuck_line
from sojourn.console.views.states import OPEN, word_of
from sojourn.contracts.run import RunStatus
from sojourn.contracts.run_policy import Caps
from sojourn.reader import Snapshot
from sojourn.timeline import TokenUsage
from sojourn.values.visible import took

__all__ = ["RunHead", "head_of", "left_of"]

SHOWN = 3
"""Child runs that are named."""


@dataclass(frozen=True, slots=True)
class RunHead:
    """Head of a run's page, as plain values."""

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
    """Return the head of a run.

    Args:
        status: Its status.
        snapshot: The run when it was read, with its input.
        spent: Its usage.
        children: Its child runs, in their order.
        stuck: The reason if it is stuck.
    """
    is_open = status.status in OPEN
    state = status.status
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
        failure=status.failure or "",
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
    """Return what is left of each limit, in words. Absent limits are left out."""
    known = (
        ("calls", None if caps.tool_calls is None else f"{caps.tool_calls:,}"),
        ("rounds in this turn", None if caps.rounds is None else f"{caps.rounds:,}"),
        ("failed steps in a row", None if caps.failed_steps is None else f"{caps.failed_steps:,}"),
        ("active time", took(caps.time) if caps.time is not None else None),
        ("tokens", short_number(caps.tokens) if caps.tokens is not None else None),
        ("money", money(caps.cost) if caps.cost is not None else None),
    )
    return [(name, amount) for name, amount in known if amount is not None]
