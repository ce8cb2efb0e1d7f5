"""Event: one thing that happened in a run, folded from its history; a class for each kind.

The union `Event`, below the classes, is the one list of them: a new kind is a class and a line there.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.bounds import Bounds
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, Usage
from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.record import Record
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run import RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult


class BaseEvent(Record):
    """What every event says, beside its `type`."""

    run_id: str
    """The run it happened in."""
    session_id: str = ""
    """The run's session."""
    turn_id: str = ""
    """The user turn it happened in."""
    event_id: str = ""
    """Monotone in a run, and where a stream resumes: chain index, history event, k; empty for what is only told live."""
    time: datetime
    """When it happened, by the server's clock."""
    agent_id: str = ""
    """The run's agent."""
    parent_tool_call_id: str | None = None
    """In a child run: the parent's call that it answers (SR-67)."""

    @model_serializer(mode="wrap")
    def _with_type(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The type comes first, and is never left out as a default."""
        return {"type": type(self).model_fields["type"].default, **write(self)}


class RunStartedEvent(BaseEvent):
    """A run began."""

    type: Literal["run_started"] = "run_started"
    """The discriminator of `Event`."""
    message: Message | None = None
    """The last user message that it began with."""


class PlanStartedEvent(BaseEvent):
    """The planner's turn."""

    type: Literal["plan_started"] = "plan_started"
    """The discriminator of `Event`."""


class PlannerNoteEvent(BaseEvent):
    """A remark: of the planner, or about what somebody sent that was refused."""

    type: Literal["planner_note"] = "planner_note"
    """The discriminator of `Event`."""
    text: str
    """What was said."""
    identity: str | None = None
    """Who brought it about, as Temporal knows them."""


class AssistantMessageEvent(BaseEvent):
    """What the planner said: its answer, or a message with calls."""

    type: Literal["assistant_message"] = "assistant_message"
    """The discriminator of `Event`."""
    message: Message
    """The message."""


class UsageEvent(BaseEvent):
    """What a plan used."""

    type: Literal["usage"] = "usage"
    """The discriminator of `Event`."""
    usage: Usage
    """Tokens, model and cost."""


class PolicyDecisionEvent(BaseEvent):
    """The policy engine changed something."""

    type: Literal["policy_decision"] = "policy_decision"
    """The discriminator of `Event`."""
    decision: PolicyDecision
    """What."""


class ToolStartEvent(BaseEvent):
    """A call began: with a worker, as a child run, or outside."""

    type: Literal["tool_start"] = "tool_start"
    """The discriminator of `Event`."""
    call: ToolRequest
    """The call, as the planner made it."""

    @property
    def tool_call_id(self) -> str:
        """Which call (SR-66)."""
        return self.call.tool_call_id

    @property
    def tool_name(self) -> str:
        """Its tool."""
        return self.call.name


class AgentRunStartedEvent(BaseEvent):
    """The child run of a call of an agent tool started (SR-54)."""

    type: Literal["agent_run_started"] = "agent_run_started"
    """The discriminator of `Event`."""
    call: ToolRequest
    """The call that it answers."""
    run_link: RunLink
    """The child run."""

    @property
    def tool_call_id(self) -> str:
        """Which call (SR-66)."""
        return self.call.tool_call_id


class _Answer(BaseEvent):
    result: ToolResult
    """The answer of the call, with the structured error, hint, bounds, artifacts and telemetry."""

    @property
    def tool_call_id(self) -> str:
        """Which call (SR-66)."""
        return self.result.tool_call_id

    @property
    def tool_name(self) -> str:
        """Its tool."""
        return self.result.name

    @property
    def error(self) -> ToolError | None:
        """Why it failed; None when it did not (SR-133)."""
        return self.result.error

    @property
    def retry_hint(self) -> RetryHint | None:
        """How to repair the call."""
        return self.result.retry_hint

    @property
    def bounds(self) -> Bounds | None:
        """What a bounded result holds of how much (SR-38); `total` may be None."""
        return self.result.bounds

    @property
    def artifacts(self) -> list[Artifact]:
        """What the result comes with, with data (SR-110)."""
        return self.result.artifacts


class ToolResultReceivedEvent(_Answer):
    """The run has the answer of a call, as its planner gets it (SR-133)."""

    type: Literal["tool_result_received"] = "tool_result_received"
    """The discriminator of `Event`."""


class ToolEndEvent(_Answer):
    """A call ended; each that started does, once."""

    type: Literal["tool_end"] = "tool_end"
    """The discriminator of `Event`."""
    duration: timedelta
    """From start to end, by the server's clock."""


class AwaitClarificationEvent(BaseEvent):
    """The run asks a person."""

    type: Literal["await_clarification"] = "await_clarification"
    """The discriminator of `Event`."""
    question: AwaitClarification
    """What it asks."""


class AwaitConfirmationEvent(BaseEvent):
    """A person has to decide on a call."""

    type: Literal["await_confirmation"] = "await_confirmation"
    """The discriminator of `Event`."""
    confirmation: AwaitConfirmation
    """The call."""


class AwaitExternalToolsEvent(BaseEvent):
    """The run waits for results from outside."""

    type: Literal["await_external_tools"] = "await_external_tools"
    """The discriminator of `Event`."""
    external: AwaitExternalTools
    """The calls that somebody outside executes."""


class AwaitAnsweredEvent(BaseEvent):
    """A wait ended."""

    type: Literal["await_answered"] = "await_answered"
    """The discriminator of `Event`."""
    await_id: str
    """Which."""
    approved: bool | None = None
    """Of a confirmation: what was decided; None when nobody did in time."""
    text: str | None = None
    """What was said."""
    by: str | None = None
    """Who, as they say."""
    identity: str | None = None
    """Who, as Temporal knows them."""
    code: str | None = None
    """`declined`, or `expired` when nobody answered in time."""


class _Steered(BaseEvent):
    text: str | None = None
    """Why."""
    by: str | None = None
    """Who, as they say."""
    identity: str | None = None
    """Who, as Temporal knows them."""


class RunPausedEvent(_Steered):
    """Nothing new starts from here on."""

    type: Literal["run_paused"] = "run_paused"
    """The discriminator of `Event`."""


class RunResumedEvent(_Steered):
    """The run goes on after a pause."""

    type: Literal["run_resumed"] = "run_resumed"
    """The discriminator of `Event`."""
    messages: list[str] = []
    """What was said to the planner with it, as a new user turn."""


class _Limit(BaseEvent):
    limit: Finalize
    """Which limit, and what it means."""


class LimitReachedEvent(_Limit):
    """A limit of the run's policy is reached; the planner gets its last turn."""

    type: Literal["limit_reached"] = "limit_reached"
    """The discriminator of `Event`."""


class RetriesStoppedEvent(_Limit):
    """A safeguard stopped what repeats itself in vain; the message is for the person."""

    type: Literal["retries_stopped"] = "retries_stopped"
    """The discriminator of `Event`."""


class RunCompletedEvent(BaseEvent):
    """The run ended with an answer."""

    type: Literal["run_completed"] = "run_completed"
    """The discriminator of `Event`."""
    output: RunOutput | None = None
    """How it ended; None where it cannot be read."""


class _Ended(BaseEvent):
    text: str | None = None
    """What was said of it, with its causes."""
    code: str | None = None
    """The failure's type."""


class RunFailedEvent(_Ended):
    """The run failed."""

    type: Literal["run_failed"] = "run_failed"
    """The discriminator of `Event`."""
    error: ToolError | None = None
    """The chain of what led to it, outermost first; `text` tells it in one line."""


class RunCanceledEvent(_Ended):
    """The run was canceled."""

    type: Literal["run_canceled"] = "run_canceled"
    """The discriminator of `Event`."""


class RunTerminatedEvent(_Ended):
    """The run was terminated."""

    type: Literal["run_terminated"] = "run_terminated"
    """The discriminator of `Event`."""


class RunTimedOutEvent(_Ended):
    """The run exceeded its execution time-out."""

    type: Literal["run_timed_out"] = "run_timed_out"
    """The discriminator of `Event`."""


class RunStreamEndEvent(BaseEvent):
    """The last event of a run."""

    type: Literal["run_stream_end"] = "run_stream_end"
    """The discriminator of `Event`."""


class ToolRetryEvent(BaseEvent):
    """A call is tried again; told only live, with no `event_id`."""

    type: Literal["tool_retry"] = "tool_retry"
    """The discriminator of `Event`."""
    tool_call_id: str
    """Which call; empty when it is the planner's turn."""
    tool_name: str = ""
    """Its tool."""
    attempt: int
    """The attempt that comes, from 2 on."""
    due: datetime | None = None
    """When it starts; None when it has."""
    error: str = ""
    """What the last attempt failed with."""


class ToolUpdateEvent(BaseEvent):
    """What a call says of its progress; told only live, with no `event_id`."""

    type: Literal["tool_update"] = "tool_update"
    """The discriminator of `Event`."""
    tool_call_id: str
    """Which call; empty when it is the planner's turn."""
    tool_name: str = ""
    """Its tool."""
    note: str = ""
    """What is done, for a person."""
    done: float | None = None
    """How much is done."""
    total: float | None = None
    """How much there is."""


class TextDeltaEvent(BaseEvent):
    """The next piece of the message that the planner is writing; told only live, with no `event_id`."""

    type: Literal["text_delta"] = "text_delta"
    """The discriminator of `Event`."""
    text: str
    """The piece."""


class ThinkingDeltaEvent(BaseEvent):
    """The next piece of what the model thinks; told only live, with no `event_id`."""

    type: Literal["thinking_delta"] = "thinking_delta"
    """The discriminator of `Event`."""
    text: str
    """The piece."""


class ToolCallDeltaEvent(BaseEvent):
    """The next piece of a call that the planner is writing; told only live, with no `event_id`."""

    type: Literal["tool_call_delta"] = "tool_call_delta"
    """The discriminator of `Event`."""
    index: int = 0
    """Which call of the plan, from 0."""
    tool_name: str
    """Its tool, as the model names it."""
    text: str
    """The piece of its arguments' JSON."""


class StreamRestartedEvent(BaseEvent):
    """The planner begins its turn again: what was told of this plan by deltas no longer holds; told only live."""

    type: Literal["stream_restarted"] = "stream_restarted"
    """The discriminator of `Event`."""
    plan: int
    """Which plan of the run, from 1."""
    attempt: int
    """The attempt that begins."""


Event: TypeAlias = (
    RunStartedEvent
    | PlanStartedEvent
    | PlannerNoteEvent
    | AssistantMessageEvent
    | UsageEvent
    | PolicyDecisionEvent
    | ToolStartEvent
    | AgentRunStartedEvent
    | ToolResultReceivedEvent
    | ToolEndEvent
    | AwaitClarificationEvent
    | AwaitConfirmationEvent
    | AwaitExternalToolsEvent
    | AwaitAnsweredEvent
    | RunPausedEvent
    | RunResumedEvent
    | LimitReachedEvent
    | RetriesStoppedEvent
    | RunCompletedEvent
    | RunFailedEvent
    | RunCanceledEvent
    | RunTerminatedEvent
    | RunTimedOutEvent
    | RunStreamEndEvent
    | ToolRetryEvent
    | ToolUpdateEvent
    | TextDeltaEvent
    | ThinkingDeltaEvent
    | ToolCallDeltaEvent
    | StreamRestartedEvent
)
"""Any event; `event.type`, or its class, says which fields it has."""

EVENT_CLASSES: dict[str, type[BaseEvent]] = {
    kind.model_fields["type"].default: kind for kind in get_args(Event)
}
"""The class of each type."""

if not TYPE_CHECKING:  # type checkers read no computed list, and take every class of the module without one
    __all__ = ["EVENT_CLASSES", "BaseEvent", "Event", *(kind.__name__ for kind in get_args(Event))]  # noqa: PLE0604
