"""Event: one thing that happened in a run, folded from its history."""

from datetime import datetime, timedelta

from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, Usage
from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.record import Record
from sojourn.contracts.run import RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = ["Event"]


class Event(Record):
    """One event; which of the payload fields are set follows from `type`."""

    type: str
    """`run_started` `plan_started` `planner_note` `assistant_message` `usage` `tool_start` `agent_run_started`
    `tool_end` `await_clarification` `await_confirmation` `await_external_tools` `await_answered` `run_paused`
    `run_resumed` `policy_decision` `limit_reached` `retries_stopped` `run_completed` `run_failed` `run_canceled`
    `run_terminated` `run_timed_out` `run_stream_end`; open."""
    run_id: str
    """The run it happened in."""
    session_id: str = ""
    """The run's session."""
    turn_id: str = ""
    """The user turn it happened in."""
    event_id: str
    """Monotone in a run, and where a stream resumes: chain index, history event, k."""
    time: datetime
    """When it happened, by the server's clock."""
    agent_id: str = ""
    """The run's agent."""
    call: ToolRequest | None = None
    """`tool_start`: the call."""
    result: ToolResult | None = None
    """`tool_end`: its answer, with the structured error, hint, bounds and telemetry."""
    duration: timedelta | None = None
    """`tool_end`: from schedule to end, by the server's clock."""
    run_link: RunLink | None = None
    """`agent_run_started`: the child run."""
    question: AwaitClarification | None = None
    """`await_clarification`: what the run asks."""
    confirmation: AwaitConfirmation | None = None
    """`await_confirmation`: the call that a person is asked about."""
    external: AwaitExternalTools | None = None
    """`await_external_tools`: the calls that somebody outside executes."""
    await_id: str | None = None
    """`await_answered`: which wait."""
    approved: bool | None = None
    """`await_answered` of a confirmation: what was decided; None when nobody did in time."""
    text: str | None = None
    """`planner_note`, `await_answered`, `run_paused`, `run_failed` and the like: what was said."""
    by: str | None = None
    """`await_answered`, `run_paused`, `run_resumed`: who, as they say."""
    identity: str | None = None
    """The same, as Temporal knows them."""
    decision: PolicyDecision | None = None
    """`policy_decision`: what the policy engine changed."""
    message: Message | None = None
    """`run_started`, `assistant_message`: the message."""
    usage: Usage | None = None
    """`usage`: what a plan used."""
    limit: Finalize | None = None
    """`limit_reached`, `retries_stopped`: which, and what it means."""
    output: RunOutput | None = None
    """`run_completed`: how the run ended."""
    code: str | None = None
    """`run_failed`: the failure's type; `await_answered`: `expired` when nobody answered in time."""
