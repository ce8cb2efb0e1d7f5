"""The plans of a recorded history: what each planner was given, what it decided, and how its calls ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fold import Fold
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.events.history import HistoryReader

__all__ = ["RecordedPlan", "RecordedTranscript", "recorded_plans"]


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """One completed `PlanActivity` of a history."""

    task: PlanTask
    outcome: PlanOutcome
    messages: list[Message]
    """The whole transcript that the planner was given."""
    results: Mapping[str, ToolResult]
    """The results of the whole run's calls, by `tool_call_id`."""


class RecordedTranscript:
    """Stands for a worker's cache of transcripts: it knows the transcript of one plan."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    async def read(self, key: tuple[str, str], task: PlanTask) -> list[Message]:
        """Return the recorded transcript."""
        del key, task
        return self._messages

    def keep(self, *_args: object, **_options: object) -> None:
        """Keep nothing: the next plan has its own recorded transcript."""

    def drop(self, key: tuple[str, str]) -> None:
        """Have nothing to drop."""


async def recorded_plans(history: WorkflowHistory, converter: DataConverter) -> list[RecordedPlan]:
    """Return the plans of a history in order, without those that failed or exceeded the time budget.

    Raises:
        ValueError: The history cannot be decoded.
    """
    reader, fold, transcript = HistoryReader(converter), Fold(history.workflow_id), TranscriptProjection()
    given: dict[int, tuple[PlanTask, list[Message]]] = {}
    plans, results = list[RecordedPlan](), dict[str, ToolResult]()
    for event in history.events:
        record = await reader.record(event)
        if unreadable := reader.unreadable or reader.opening_unreadable:
            raise ValueError(f"the history of {history.workflow_id} cannot be decoded: {unreadable}")
        if record is None:
            continue
        made = fold.feed(record)
        transcript.feed(record, made)
        results |= {each.tool_call_id: each.result for each in made if each.type == "tool_end"}
        if isinstance(record.value, PlanTask):
            given[record.id] = (record.value, transcript.given())
        elif isinstance(record.value, PlanOutcome) and not record.value.overtime:
            local = record.value.task
            task, messages = (local, transcript.given()) if local else given[record.of]
            plans.append(RecordedPlan(task, record.value, messages, results))
    return plans
