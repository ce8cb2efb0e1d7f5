"""Last words: what was said last in a conversation, and when something happened last; from the last few events of its history."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.console.views.text import one_line
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.wire_names import SEND
from sojourn.core.history.record import HistoryRecord
from sojourn.events.history import HistoryReader

__all__ = ["LastWords", "Words"]

EVENTS = 24
"""Events of a history that are looked at, the last ones: a turn without calls is about so many."""

MAX_KNOWN = 5_000
"""Most conversations that are remembered."""


@dataclass(frozen=True, slots=True)
class Words:
    """What was said last."""

    at: datetime | None = None
    """When something happened last."""
    text: str = ""
    is_agent: bool = False
    """Whether the agent said it."""


class LastWords:
    """The last words of conversations; decoded once for each event that is the last one."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[tuple[int, datetime], Words]] = OrderedDict()

    async def of(self, client: Access, run_id: str) -> Words:
        """The last words of a conversation; none where its history is gone."""
        temporal = client.temporal
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=temporal.namespace,
            execution=WorkflowExecution(workflow_id=run_id),
            maximum_page_size=EVENTS,
        )
        try:
            answer = await temporal.workflow_service.get_workflow_execution_history_reverse(request)
        except RPCError:
            return Words()
        events = list(answer.history.events)[::-1]
        if not events:
            return Words()
        at = events[-1].event_time.ToDatetime(UTC)
        version = (events[-1].event_id, at)
        known = self._known.pop(run_id, None)
        if known is None or known[0] != version:
            known = version, await _words_in(client, events, at)
        self._known[run_id] = known
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return known[1]


async def _words_in(client: Access, events: Sequence[HistoryEvent], at: datetime) -> Words:
    reader = HistoryReader(client.temporal.data_converter)
    found = Words(at)
    for event in events:
        record = await reader.record(event)
        said = _said(record) if record else None
        if said and said[0]:
            found = Words(at, one_line(said[0]), is_agent=said[1])
    return found


def _said(record: HistoryRecord) -> tuple[str, bool] | None:
    """What a record says, and whether the agent says it."""
    value = record.value
    if isinstance(value, PlanOutcome):
        final = value.final or value.message
        return (value.await_.question if value.await_ else final.text if final else "", True)
    if record.kind == "sent" and record.name == SEND and isinstance(value, list) and value:
        sent = cast("list[Any]", value)[0]
        text = cast("dict[str, Any]", sent).get("text") if isinstance(sent, dict) else None
        return (text, False) if isinstance(text, str) else None
    return None
