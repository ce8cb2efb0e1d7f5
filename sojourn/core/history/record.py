"""One history event as the fold reads it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError

__all__ = ["HistoryRecord", "OpenCall"]


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One history event, decoded and freed of Temporal's types."""

    id: int
    time: datetime
    kind: str
    """`started` `scheduled` `completed` `failed` `local_ended` `child_initiated` `child_started` `child_completed`
    `child_failed` `sent` `timer_fired` `cancel_requested` `continued` `reset` `run_completed` `run_failed` `run_canceled` `run_terminated`
    `run_timed_out`."""
    name: str = ""
    """Activity type, the id of a child run, the name of an update or signal, or what a timer was for."""
    key: str = ""
    """Activity id."""
    of: int = 0
    """The event that scheduled or initiated what ended here."""
    value: Any = None
    """The decoded input or result."""
    error: ToolError | None = None
    """The failure; None where what ended was cancelled."""
    timeout: str = ""
    """Which time-out it was, when the server gave the activity up: `schedule-to-start` `heartbeat` ..."""
    queue: str = ""
    """Where an activity waits for a worker."""
    waits: str = ""
    """How long it may wait there."""
    judged: bool = False
    """Whether it is an update: the workflow accepted it before it was recorded."""
    identity: str = ""
    """Who sent an update or signal, as Temporal knows them."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call or plan that has begun and not ended."""

    call: ToolRequest
    since: datetime
    link: RunLink | None = None
    queue: str = ""
    waits: str = ""
    typed: bool = False
    bounded: bool = False
    is_local: bool = False
    external: bool = False
    """Whether only what was sent from outside is checked."""
    child_time: timedelta = timedelta(0)
    """The active time of the step's child runs when this one began."""
