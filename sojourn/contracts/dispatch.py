"""Dispatch: how one admitted call is carried out, as recorded in the plan's result."""

from datetime import timedelta
from typing import Any

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.message import Message
from sojourn.contracts.record import Record
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.contracts.tool_result import ToolResult

__all__ = ["ACTIVITY_ATTEMPTS", "HEARTBEAT", "NET", "REPEATED", "Dispatch"]

ACTIVITY_ATTEMPTS = 20
"""Executions in all: three deploys during one tool use up three. Of lost workers fewer are borne."""

HEARTBEAT = timedelta(seconds=15)
"""A lost worker is noticed after this; activities beat from 3 s on, every 5 s."""

NET = timedelta(seconds=5)
"""How much wider than a tool's own time limit its start-to-close is; the activity takes it off again."""

REPEATED = "RepeatedAfterLostWorker"
"""How a local call fails that must be made as an ordinary one; its detail is the number of lost workers."""


class Dispatch(Record):
    """All that the workflow needs to know to carry out one call; nothing is read from the app there.

    A plan's dispatches stand in the order of its calls.
    """

    kind: str = "activity"
    """`activity` `local` `child` `external` `answered`; open."""
    task_queue: str | None = None
    """Where it runs; None is the run's own queue."""
    schedule_to_start: timedelta | None = None
    """How long another queue may leave it lying before it is answered as `tool_unavailable`."""
    timeout: timedelta = timedelta(minutes=2)
    """Time limit of one attempt, enforced in the activity; the server's net is 5 s wider."""
    max_attempts: int = ACTIVITY_ATTEMPTS
    """Executions in all; 1 where a lost attempt must not be repeated."""
    agent_id: str | None = None
    """For a child: its agent."""
    messages: list[Message] = []
    """For a child: its first messages."""
    answer: dict[str, Any] | None = None
    """For a child: JSON Schema of the typed answer it is to give."""
    bounded: bool = False
    """For a child: whether its answer states its bounds."""
    policy: RunPolicyOverride | None = None
    """For a child: what it may spend of what is left here."""
    confirm: AwaitConfirmation | None = None
    """A person decides first; without the payload where it stands in the call."""
    expires_after: timedelta | None = None
    """For `external`: how long to wait for the result."""
    payload: dict[str, Any] | None = None
    """For `external`: what interceptors made of the arguments; None where the call's own are asked."""
    result: ToolResult | None = None
    """For `answered`: the result, with no activity."""
