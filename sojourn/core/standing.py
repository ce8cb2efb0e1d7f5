"""How a run stands, from its events: for closed runs, and when no worker is alive to be asked."""

from dataclasses import dataclass, field

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.event import Event
from sojourn.contracts.run import CallStatus, RunStatus
from sojourn.contracts.tool_result import ToolResult

__all__ = ["MAX_CALLS_SHOWN", "MAX_NOTES", "Standing", "status_of"]

MAX_CALLS_SHOWN = 100
"""Calls kept in a status."""

MAX_NOTES = 20
"""Notes kept in a status."""


def status_of(result: ToolResult) -> CallStatus:
    """A call's place in the tree once it has ended."""
    state = (
        "done"
        if result.ok
        else "not_executed"
        if result.error and result.error.code == "not_executed"
        else "failed"
    )
    return CallStatus(
        tool_call_id=result.tool_call_id,
        name=result.name,
        state=state,
        error=result.error.message[:200] if result.error else None,
        run_link=result.run_link,
    )


@dataclass(slots=True)
class Standing:
    """Feed it a run's events in order."""

    run_id: str
    _last: Event | None = None
    _phase: str = ""
    _question: AwaitClarification | None = None
    _calls: dict[str, CallStatus] = field(default_factory=dict[str, CallStatus])
    _executed: int = 0
    _notes: list[str] = field(default_factory=list[str])
    _failure: str | None = None

    def feed(self, event: Event) -> None:
        """Take the next event into account."""
        self._last = event
        if event.type == "plan_started":
            self._phase = "planning"
        elif event.type == "tool_start" and event.call:
            self._phase = "executing_tools"
            call = event.call
            self._calls[call.tool_call_id] = CallStatus(
                tool_call_id=call.tool_call_id, name=call.name, state="running"
            )
        elif event.type == "tool_end" and event.result:
            call_status = status_of(event.result)
            self._calls[call_status.tool_call_id] = call_status
            self._executed += call_status.state != "not_executed"
        elif event.type == "await_clarification":
            self._phase, self._question = "waiting", event.question
        elif event.type == "await_answered":
            self._question = None
        elif event.type == "planner_note" and event.text:
            self._notes = [*self._notes, event.text][-MAX_NOTES:]
        elif event.type.startswith("run_") and event.type != "run_started":
            self._phase, self._question = "", None
            self._failure = event.text or self._failure

    def status(self) -> RunStatus:
        """The status as far as the events tell."""
        last = self._last
        return RunStatus(
            run_id=self.run_id,
            agent_id=last.agent_id if last else "",
            session_id=last.session_id if last else "",
            turn_id=last.turn_id if last else "",
            status="waiting" if self._question else "running",
            phase=self._phase,
            awaits=[self._question] if self._question else [],
            calls=list(self._calls.values())[-MAX_CALLS_SHOWN:],
            tool_calls=self._executed,
            notes=self._notes,
            failure=self._failure,
        )
