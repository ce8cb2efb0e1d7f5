"""Ends: how runs ended, each read once from the last event of its history, and remembered."""

from collections import OrderedDict
from datetime import datetime

from temporalio.client import WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.console.views.run_rows import Ended
from sojourn.contracts.run import RunOutput
from sojourn.events.history import HistoryReader

__all__ = ["Ends"]

MAX_KNOWN = 5_000
"""Most ends that are remembered; those that were looked at longest ago are forgotten."""


class Ends:
    """How runs ended."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, datetime | None], Ended] = OrderedDict()

    async def of(self, client: Access, run_id: str, closed_at: datetime | None) -> Ended:
        """How a run ended.

        Args:
            client: The client.
            run_id: The run.
            closed_at: When: a run that is reset ends again.
        """
        key = run_id, closed_at
        found = self._known.pop(key, None) or await _read(client, run_id)
        self._known[key] = found
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return found


async def _read(client: Access, run_id: str) -> Ended:
    reader = HistoryReader(client.temporal.data_converter)
    handle = client.temporal.get_workflow_handle(run_id)
    try:
        async for event in handle.fetch_history_events(
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        ):
            record = await reader.record(event)
            if record is not None:
                output = record.value if isinstance(record.value, RunOutput) else None
                return Ended(output, record.error)
    except RPCError:
        pass  # deleted meanwhile
    return Ended()
