"""Why workflow tasks of a run failed; Sojourn's code must be the cause of none."""

from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

__all__ = ["failed_tasks"]

SERVERS_OWN = ("_UNHANDLED_COMMAND", "_FORCE_CLOSE_COMMAND")
"""Ends of the server's own causes: a signal arrived while a task was being completed."""
TOO_SLOW = "[TMPRL1101]"
"""Temporal's code for a workflow task that took too long, as any task may on a busy machine."""


def failed_tasks(events: Iterable[HistoryEvent]) -> list[str]:
    """Cause and message of each failed workflow task, except failures by the server itself or a busy machine."""
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
