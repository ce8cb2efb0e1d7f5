"""A run's transcript, rebuilt from its history: with no worker alive, and long after the run's end."""

from dataclasses import dataclass, field

from sojourn.contracts.event import Event, ToolEndEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput, RunOutput
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.history.record import HistoryRecord
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.outcomes import by_reference
from sojourn.core.run.transcript import Packed, for_planner, question_message

__all__ = ["TranscriptProjection"]


@dataclass(slots=True)
class TranscriptProjection:
    """Takes a run's history records in order, each with its events.

    Each plan's input holds the messages that were new to the planner, unchanged. Where those were too large
    to be recorded twice, they are rebuilt from the results in the history.
    """

    messages: list[Message] = field(default_factory=list[Message])
    stored: list[Message] = field(default_factory=list[Message])
    """The messages that the execution has in external storage, which its reader loads."""
    _given: int = 0
    _calls: list[ToolRequest] = field(default_factory=list[ToolRequest])
    _results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    _notices: list[Message] = field(default_factory=list[Message])
    """Messages that no planner has received yet."""
    _carried: list[Message] = field(default_factory=list[Message])
    """The same, of a run that goes on in another execution."""

    def feed(self, record: HistoryRecord, events: list[Event]) -> None:
        """Take in the next record."""
        for event in events:
            if isinstance(event, ToolEndEvent):
                self._results[event.tool_call_id] = event.result
        match record.value:
            case RunInput(messages=opening) if record.kind == "started":
                self.messages = [*opening]
            case Continuation() as continuation if record.kind == "started":
                self._go_on(continuation)
            case PlanTask() as task:
                self._plan(task)
            case PlanOutcome() as plan:
                if plan.task:
                    self._plan(plan.task)
                self._planned(plan)
            case RunOutput(reason="closed"):
                pass  # it says why a conversation was closed, which is no answer
            case RunOutput(final=final) if record.kind in ("run_completed", "turn_ended") and self.messages[
                -1:
            ] != [final]:
                self.messages = [*self.messages_so_far(), final]
                self._calls, self._notices = [], []
            case _:
                pass

    def given(self) -> list[Message]:
        """The transcript that the last planner was given."""
        return self.messages[: self._given]

    def messages_so_far(self) -> list[Message]:
        """The transcript so far, with results of a step, or a refusal, that no planner has received yet."""
        return [*self.messages, *self._carried, *self._answers(), *self._notices]

    def _go_on(self, continuation: Continuation) -> None:
        state, plan, step = continuation.state, continuation.waits_for, continuation.step
        self.messages = [*self.stored, *Packed.unpacked(continuation.transcript).messages()]
        self._carried = [*state.new, *state.resume_messages]
        self._calls, self._results, self._notices = [], {}, []
        if plan and plan.calls and step:  # a run that goes on while the calls of a step wait
            self._calls = plan.calls
            self._results = {id: call.result for id, call in step.calls.items() if call.result}
        elif plan and plan.calls:  # a fork that begins with a step
            self._planned(plan)

    def _plan(self, task: PlanTask) -> None:
        notices = [Message.system(task.finalize.notice)] if task.finalize else []
        unread = self._carried or [*self._answers(), *notices]
        if task.after > len(self.messages):  # for a plan that was cut off before it was recorded
            self.messages, unread = [*self.messages, *unread], []
        before = self.messages[: task.after]
        if task.new or task.until is None:
            self.messages = [*before, *task.new]
        elif task.plan > 1:
            self.messages = [*before, *unread][: task.until]
        self._carried = []
        self._calls, self._results, self._notices = [], {}, []
        self._given = len(self.messages)

    def _planned(self, plan: PlanOutcome) -> None:
        self._calls = plan.calls
        if plan.fault:
            self._notices = [Message.system(f"The last plan was refused: {plan.fault}.")]
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
