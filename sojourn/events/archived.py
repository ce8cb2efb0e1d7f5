"""Find the archive of a run, and the execution that follows the archived ones."""

from dataclasses import dataclass

from temporalio.client import Client
from temporalio.converter import StorageDriver

from sojourn.archive import Part, load_part
from sojourn.contracts.tasks import Archived
from sojourn.contracts.tool_error import ToolError
from sojourn.core.history.record import HistoryRecord
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Claim
from sojourn.errors import RunUnreadable
from sojourn.events.history import HistoryReader

__all__ = ["Beginning", "beginning_of", "unreadable_archive"]


@dataclass(frozen=True)
class Beginning:
    last: Part
    """The last part of the archive that is used."""
    execution: str
    """The first execution after the archived ones."""


async def beginning_of(
    client: Client, storage: StorageDriver | None, run_id: str, oldest: str
) -> Beginning | None:
    """Return the archived beginning of a run whose first executions are deleted.

    The remaining executions are read until one has the claim of the archive.
    """
    left: list[str] = []
    deleted, execution = 0, oldest
    while storage is not None and execution:
        left.append(execution)
        reader, continued = HistoryReader(client.data_converter), ""
        async for event in client.get_workflow_handle(run_id, run_id=execution).fetch_history_events():
            record = await reader.record(event)
            if record is None:
                continue
            begins = record.value
            if record.kind == "started":
                number = begins.state.executions if isinstance(begins, Continuation) else 0
                deleted = deleted if len(left) > 1 else number
                if not deleted or not isinstance(begins, Continuation) or not begins.state.archives:
                    return None
            claim, until = _claim_of(record)
            if claim and until >= deleted and until - deleted < len(left):
                return Beginning(await _read(client, storage, run_id, claim), left[until - deleted])
            continued = record.name if record.kind == "continued" else ""
        execution = continued
    return None


def _claim_of(record: HistoryRecord) -> tuple[Claim | None, int]:
    match record.value:
        case Archived(claim=claim, until=until):
            return claim, until
        case Continuation(state=state) if record.kind == "started":
            return state.archive, state.archived
        case _:
            return None, 0


async def _read(client: Client, storage: StorageDriver, run_id: str, claim: Claim) -> Part:
    try:
        return await load_part(client, storage, run_id, claim)
    except Exception as error:
        raise unreadable_archive(run_id, error) from error


def unreadable_archive(run_id: str, error: Exception) -> RunUnreadable:
    why = ToolError.from_error(error).message
    return RunUnreadable(f"the archived events of run {run_id} cannot be read: {why}", run_id=run_id)
