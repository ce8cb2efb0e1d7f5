"""The plans of a recorded history, with their input and how the calls ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fold import Fold
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.events.history import HistoryReader

__all__ = ["RecordedPlan", "RecordedTranscript", "recorded_plans"]


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    task: PlanTask
    """The input, with the whole memory."""
    outcome: PlanOutcome
    messages: list[Message]
    results: Mapping[str, ToolResult]
    """The results of the whole run's calls, by `tool_call_id`."""


class RecordedTranscript:
    """Stands for a worker's cache of transcripts: it knows the transcript of one plan."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    async def read(self, key: tuple[str, str], task: PlanTask) -> list[Message]:
        del key, task
        return self._messages

    def keep(self, *_args: object, **_options: object) -> None: ...

    def drop(self, key: tuple[str, str]) -> None: ...


async def recorded_plans(
    histories: Sequence[WorkflowHistory], converter: DataConverter
) -> list[RecordedPlan]:
    """Return a run's plans in order, without failed and interrupted ones.

    Raises:
        ValueError: A history cannot be decoded, or its transcript is not in the histories.
    """
    run_id = histories[0].workflow_id
    reader, fold = HistoryReader(converter), Fold(run_id)
    transcript = TranscriptProjection(fold)
    given: dict[int, tuple[PlanTask, list[Message]]] = {}
    plans, results = list[RecordedPlan](), dict[str, ToolResult]()
    for event in chain.from_iterable(history.events for history in histories):
        record = await reader.record(event)
        if unreadable := reader.unreadable or reader.opening_unreadable:
            raise ValueError(f"the history of {run_id} cannot be decoded: {unreadable}")
        if record is None:
            continue
        if isinstance(record.value, Continuation):
            stored = Packed.unpacked(record.value.transcript).stored_count
            if stored > len(transcript.messages):
                raise ValueError(
                    f"the beginning of the transcript of {run_id} is in external storage, and the execution that has it was "
                    "deleted; replay its workflow alone, with plans=False"
                )
            transcript.stored = transcript.messages[:stored]
        memory = dict(fold.state.memory)
        made = fold.feed(record)
        transcript.feed(record, made)
        results |= {each.tool_call_id: each.result for each in made if each.type == "tool_end"}
        if isinstance(record.value, PlanTask):
            given[record.id] = (_knowing(record.value, memory), transcript.given())
        elif isinstance(record.value, PlanOutcome) and not record.value.overtime:
            local = record.value.task
            task, messages = (_knowing(local, memory), transcript.given()) if local else given[record.of]
            plans.append(RecordedPlan(task, record.value, messages, results))
    return plans


def _knowing(task: PlanTask, memory: dict[str, Any]) -> PlanTask:
    """Return the input of a plan with the memory of its run, which it cannot query."""
    return task.model_copy(update={"memory": memory, "asks_memory": False})
