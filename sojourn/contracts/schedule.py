"""Schedules: what a schedule sends, and its status."""

from datetime import datetime

from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Record
from sojourn.contracts.run_policy import RunPolicyOverride

__all__ = ["ScheduleStatus", "ScheduledMessage", "ScheduledRun"]


class ScheduledMessage(Record):
    """The one argument of the workflow `ScheduledMessage`: a message for a conversation, whose id is the workflow's."""

    agent_id: str
    """The agent."""
    session_id: str
    """The session."""
    message: Message
    """The message."""
    by: str | None = None
    """Name of the sender, recorded unchecked."""
    labels: dict[str, str] = {}
    """Labels of the conversation, where the message starts it."""
    policy: RunPolicyOverride | None = None
    """Limits of the conversation, where the message starts it."""
    principal: Principal | None = None
    """Who asks, where the message starts the conversation; its tenant says whose conversation it is."""


class ScheduledRun(Record):
    """One of the last times that a schedule acted."""

    at: datetime
    """When it was due."""
    id: str
    """The run that it started; for a conversation, the id of the message that it sent."""


class ScheduleStatus(Record):
    """A schedule: when it acts, what it sends, and what it did last."""

    schedule_id: str
    """The schedule."""
    agent_id: str = ""
    """The agent."""
    session_id: str = ""
    """The conversation's session; empty for a schedule that starts runs."""
    message: str = ""
    """The beginning of the message."""
    timing: str = ""
    """When it acts, in words: `every 1 day`, or `0 8 * * 1-5 Europe/Berlin`."""
    paused: bool = False
    """Whether it is paused."""
    note: str = ""
    """Why it was paused or resumed."""
    next_times: list[datetime] = []
    """When it acts next, soonest first."""
    last: list[ScheduledRun] = []
    """The last times that it acted, oldest first; of a listing, a few."""
    count: int | None = None
    """How often it has acted; None in a listing."""
