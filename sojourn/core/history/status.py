"""How a run stands, from its events: for closed runs, and when no worker is alive to be asked."""

from dataclasses import dataclass, field

from sojourn.contracts.awaits import Await
from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    Event,
    LimitReachedEvent,
    PlannerNoteEvent,
    PlanStartedEvent,
    RetriesStoppedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    ToolEndEvent,
    ToolStartEvent,
)
from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import CallStatus, RunStatus
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.safeguards.judge import SafeguardState

__all__ = ["MAX_CALLS_SHOWN", "MAX_NOTES", "StatusProjection", "status_of"]

MAX_CALLS_SHOWN = 100
"""Calls kept in a status."""

MAX_NOTES = 20
"""Notes kept in a status."""


def status_of(result: ToolResult) -> CallStatus:
    """A call's place in the tree once it has ended."""
    state = (
        "done"
        if result.ok
        else result.error.code
        if result.error and result.error.code in ("denied", "not_executed")
        else "failed"
    )
    return CallStatus(
        tool_call_id=result.tool_call_id,
        name=result.name,
        state=state,
        error=str(result.error)[:200] if result.error else None,
        run_link=result.run_link,
    )


@dataclass(slots=True)
class StatusProjection:
    """Feed it a run's events in order."""

    run_id: str
    _last: Event | None = None
    _phase: str = ""
    _waits: dict[str, Await] = field(default_factory=dict[str, Await])
    _paused: str | None = None
    _calls: dict[str, CallStatus] = field(default_factory=dict[str, CallStatus])
    _executed: int = 0
    _rounds: int = 0
    _limit: Finalize | None = None
    _notes: list[str] = field(default_factory=list[str])
    _failure: str | None = None
    _guards: SafeguardState = field(default_factory=SafeguardState)
    _stopped: bool = False
    _step: list[ToolRequest] = field(default_factory=list[ToolRequest])
    _results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])

    def feed(self, event: Event) -> None:
        """Take the next event into account."""
        if self._last and self._last.turn_id != event.turn_id:
            self._guards, self._rounds = self._guards.new_turn(), 0
            self._limit = self._limit if self._limit and self._limit.reason != "max_tool_rounds" else None
        self._last = event
        self._guard(event)
        match event:
            case PlanStartedEvent():
                self._phase = "finalizing" if self._limit else "planning"
            case LimitReachedEvent(limit=limit) | RetriesStoppedEvent(limit=limit):
                self._limit = limit
            case ToolStartEvent(call=call):
                self._phase = "executing_tools"
                self._calls[call.tool_call_id] = CallStatus(
                    tool_call_id=call.tool_call_id, name=call.name, state="running"
                )
            case ToolEndEvent(result=result):
                call_status = status_of(result)
                self._calls[call_status.tool_call_id] = call_status
            case PlannerNoteEvent(text=text):
                self._notes = [*self._notes, text][-MAX_NOTES:]
            case _:
                self._wait(event)

    def _wait(self, event: Event) -> None:
        """What is waited for, until the end."""
        match event:
            case AwaitClarificationEvent(question=wait):
                asking = self._calls.get(wait.tool_call_id or "")
                if asking:  # a tool that needs input to go on; else it is the planner
                    self._calls[asking.tool_call_id] = asking.model_copy(update={"state": "waiting"})
                else:
                    self._phase = "waiting"
                self._waits[wait.id] = wait
            case AwaitConfirmationEvent(confirmation=wait):
                self._calls[wait.tool_call_id] = CallStatus(
                    tool_call_id=wait.tool_call_id, name=wait.tool, state="waiting"
                )
                self._waits[wait.id] = wait
            case AwaitExternalToolsEvent(external=wait):
                self._waits[wait.id] = wait
            case AwaitAnsweredEvent(await_id=await_id):
                self._waits.pop(await_id, None)
            case RunPausedEvent(text=text):
                self._paused = text or ""
            case RunResumedEvent():
                self._paused = None
            case (
                RunCompletedEvent()
                | RunFailedEvent()
                | RunCanceledEvent()
                | RunTerminatedEvent()
                | RunTimedOutEvent()
            ):
                self._phase, self._waits, self._paused = "", {}, None
                self._failure = None if event.type == "run_completed" else event.text
            case _:
                pass

    def _guard(self, event: Event) -> None:
        """Judge a step when it is settled, in call order, as the run did."""
        if event.type == "assistant_message":
            self._step = [part.request for part in event.message.tool_calls]
            self._results = {}
            self._phase = "executing_tools" if self._step else self._phase
        elif event.type == "tool_end":
            self._results[event.result.tool_call_id] = event.result
            if len(self._results) == len(
                self._step
            ):  # ids are unique in a step, and it may have thousands of calls
                self._rounds += 1
                self._executed += sum(
                    status_of(result).state != "not_executed" for result in self._results.values()
                )
        elif event.type == "retries_stopped":
            self._stopped = True
        elif event.type == "plan_started" and self._step:
            done = [
                (call, self._results[call.tool_call_id])
                for call in self._step
                if call.tool_call_id in self._results
            ]
            if done:  # the calls of a message that asks are no step
                self._guards = self._judged(
                    self._guards.settle(
                        [call for call, _ in done], [result for _, result in done], event.time
                    )
                )
            self._step = []

    def _judged(self, guards: SafeguardState) -> SafeguardState:
        """By the rules that the run was judged by, which shows where they part."""
        is_other = guards.is_judged_otherwise and guards.stops != self._stopped
        return guards.by_first_rules() if is_other else guards

    def status(self) -> RunStatus:
        """The status as far as the events tell."""
        last = self._last
        return RunStatus(
            run_id=self.run_id,
            agent_id=last.agent_id if last else "",
            session_id=last.session_id if last else "",
            turn_id=last.turn_id if last else "",
            status="paused" if self._paused is not None else "waiting" if self._waits else "running",
            phase=self._phase,
            awaits=list(self._waits.values()),
            paused=self._paused,
            calls=list(self._calls.values())[-MAX_CALLS_SHOWN:],
            tool_calls=self._executed,
            rounds=self._rounds,
            notes=self._notes,
            safeguards=self._guards.shown(),
            failure=self._failure,
        )
