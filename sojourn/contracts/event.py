"""The events of a run, folded from its history. Each kind has a class.

The union `Event`, below the classes, is the only list of kinds: a new kind is a class and a line
there.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, PolicyDecision, Usage
from sojourn.contracts.principal import Principal
from sojourn.contracts.quota import Admission
from sojourn.contracts.record import Record
from sojourn.contracts.run import ForkedFrom, RunOutput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, RunLink, ToolResult


class BaseEvent(Record):
    """The fields of every event, in addition to its `type`."""

    run_id: str
    """The run of the event."""
    session_id: str = ""
    """The run's session."""
    turn_id: str = ""
    """The user turn of the event."""
    event_id: str = ""
    """Increases within a run, and is where a stream resumes: chain index, history event, k; empty for a live-only event."""
    time: datetime
    """When the event happened, by the server's clock."""
    agent_id: str = ""
    """The run's agent."""
    parent_tool_call_id: str | None = None
    """In a child run: the parent's call that the run answers (SR-67)."""

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """Yield the ids, tool name and code, without any text or payload."""
        for name in ("run_id", "event_id", "tool_call_id", "tool_name", "await_id", "code"):
            if value := getattr(self, name, None):
                yield name, value

    @model_serializer(mode="wrap")
    def _with_type(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"type": type(self).model_fields["type"].default, **write(self)}


class RunStartedEvent(BaseEvent):
    """A run began."""

    type: Literal["run_started"] = "run_started"
    message: Message | None = None
    """The last user message of the opening."""
    forked_from: ForkedFrom | None = None
    """In a fork: the run it was forked from, and where; `message` is then the user message that the fork adds, if any."""


class PlanStartedEvent(BaseEvent):
    """The planner began a plan."""

    type: Literal["plan_started"] = "plan_started"
    interim_for: str = ""
    """The message that the plan answers while approvals are open; empty for every other plan."""


class PlannerNoteEvent(BaseEvent):
    """A note by the planner, or about a message from outside: one that was refused, an interruption, a close, a release."""

    type: Literal["planner_note"] = "planner_note"
    text: str
    """The note."""
    by: str | None = None
    """Who caused it, by the name in the message."""
    identity: str | None = None
    """The identity of the client that caused the note, as Temporal records it."""


class AssistantMessageEvent(BaseEvent):
    """A message of the planner: its answer, or a message with calls."""

    type: Literal["assistant_message"] = "assistant_message"
    message: Message
    """The message."""
    is_partial: bool = False
    """Whether it is only the text that was streamed before the turn, or the run, was stopped."""


class UsageEvent(BaseEvent):
    """A plan's usage of a model."""

    type: Literal["usage"] = "usage"
    usage: Usage
    """Tokens, model and cost."""


class PolicyDecisionEvent(BaseEvent):
    """The policy engine changed the tools, approvals, limits or labels."""

    type: Literal["policy_decision"] = "policy_decision"
    decision: PolicyDecision
    """The decision."""


class ToolStartEvent(BaseEvent):
    """A call began: on a worker, as a child run, or outside."""

    type: Literal["tool_start"] = "tool_start"
    call: ToolRequest
    """The call, as the planner requested it."""

    @property
    def tool_call_id(self) -> str:
        """The id of the call (SR-66)."""
        return self.call.tool_call_id

    @property
    def tool_name(self) -> str:
        """The id of the tool."""
        return self.call.name


class AgentRunStartedEvent(BaseEvent):
    """The child run of an agent tool's call started (SR-54)."""

    type: Literal["agent_run_started"] = "agent_run_started"
    call: ToolRequest
    """The call that the child run answers."""
    run_link: RunLink
    """The child run."""

    @property
    def tool_call_id(self) -> str:
        """The id of the call (SR-66)."""
        return self.call.tool_call_id


class _CallAnswer(BaseEvent):
    result: ToolResult
    """The result of the call, with error, hint, bounds, artifacts and telemetry."""

    @property
    def tool_call_id(self) -> str:
        """The id of the call (SR-66)."""
        return self.result.tool_call_id

    @property
    def tool_name(self) -> str:
        """The id of the tool."""
        return self.result.name

    @property
    def error(self) -> ToolError | None:
        """The error of a failed call, or None if the call succeeded (SR-133)."""
        return self.result.error

    @property
    def retry_hint(self) -> RetryHint | None:
        """Hint to repair the call."""
        return self.result.retry_hint

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the result: its part of the full data (SR-38).

        `total` may be None.
        """
        return self.result.bounds

    @property
    def artifacts(self) -> list[Artifact]:
        """The artifacts, with data (SR-110)."""
        return self.result.artifacts


class ToolResultReceivedEvent(_CallAnswer):
    """The run has the result of a call, as the planner receives it (SR-133)."""

    type: Literal["tool_result_received"] = "tool_result_received"


class ToolEndEvent(_CallAnswer):
    """A call ended; every call that started ends exactly once."""

    type: Literal["tool_end"] = "tool_end"
    duration: timedelta
    """From start to end, by the server's clock."""
    taints: str = ""
    """Why the result may hold text from outside, as `TaintSource.reason`; empty if it does not."""


class AwaitClarificationEvent(BaseEvent):
    """The run asks a person a question."""

    type: Literal["await_clarification"] = "await_clarification"
    question: AwaitClarification
    """The question."""


class AwaitConfirmationEvent(BaseEvent):
    """The run asks a person whether a call may run."""

    type: Literal["await_confirmation"] = "await_confirmation"
    confirmation: AwaitConfirmation
    """The call, and the question to the person."""


class AwaitExternalToolsEvent(BaseEvent):
    """The run waits for results from outside."""

    type: Literal["await_external_tools"] = "await_external_tools"
    external: AwaitExternalTools
    """The calls that a program outside the run executes."""


WaitOpenedEvent: TypeAlias = AwaitClarificationEvent | AwaitConfirmationEvent | AwaitExternalToolsEvent
"""An event that opens a wait."""


class AwaitAnsweredEvent(BaseEvent):
    """A wait ended."""

    type: Literal["await_answered"] = "await_answered"
    await_id: str
    """The id of the wait."""
    approved: bool | None = None
    """For a confirmation: the decision, or None if none came in time."""
    edited_arguments: dict[str, Any] | None = None
    """For an approval: the arguments in place of those in the confirmation, with which the call runs; None if they were not edited."""
    text: str | None = None
    """The text of the answer."""
    by: str | None = None
    """Who answered, by the name in the answer."""
    identity: str | None = None
    """The identity of the client that answered, as Temporal records it."""
    code: str | None = None
    """`declined`, or `expired` if no answer came in time."""
    message_id: str | None = None
    """The id of the message that was the answer, if its sender gave one."""
    principal: Principal | None = None
    """The principal who answered or decided, as the sending program had authenticated it, or None."""
    result_digests: dict[str, str] = {}
    """For results from outside: a digest of each one as it was sent, by call id."""
    lifted: int = 0
    """For an approval with the scope `sources`: up to which number the run's sources of text from outside no longer count; else 0."""


class ApprovalGivenEvent(BaseEvent):
    """One of several approvals that a call needs was given; the wait goes on."""

    type: Literal["approval_given"] = "approval_given"
    await_id: str
    """The id of the wait."""
    confirmation: AwaitConfirmation
    """The call as it waits now, with all approvals so far. An edit has begun their count anew."""
    edited_arguments: dict[str, Any] | None = None
    """The arguments that this approver gave in place of those before; None if they were not edited."""
    text: str | None = None
    """The reason."""
    by: str | None = None
    """Who approved, by the name in the approval."""
    identity: str | None = None
    """The identity of the client that approved, as Temporal records it."""
    message_id: str | None = None
    """The id of the message that was the approval, if its sender gave one."""
    principal: Principal | None = None
    """The principal who approved, as the sending program had authenticated it."""


class ApprovalEscalatedEvent(BaseEvent):
    """A call had no decision for so long that it was announced again, and further roles may decide; the wait goes on."""

    type: Literal["approval_escalated"] = "approval_escalated"
    await_id: str
    """The id of the wait."""
    confirmation: AwaitConfirmation
    """The call as it waits now; `escalate_to` has the further roles."""


class _Steered(BaseEvent):
    text: str | None = None
    """The reason given."""
    by: str | None = None
    """Who paused or resumed the run, by the name in the request."""
    identity: str | None = None
    """The identity of the client that paused or resumed the run, as Temporal records it."""


class RunPausedEvent(_Steered):
    """The run is paused: it starts no new plan or call."""

    type: Literal["run_paused"] = "run_paused"


class RunResumedEvent(_Steered):
    """The run continues after a pause."""

    type: Literal["run_resumed"] = "run_resumed"
    messages: list[str] = []
    """Messages to the planner that came with the resume; they begin a new user turn."""


class RunQueuedEvent(BaseEvent):
    """The run waits for a place in the quota of its tenant, before its planner plans."""

    type: Literal["run_queued"] = "run_queued"
    quota: Admission
    """The limit that is reached, and the position of the run among those that wait."""

    @property
    def text(self) -> str:
        """What the run waits for, in words."""
        return self.quota.text


class RunAdmittedEvent(BaseEvent):
    """The run got the place for which it waited, or a plan shows that it had got it."""

    type: Literal["run_admitted"] = "run_admitted"
    waited: timedelta
    """How long it waited."""

    @property
    def text(self) -> str:
        """How long the run waited, in words."""
        return f"has a place after {self.waited.total_seconds():.1f} s"


class RunContinuedEvent(BaseEvent):
    """The run goes on in a new execution with the same id, because its history is long; nothing else changes.

    It is also the first event if the earlier executions are deleted.
    """

    type: Literal["run_continued"] = "run_continued"
    executions: int
    """Number of executions of the run that have ended, this one included."""
    is_start: bool = False
    """Whether the events begin here, because the earlier executions are deleted."""


class _Limit(BaseEvent):
    limit: Finalize
    """The limit, and its message."""


class MessageReceivedEvent(BaseEvent):
    """A conversation has accepted a message."""

    type: Literal["message_received"] = "message_received"
    message_id: str
    """The id of the message, its sender's or one that was made."""
    message: Message
    """The message."""
    mode: str = "queue"
    """`queue`, `steer` or `interrupt`."""
    by: str | None = None
    """Who sent it, by the name in the message."""
    identity: str | None = None
    """The identity of the client that sent it, as Temporal records it."""
    principal: Principal | None = None
    """The sender, as established by the sending program; None if it named none."""


class MessageWithdrawnEvent(BaseEvent):
    """A message was withdrawn before a turn took it; no planner reads it."""

    type: Literal["message_withdrawn"] = "message_withdrawn"
    message_id: str
    """The id of the message."""
    by: str | None = None
    """Who withdrew it, by the name in the request."""
    identity: str | None = None
    """The identity of the client that withdrew it, as Temporal records it."""


class ConversationBranchedEvent(BaseEvent):
    """A conversation goes on from an earlier point. The turns after that point are another branch of it."""

    type: Literal["conversation_branched"] = "conversation_branched"
    at: str
    """The event after which it goes on: the end of a turn, or the start of the run."""
    message_id: str = ""
    """The message that goes on from there; empty if the conversation was only switched to that point."""
    number: int
    """How often the conversation has gone on from an earlier point, this time included."""
    memory: dict[str, Any] = {}
    """The memory of the conversation at that point."""


class _OfTurn(BaseEvent):
    message_ids: list[str] = []
    """The messages of the turn, in the order in which the planner gets them."""


class TurnStartedEvent(_OfTurn):
    """A message opened a turn of a conversation."""

    type: Literal["turn_started"] = "turn_started"


class TurnSteeredEvent(_OfTurn):
    """Messages joined the present turn of a conversation; the plan that begins sees them."""

    type: Literal["turn_steered"] = "turn_steered"


class InterimAnswerEvent(BaseEvent):
    """A message was answered while approvals of its turn are open, or could not be; the turn goes on."""

    type: Literal["interim_answer"] = "interim_answer"
    message_id: str
    """The message."""
    message: Message | None = None
    """The answer, which ends the reply to the message; None if there is none, and the turn's next plan reads the message."""
    error: ToolError | None = None
    """Why there is no answer."""

    @property
    def output(self) -> RunOutput | None:
        """The answer as an output, or None if there is none.

        It has no figures: those of the turn include them.
        """
        return self.message and RunOutput(run_id=self.run_id, agent_id=self.agent_id, final=self.message)


class TurnCompletedEvent(_OfTurn):
    """A turn of a conversation ended with an answer."""

    type: Literal["turn_completed"] = "turn_completed"
    output: RunOutput
    """The answer, why the turn ended, and its usage."""


class TurnFailedEvent(_OfTurn):
    """A turn of a conversation failed; the conversation goes on with the next message."""

    type: Literal["turn_failed"] = "turn_failed"
    error: ToolError
    """The chain of causes, outermost first."""


class MemoryChangedEvent(BaseEvent):
    """A plan, or the result of a call, changed the run's memory."""

    type: Literal["memory_changed"] = "memory_changed"
    patch: dict[str, Any]
    """The change, as a JSON Merge Patch (RFC 7396)."""
    tool_call_id: str | None = None
    """The call whose result changed it; None for the planner."""


class LimitReachedEvent(_Limit):
    """A limit of the run's policy is reached; the planner gets its last turn."""

    type: Literal["limit_reached"] = "limit_reached"


class RetriesStoppedEvent(_Limit):
    """A safeguard stopped a planner that repeats itself; the message is for the person."""

    type: Literal["retries_stopped"] = "retries_stopped"


class RunCompletedEvent(BaseEvent):
    """The run ended with an answer."""

    type: Literal["run_completed"] = "run_completed"
    output: RunOutput | None = None
    """The output, or None if it cannot be read."""


class _Ended(BaseEvent):
    text: str | None = None
    """The failure's message, with its causes."""
    code: str | None = None
    """The failure's type."""


class RunFailedEvent(_Ended):
    """The run failed."""

    type: Literal["run_failed"] = "run_failed"
    error: ToolError | None = None
    """The chain of causes, outermost first; `text` is the same in one line."""


class RunCanceledEvent(_Ended):
    """The run was canceled."""

    type: Literal["run_canceled"] = "run_canceled"


class RunTerminatedEvent(_Ended):
    """The run was terminated."""

    type: Literal["run_terminated"] = "run_terminated"


class RunTimedOutEvent(_Ended):
    """The run exceeded its execution time-out."""

    type: Literal["run_timed_out"] = "run_timed_out"


class RunStreamEndEvent(BaseEvent):
    """The last event of a run."""

    type: Literal["run_stream_end"] = "run_stream_end"


class ToolRetryEvent(BaseEvent):
    """A call or a plan is attempted again; live only, with no `event_id`."""

    type: Literal["tool_retry"] = "tool_retry"
    tool_call_id: str
    """The id of the call; empty for a plan."""
    tool_name: str = ""
    """The id of the tool."""
    attempt: int
    """The coming attempt, from 2 on."""
    due: datetime | None = None
    """When the attempt starts; None when it has started."""
    error: str = ""
    """The error of the last attempt."""


class ToolUpdateEvent(BaseEvent):
    """The progress of a call; live only, with no `event_id`."""

    type: Literal["tool_update"] = "tool_update"
    tool_call_id: str
    """The id of the call; empty for a plan."""
    tool_name: str = ""
    """The id of the tool."""
    note: str = ""
    """The progress in words, for a person."""
    done: float | None = None
    """How much is done, in the unit of `total`."""
    total: float | None = None
    """How much there is to do."""


class TextDeltaEvent(BaseEvent):
    """The next piece of the message that the planner is writing; live only, with no `event_id`."""

    type: Literal["text_delta"] = "text_delta"
    text: str
    """The piece."""


class ThinkingDeltaEvent(BaseEvent):
    """The next piece of the model's reasoning; live only, with no `event_id`."""

    type: Literal["thinking_delta"] = "thinking_delta"
    text: str
    """The piece."""


class ToolCallDeltaEvent(BaseEvent):
    """The next piece of a call that the planner is writing; live only, with no `event_id`."""

    type: Literal["tool_call_delta"] = "tool_call_delta"
    index: int = 0
    """The index of the call in the plan, from 0."""
    tool_name: str
    """The tool's name, as the model wrote it."""
    text: str
    """A piece of the arguments' JSON."""


class StreamRestartedEvent(BaseEvent):
    """The planner begins its plan again, so that earlier deltas of this plan are void; live only."""

    type: Literal["stream_restarted"] = "stream_restarted"
    plan: int
    """The number of the plan in the run, from 1."""
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
    | WaitOpenedEvent
    | ApprovalGivenEvent
    | ApprovalEscalatedEvent
    | AwaitAnsweredEvent
    | RunPausedEvent
    | RunResumedEvent
    | RunQueuedEvent
    | RunAdmittedEvent
    | RunContinuedEvent
    | MessageReceivedEvent
    | MessageWithdrawnEvent
    | ConversationBranchedEvent
    | TurnStartedEvent
    | TurnSteeredEvent
    | InterimAnswerEvent
    | TurnCompletedEvent
    | TurnFailedEvent
    | MemoryChangedEvent
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
"""Any event. `event.type` or the event's class determines its fields."""

EVENT_CLASSES: dict[str, type[BaseEvent]] = {
    kind.model_fields["type"].default: kind for kind in get_args(Event)
}
"""The class of each event type."""


def wait_in(event: BaseEvent) -> Await | None:
    """Return the wait that an event opens, or None if it opens none."""
    if not isinstance(event, WaitOpenedEvent):
        return None
    match event:
        case AwaitClarificationEvent():
            return event.question
        case AwaitConfirmationEvent():
            return event.confirmation
        case AwaitExternalToolsEvent():
            return event.external


# Type checkers cannot read a computed list. Without `__all__` they take every class of the module.
if not TYPE_CHECKING:
    _CLASSES = [kind.__name__ for kind in get_args(Event)]
    __all__ = ["EVENT_CLASSES", "BaseEvent", "Event", "WaitOpenedEvent", *_CLASSES, "wait_in"]  # noqa: PLE0604
