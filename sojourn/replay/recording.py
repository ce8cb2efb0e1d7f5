"""Read what a recorded run decided, and what it waits for at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from sojourn.contracts.awaits import Await
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.core.history.transcript import TranscriptProjection
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.events.history import HistoryReader

__all__ = ["RecordedCall", "RecordedPlan", "Recording", "read_recording"]

_ENDS = frozenset({"run_completed", "run_failed", "run_canceled", "run_terminated", "run_timed_out"})

_IN_STORAGE = "its execution was deleted, and the beginning of its transcript is in external storage"


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    task: PlanTask
    """The input, with the whole memory."""
    outcome: PlanOutcome
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call that was accepted, and how it was to be carried out."""

    call: ToolRequest
    dispatch: Dispatch
    agent_id: str
    result: ToolResult | None
    """None while it is pending."""
    is_pending: bool
    """Whether the recording ends while the call runs or waits."""


@dataclass(slots=True)
class Recording:
    """One run, from its histories."""

    run_id: str
    execution: str
    """The id of the last execution."""
    agent_id: str = ""
    is_open: bool = False
    """Whether the recording ends while the run is open."""
    plans: list[RecordedPlan] = field(default_factory=list[RecordedPlan])
    """The plans in order, without failed and interrupted ones."""
    why_no_plans: str = ""
    """Why plans cannot be made again, if the turns they got are not in the histories."""
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    waits: list[Await] = field(default_factory=list[Await])
    """The waits that are open at the end."""
    queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """The task queues of pending activities of tools, by call."""
    own_queue: str = ""


async def read_recording(histories: Sequence[WorkflowHistory], converter: DataConverter) -> Recording:
    """Read the histories of one run, oldest first.

    Raises:
        ValueError: A history cannot be decoded.
    """
    last = histories[-1]
    started = last.events[0].workflow_execution_started_event_attributes
    made = Recording(last.workflow_id, last.run_id, own_queue=started.task_queue.name)
    if started.workflow_type.name == AGENT_RUN:
        await _Reading(made, converter).read(histories)
    return made


class _Reading:
    def __init__(self, made: Recording, converter: DataConverter) -> None:
        self._made = made
        self._reader, self._fold = HistoryReader(converter), Fold(made.run_id)
        self._transcript = TranscriptProjection(self._fold)
        self._given: dict[int, tuple[PlanTask, list[Message]]] = {}
        self._accepted: list[tuple[str, PlanOutcome]] = []
        self._results: dict[str, ToolResult] = {}
        self._scheduled: dict[int, tuple[str, str]] = {}
        self._has_ended = False

    async def read(self, histories: Sequence[WorkflowHistory]) -> None:
        for event in chain.from_iterable(history.events for history in histories):
            record = await self._reader.record(event)
            if why := self._reader.unreadable or self._reader.opening_unreadable:
                raise ValueError(f"the history of {self._made.run_id} cannot be decoded: {why}")
            if record is not None:
                self._take(record)
        self._finish()

    def _take(self, record: HistoryRecord) -> None:
        if isinstance(record.value, Continuation):
            stored = Packed.unpacked(record.value.transcript).stored_count
            if stored > len(self._transcript.messages):
                self._made.why_no_plans = _IN_STORAGE
            self._transcript.stored = self._transcript.messages[:stored]
        memory = dict(self._fold.state.memory)
        events = self._fold.feed(record)
        if not self._made.why_no_plans:
            self._transcript.feed(record, events)
        self._results |= {each.tool_call_id: each.result for each in events if each.type == "tool_end"}
        self._has_ended = record.kind in _ENDS
        if isinstance(record.value, ToolTask):
            self._scheduled[record.id] = (record.key, record.queue)
        elif record.kind in ("completed", "failed"):
            self._scheduled.pop(record.of, None)
        if not self._fold.is_beside_step:
            self._take_plan(record, memory)

    def _take_plan(self, record: HistoryRecord, memory: dict[str, Any]) -> None:
        if isinstance(record.value, PlanTask):
            self._given[record.id] = (_knowing(record.value, memory), self._planner_input())
        elif isinstance(record.value, PlanOutcome) and record.value.is_made and not record.value.overtime:
            local = record.value.task
            task, messages = (
                (_knowing(local, memory), self._planner_input()) if local else self._given[record.of]
            )
            self._accepted.append((task.agent_id, record.value))
            if not self._made.why_no_plans:
                self._made.plans.append(RecordedPlan(task, record.value, messages))

    def _planner_input(self) -> list[Message]:
        return [] if self._made.why_no_plans else self._transcript.last_planner_input()

    def _finish(self) -> None:
        made, state = self._made, self._fold.state
        made.agent_id = state.opening.agent_id
        made.is_open = not self._has_ended
        made.waits = [*state.waits.open.values()] if made.is_open else []
        made.queues = dict(self._scheduled.values()) if made.is_open else {}
        made.calls = [
            RecordedCall(
                call=call,
                dispatch=dispatch,
                agent_id=agent_id,
                result=self._results.get(call.tool_call_id),
                is_pending=made.is_open and call.tool_call_id not in self._results,
            )
            for agent_id, outcome in self._accepted
            for call, dispatch in zip(outcome.calls, outcome.dispatches, strict=False)
        ]


def _knowing(task: PlanTask, memory: dict[str, Any]) -> PlanTask:
    """Return the input of a plan with the memory of its run, which it cannot query."""
    return task.model_copy(update={"memory": memory, "asks_memory": False})
