"""Go on from an earlier point of a conversation, in the same run.

An edited message is answered as if nothing had been said after the point before it. The turns after that point are
another branch, which stays in the history. An activity reads the state at the point, and the run continues as new with
it. So each branch begins an execution of its own, and the id of the conversation names the newest one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.ids import place_of
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import BRANCH
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.run.inbox import BranchRequest, Inbox, SentMessage, read_send
from sojourn.core.run.state import RunState
from sojourn.core.run.turns import interrupt_turn, receive_message
from sojourn.values.frozen import copy_with

__all__ = [
    "BRANCHED",
    "UNUSABLE",
    "Branching",
    "branch_fault",
    "busy_fault",
    "drop_branch",
    "read_branch",
    "request_branch",
    "rewind",
]

BRANCHED = "the conversation goes on from an earlier message"
"""Why a turn is interrupted that is under way then."""

REFUSED = f"{BRANCH} refused"
"""How the note of a branch that cannot begin starts."""

UNUSABLE = "the conversation at that point cannot be read, or is too large to go on from"
"""Why a conversation stays in its branch although the point was read."""

_OWN = ("at", "number", "idle")
_BUSY = Rejection("the conversation is at another branching; try again", "SessionBusy")
_LATE = Rejection("the conversation went on from another message meanwhile; look at it again", "AwaitClosed")
_AT_WORK = Rejection("a turn of the conversation is under way, or a message waits", "SessionBusy")
_NO_IDLE = Rejection("`idle` is true or false")
_NO_PLACE = Rejection("`at` is the id of the event at which a turn ended, or the run started")
_NO_NUMBER = Rejection("`number` is the number of the conversation's branchings so far")


@dataclass(frozen=True)
class Branching:
    """A request to go on from a point, with a message or without one."""

    at: BranchRequest
    sent: SentMessage | None
    idle: bool = False
    """Whether it is refused while a turn is under way or a message waits."""


def read_branch(values: Sequence[Any], run: RunState) -> Branching | Rejection:
    """Read `{"at", "number", "idle"}`, with the fields of a message or without them."""
    if len(values) != 1 or not isinstance(values[0], dict):
        return Rejection(f"{BRANCH} takes one object")
    fields = dict(cast("dict[str, Any]", values[0]))
    at, number, idle = (fields.pop(name, None) for name in _OWN)
    if not (isinstance(at, str) and _is_place(at)):
        return _NO_PLACE
    if not isinstance(number, int) or isinstance(number, bool):
        return _NO_NUMBER
    if not (idle is None or isinstance(idle, bool)):
        return _NO_IDLE
    sent = read_send([fields], Inbox(), run.opening.tenant) if "text" in fields or "parts" in fields else None
    if isinstance(sent, Rejection):
        return sent
    if run.branching is not None:
        return _BUSY
    if number != run.branches:
        return _LATE
    return Branching(BranchRequest(at, sent.message_id if sent else ""), sent, idle is True)


def busy_fault(run: RunState, asked: Branching) -> Rejection | None:
    """Return why a branch would end a turn that it is not to end, or None.

    Only the run asks: a reader may know of the end of a turn later.
    """
    is_at_work = not run.is_idle or run.inbox.waiting
    return _AT_WORK if asked.idle and is_at_work else None


def _is_place(text: str) -> bool:
    try:
        place_of(text)
    except ValueError:
        return False
    return bool(text)


def request_branch(run: RunState, asked: Branching, after: str) -> tuple[RunState, SentMessage | None]:
    """Interrupt the present turn, and hold the message of the new branch.

    Messages that wait belong to the branch that is left: they are withdrawn.
    """
    state = interrupt_turn(run, BRANCHED)
    inbox = state.inbox
    for waiting in inbox.waiting:
        inbox = inbox.withdrawing(waiting.message_id)
    sent = asked.sent
    if sent is not None:
        inbox = inbox.forgetting(sent.message_id)
    state = copy_with(state, inbox=inbox, branching=asked.at, branches=run.branches + 1)
    return receive_message(state, sent, after) if sent is not None else (state, None)


def drop_branch(run: RunState) -> RunState:
    """Return the state that goes on where it is, since the point cannot be read.

    The branching does not count: readers have no event of it, so their next request has the number before it.
    """
    return copy_with(run, branching=None, branches=run.branches - 1)


def branch_fault(error: ToolError | None = None) -> str:
    """Return the note that a conversation stays where it is.

    Args:
        error: Why the point could not be read; None if it was read, and cannot be used.
    """
    return f"{REFUSED}: {error.message if error else UNUSABLE}"[:500]


def rewind(run: RunState, point: RunState) -> RunState:
    """Return the state of a run that goes on from a point.

    What planners read is that of the point. What was spent and decided since then still counts, and its effects are carried.
    """
    return copy_with(
        run,
        branching=None,
        planned_from=point.planned_from,
        turn_start=point.turn_start,
        opened_after=point.opened_after,
        unseen=point.unseen,
        askers=point.askers,
        new=point.new,
        resume_messages=point.resume_messages,
        set_aside=point.set_aside,
        memory=point.memory,
        safeguards=point.safeguards,
        artifacts=point.artifacts,
        unsettled=point.unsettled,
        unexecuted=point.unexecuted,
        carried=point.carried,
        taint=point.taint,
        doubts={},
        partial="",
        phase="idle",
    )
