"""When a listed run started: by its memo, where it is in a later execution than its first."""

from datetime import datetime

from temporalio.client import WorkflowExecution

from sojourn.core.run.introduction import STARTED_AT

__all__ = ["started_at_of"]


async def started_at_of(found: WorkflowExecution) -> datetime:
    """The start of the run, by the server's clock; of its last execution, where the memo cannot be read or is not Sojourn's."""
    try:
        told = await found.memo_value(STARTED_AT, None)
        started = datetime.fromisoformat(told) if isinstance(told, str) else found.start_time
        return min(found.start_time, started)
    except Exception:  # noqa: BLE001 - anybody may start a run with any memo, and a codec may raise anything
        return found.start_time
