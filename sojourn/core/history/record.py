"""One history event in the form that the fold reads, and the state of a fold."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sojourn.contracts.event import BaseEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import RunLink
from sojourn.core.run.state import RunState

__all__ = ["FoldState", "HistoryRecord", "OpenCall"]


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One history event, decoded and without Temporal's types."""

    id: int
    time: datetime
    kind: str
    """`started` `scheduled` `completed` `failed` `local_ended` `local_planned` `checked` `child_initiated` `child_started` `child_completed`
    `child_failed` `sent` `timer_fired` `cancel_requested` `continued` `reset` `turn_ended` `denied` `run_completed` `run_failed` `run_canceled` `run_terminated`
    `run_timed_out` `due` `decided`."""
    name: str = ""
    """The activity type, the child run's id, the update's or signal's name, or the timer's purpose."""
    key: str = ""
    """The activity id, the confirmation whose approval was checked, the id of the turn that ended, or of the message that denied; the
    key of the task that judged a decision."""
    of: int = 0
    """The id of the event that scheduled or initiated the activity or child run that ended."""
    value: Any = None
    """The decoded input or result, the first detail of a failed call's failure, or all details of a canceled plan."""
    error: ToolError | None = None
    """The failure; None for a cancellation."""
    timeout: str = ""
    """The kind of time-out, when the server timed the activity out: `schedule-to-start`, `heartbeat` ..."""
    queue: str = ""
    """The task queue of an activity."""
    waits: str = ""
    """How long an activity may wait in its task queue."""
    message_ids: tuple[str, ...] = ()
    """The messages of a turn that was interrupted before its plan was in the history."""
    await_ids: tuple[str, ...] = ()
    """The approvals that a message denied."""
    due: tuple["HistoryRecord", ...] = ()
    """The fired timers of waits that the run has read by now."""
    message_id: str = ""
    """The id of the message that an update delivers as an answer."""
    judged: bool = False
    """Whether the record is an update, which the workflow had accepted before it was recorded."""
    identity: str = ""
    """The identity of the client that sent an update or signal, as Temporal records it."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    call: ToolRequest
    since: datetime
    link: RunLink | None = None
    queue: str = ""
    waits: str = ""
    typed: bool = False
    bounded: bool = False
    is_local: bool = False
    external: bool = False
    """Whether the activity only checks a result from outside."""
    child_time: timedelta = timedelta(0)
    """The active time of the step's child runs when this child run began."""


Kind = TypeVar("Kind", bound=BaseEvent)


class FoldState:
    """The state of one run, as far as its history has been read."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.state = RunState.opened(RunInput(agent_id="", messages=[]))
        self.moved_messages: tuple[Message, ...] = ()
        """The messages that the last plan, or the end of the run or the turn, has moved from the state into the transcript."""

    def event(self, record: HistoryRecord, kind: type[Kind], **payload: Any) -> Kind:
        """Return an event at this record, without its id, which the fold sets."""
        run = self.state.opening
        return kind(
            run_id=self.run_id,
            session_id=run.session_id,
            turn_id=self.state.turn_id,
            agent_id=run.agent_id,
            parent_tool_call_id=run.parent.parent_tool_call_id if run.parent else None,
            time=record.time,
            **payload,
        )
