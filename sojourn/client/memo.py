"""What the memo of a listed run tells: when the run started, where it is in a later execution than its first, and what was asked."""

from datetime import datetime

from temporalio.client import WorkflowExecution

from sojourn.contracts.wire_names import MESSAGE, STARTED_AT

__all__ = ["message_of", "started_at_of"]


async def started_at_of(found: WorkflowExecution) -> datetime:
    """The start of the run, by the server's clock; of its last execution, where the memo cannot be read or is not Sojourn's."""
    try:
        told = await found.memo_value(STARTED_AT, None)
        started = datetime.fromisoformat(told) if isinstance(told, str) else found.start_time
        return min(found.start_time, started)
    except Exception:  # noqa: BLE001 - anybody may start a run with any memo, and a codec may raise anything
        return found.start_time


async def message_of(found: WorkflowExecution) -> str:
    """The beginning of the last user message with which the run was started; empty where the memo cannot be read or is not Sojourn's."""
    try:
        told = await found.memo_value(MESSAGE, "")
    except Exception:  # noqa: BLE001 - as above
        return ""
    return told if isinstance(told, str) else ""
