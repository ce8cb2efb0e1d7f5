"""Failed workflow tasks of a run, other than those that a server or a busy machine causes."""

from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

__all__ = ["failed_tasks"]

SERVER_CAUSES = ("_UNHANDLED_COMMAND", "_FORCE_CLOSE_COMMAND")
"""Causes of the server's own: a signal arrived while the task was being completed."""
TOO_SLOW = "[TMPRL1101]"
"""The SDK's code for a task over its deadlock time-out (2 s by default), which any task may exceed on a busy machine."""


def failed_tasks(events: Iterable[HistoryEvent]) -> list[str]:
    """Cause and message of each failed workflow task, except those with a cause of the server's and those too slow."""
    failed = [
        event.workflow_task_failed_event_attributes
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]
    return [
        f"{cause}: {task.failure.message}"
        for task in failed
        if not (cause := WorkflowTaskFailedCause.Name(task.cause)).endswith(SERVER_CAUSES)
        and TOO_SLOW not in task.failure.message
    ]
