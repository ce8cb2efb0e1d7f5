"""Rebuild a run's transcript from its history."""

from dataclasses import dataclass, field

from sojourn.contracts.event import Event, ToolEndEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.interim import with_interim
from sojourn.core.run.outcomes import by_reference
from sojourn.core.run.transcript import Packed, for_planner, question_message

__all__ = ["TranscriptProjection"]


@dataclass(slots=True)
class TranscriptProjection:
    """The transcript of a run, rebuilt from its history records and their events.

    A plan's input holds the messages that were new to the planner. Those that were too large to be recorded
    twice come from the fold's run state.
    """

    fold: Fold
    messages: list[Message] = field(default_factory=list[Message])
    stored: list[Message] = field(default_factory=list[Message])
    """The messages that the execution has in external storage, which its reader loads."""
    _given: int = 0
    _calls: list[ToolRequest] = field(default_factory=list[ToolRequest])
    _results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])

    def feed(self, record: HistoryRecord, events: list[Event]) -> None:
        """Take in the next record, after the fold."""
        for event in events:
            if isinstance(event, ToolEndEvent):
                self._results[event.tool_call_id] = event.result
        if self.fold.is_beside_step:
            return
        match record.value:
            case Continuation() as continuation if record.kind == "started":
                self._go_on(continuation)
            case PlanTask() as task:
                self._plan(task)
            case PlanOutcome() as plan:
                if plan.task:
                    self._plan(plan.task)
                self._apply_plan(plan)
            case RunOutput() as output if record.kind in ("run_completed", "turn_ended"):
                self._end(output)
            case _:
                pass

    def last_planner_input(self) -> list[Message]:
        """Return the transcript that the last planner was given."""
        return self.messages[: self._given]

    def messages_so_far(self) -> list[Message]:
        """Return the transcript so far, with everything that no planner has received yet."""
        state = self.fold.state
        said = with_interim(state.new or self._answers(), state.interim)
        return [*self.messages, *said, *state.resume_messages]

    def _go_on(self, continuation: Continuation) -> None:
        plan, step = continuation.waits_for, continuation.step
        self.messages = [*self.stored, *Packed.unpacked(continuation.transcript).messages()]
        self._calls, told, self._results = [], self._results, {}
        if plan and plan.calls and step:  # a run that continues as new while the calls of a step wait
            self._calls = plan.calls
            self._results = {id: call.result for id, call in step.calls.items() if call.result}
        elif (
            plan and plan.calls
        ):  # a fork by an earlier version, which begins with a step: its start tells results
            self._results = told
            self._apply_plan(plan)

    def _plan(self, task: PlanTask) -> None:
        # The answer of a discarded plan is left out. The messages of a plan that was cut off before it was recorded are included.
        known = [*self.messages[: task.after], *self.fold.moved_messages]
        if task.new or task.until is None:
            self.messages = [*known[: task.after], *task.new]
        else:
            self.messages = known[: task.until]
        self._calls, self._results = [], {}
        self._given = len(self.messages)

    def _end(self, output: RunOutput) -> None:
        # The reason for closing a conversation is left out.
        self.messages = [*self.messages, *self.fold.moved_messages]
        self._calls, self._results = [], {}
        if output.reason != "closed" and self.messages[-1:] != [output.final]:
            self.messages.append(output.final)

    def _apply_plan(self, plan: PlanOutcome) -> None:
        self._calls = plan.calls
        if plan.calls:
            self.messages.append(plan.message or Message.calls(plan.calls))
        elif plan.final:
            self.messages.append(plan.final)
        elif plan.await_:
            self.messages.append(question_message(plan))

    def _answers(self) -> list[Message]:
        known = [
            self._results[call.tool_call_id] for call in self._calls if call.tool_call_id in self._results
        ]
        return [Message.results([for_planner(by_reference(result)) for result in known])] if known else []
