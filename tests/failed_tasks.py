"""Why workflow tasks of a run failed, which none may for a reason of ours."""

from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

__all__ = ["failed_tasks"]

SERVERS_OWN = ("_UNHANDLED_COMMAND", "_FORCE_CLOSE_COMMAND")
"""A signal came in while a task was completed."""
TOO_SLOW = "[TMPRL1101]"
"""Temporal's code for a task that took over two seconds: on a machine that is busy enough, any may."""


def failed_tasks(events: Iterable[HistoryEvent]) -> list[str]:
    """Cause and message of each failed workflow task, but for those of the server and of a busy machine."""
    failed = [
        event.workflow_task_failed_event_attributes
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]
    return [
        f"{cause}: {task.failure.message}"
        for task in failed
        if not (cause := WorkflowTaskFailedCause.Name(task.cause)).endswith(SERVERS_OWN)
        and TOO_SLOW not in task.failure.message
    ]
