"""The inputs and outputs of the workflow's activities.

They are internal, tolerant of unknown fields, and small. The history holds one of each per step, so
every default is left out there.
"""

from datetime import timedelta
from typing import Any, Self

from pydantic import AliasChoices, Field, model_validator

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import AwaitConfirmation, AwaitExternalTools, PlannerQuestion
from sojourn.contracts.dispatch import CarriedEffect, Dispatch, Effect, ForkedStep
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, PolicyDecision, Usage
from sojourn.contracts.principal import Principal, Visibility
from sojourn.contracts.quota import Admission
from sojourn.contracts.record import Record
from sojourn.contracts.run import NoticeKind
from sojourn.contracts.run_policy import ApprovalRule, Caps, Limits, RunPolicy, RunPolicyOverride
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_call import Approval, CallEdit, ToolInput, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import RunLink
from sojourn.contracts.tool_spec import ShownTool

__all__ = [
    "ApprovalTask",
    "ApproverTask",
    "ApproverVerdict",
    "BranchTask",
    "EditFault",
    "EditTask",
    "EditVerdict",
    "Limits",
    "PlanOutcome",
    "PlanTask",
    "StoreTask",
    "Stored",
    "ToolTask",
]


_LIMITS, _CAPS = Limits(), Caps()
"""The defaults of `PlanTask`."""


class PlanTask(Record):
    """The input of `PlanActivity`: the turn, and the messages since the last plan."""

    agent_id: str
    session_id: str = ""
    turn_id: str = "t1"
    """The user turn that is planned."""
    parent: RunLink | None = None
    """In a child run: the parent's call that the run answers."""
    labels: dict[str, str] = {}
    principal: Principal | None = None
    """For whom the turn acts: who sent its message, else who asked for the run."""
    depth: int = 0
    callers: list[str] = []
    """Ids of the agents above this one, outermost first."""
    answer: dict[str, Any] | None = None
    """JSON Schema of the typed answer that the parent expects."""
    plan: int = 1
    """The number of the plan in the run, from 1."""
    after: int = 0
    """Number of messages of the transcript before the new ones."""
    turn_start: int = 0
    """In a conversation: the index of the first message that opened the present turn."""
    conversation: bool = False
    """Whether further turns follow: the worker keeps the transcript after an answer too."""
    new: list[Message] = []
    """The new messages, when they are small together."""
    until: int | None = None
    """When the new messages are large: the index after the last, and the activity reads them by query."""
    accepted_attempt: int = 1
    """The attempt of the previous plan that the workflow accepted; a cache entry of another attempt is stale."""
    override: RunPolicyOverride | None = None
    """Until the policy is known: the limits that the run was started with."""
    unlimited: bool = False
    """On a later plan: whether the policy is still unknown, because the first plan was cut off."""
    limits: Limits = Field(default_factory=lambda: _LIMITS)
    """On later plans: the recorded policy's limits for one plan."""
    caps: Caps = Field(default_factory=lambda: _CAPS)
    finalize: Finalize | None = None
    """When set, the planner may only answer or fail."""
    correction: str | None = None
    """Why the last plan was refused."""
    interim_for: str = ""
    """The message that the plan answers while approvals of a step are open; empty for every other plan. It may only answer."""
    off_clock: bool = False
    """Whether the plan's time does not count against the time budget, as in a plan for `interim_for`. Earlier histories count it."""
    memory: dict[str, Any] = {}
    """The run's memory, when it is small, or the task is that of a local activity."""
    asks_memory: bool = False
    """Whether the memory is larger, and the activity reads it by query."""
    version: int = 0
    """In the first plan of an execution: the version of the workflow's code, which the result repeats."""
    unseen: int | None = None
    """Index of the first message that no planner has seen, if the policy asked a question of its own before it."""
    forked: ForkedStep | None = None
    """In a fork: the step that is judged in place of asking the planner."""

    unsettled: list[str] = []
    """The calls whose outcome is unknown: a call of the same tool with equal arguments is the same effect."""
    unexecuted: list[str] = []
    """The calls that were refused as not carried out: a call of the same tool with equal arguments has the same key."""
    carried: list[CarriedEffect] = []
    """In a fork: the effects that the origin had after the fork's point, and that the fork has not come to."""
    key_run_id: str = ""
    """In a fork: the run by whose id idempotency keys are made, and ids of calls derived."""
    also_asked_by: list[Principal] = []
    """Who has asked for the turn beside `principal`, without roles."""
    taint: Taint | None = None
    """The text from outside that the run has read; None from an older version, which does not follow it."""

    quota_tenant: str = ""
    """The tenant in whose quota the run asks for a place; empty if the run has a place, or takes none."""

    @property
    def opens(self) -> bool:
        """Whether the plan is the first one of a run, or of a turn of a conversation."""
        return self.turn_start >= self.after

    def recorded(self) -> "PlanTask":
        """Return the input without the parts that the history can rebuild."""
        changes: dict[str, Any] = {"memory": {}} if self.memory else {}
        if self.new and all(message.role == "tool" for message in self.new):
            changes |= {"new": [], "until": self.after + len(self.new)}
        return self.model_copy(update=changes) if changes else self


class PlanOutcome(Record):
    """The result of `PlanActivity`: the plan, with all that the workflow needs to carry it out."""

    calls: list[ToolRequest] = []
    """The calls, with their final ids; payloads of calls that are not executed may be left out. On the wire the calls
    are left out where `message` holds the same.
    """
    dispatches: list[Dispatch] = []
    """How to carry out each call, in the same order; the calls after the last dispatch are refused. On the wire they are left
    out where no call is refused and every dispatch is the default.
    """
    refused: str | None = None
    """Why calls have no dispatch: `max_calls_per_step`, `max_tool_calls`, `max_tool_rounds`, `plan_size` or `final_turn`."""
    final: Message | None = None
    result: Any = None
    await_: PlannerQuestion | None = Field(
        default=None, validation_alias=AliasChoices("await", "await_"), serialization_alias="await"
    )
    """The question."""
    asking: str | None = None
    """The call of `message` with which the model asks. The answer is that call's result."""
    asked_by_policy: bool = False
    """Whether the policy asks, and not the planner: the planner has not seen the results of the last step."""
    external: AwaitExternalTools | None = None
    """For calls executed outside: the wait's id and expiry, without its items."""
    wait_: timedelta | None = Field(
        default=None, validation_alias=AliasChoices("wait", "wait_"), serialization_alias="wait"
    )
    wait_counts: bool = False
    failure: ToolError | None = None
    decision: PolicyDecision | None = None
    """The policy engine's decision, if it changed something."""
    message: Message | None = None
    """The assistant message as the model wrote it, or None if the calls make it."""
    notes: list[str] = []
    memory: dict[str, Any] = {}
    usage: Usage | None = None
    fault: str | None = None
    """Why the planner's result is refused; the planner gets two more tries."""
    fault_code: str | None = None
    """`MalformedAnswer` when the answer does not fit the schema that the parent expects; else None."""
    policy: RunPolicy | None = None
    """In the first plan's result: the run's policy, in full."""
    opening_taint: Taint | None = None
    """In the first plan's result: the text from outside in results with which the run began, as the declarations of their tools say."""
    attempt: int = 1
    overtime: bool = False
    """Whether the time budget was used up before the planner answered."""
    version: int = 0
    """The version of the workflow's code that the task told."""
    spent_ms: int = 0
    """Of a plan made by a local activity: how long it took, in milliseconds."""
    notices: list[NoticeKind] = []
    """The kinds of notices for which the app has functions."""
    local: bool = False
    """Whether the next turn may be planned by a local activity: the agent is local, and its planner was quick."""
    visibility: Visibility = "tenant"
    """In the first plan of a run, or of a turn: who sees the run over HTTP, as the app says."""
    quota: Admission | None = None
    """What the ledger of the tenant decided; None if the tenant has no quota, or the run had a place. Unless the run is admitted, the planner made no plan."""
    task: PlanTask | None = None
    """The input of a local plan, which Temporal does not record; without results that the history has."""

    @property
    def is_made(self) -> bool:
        """Whether there is a plan.

        Otherwise the run waits for a place in its tenant's quota.
        """
        return self.quota is None or self.quota.admitted

    def recorded(self) -> "PlanOutcome":
        """Return the outcome without what follows from the rest of it."""
        changes: dict[str, Any] = {}
        if self.message and self.calls == _calls_of(self.message):
            changes["calls"] = []
        if self.refused is None and self.dispatches == [Dispatch()] * len(self.calls):
            changes["dispatches"] = []
        return self.model_copy(update=changes) if changes else self

    @model_validator(mode="after")
    def _with_calls(self) -> Self:
        if self.message and self.await_ is None and not self.calls:
            object.__setattr__(self, "calls", _calls_of(self.message))  # it is frozen from here on
        if self.calls and not self.dispatches and self.refused is None:
            object.__setattr__(self, "dispatches", [Dispatch()] * len(self.calls))
        return self


def _calls_of(message: Message) -> list[ToolRequest]:
    return [part.request for part in message.tool_calls]


class ToolTask(Record):
    """The input of `ExecuteToolActivity`; the activity's own context gives run id, call id and attempt."""

    name: str
    payload: dict[str, Any] = {}
    raw: str | None = None
    """The arguments as the model wrote them; when set, the boundary parses them."""
    agent_id: str
    session_id: str = ""
    turn_id: str = "t1"
    """The user turn that produced the call."""
    parent_tool_call_id: str | None = None
    """In a child run: the parent's call that started the run."""
    labels: dict[str, str] = {}
    principal: Principal | None = None
    """For whom the call is made: who sent the message of its turn, else who asked for the run."""
    spec_digest: str | None = None
    """For a displayed call: digest of the tool's whole declaration, for workers of versions that know no `shown`."""
    shown: ShownTool | None = None
    """For a displayed call: the displayed parts of the tool. If the tool differs from them, the call does not run."""
    input: ToolInput | None = None
    """For a call that needed input: the answers with which it continues."""
    given: dict[str, Any] | None = None
    """For a call executed outside: the `result`, or `error` and `retry_hint`, that was sent; the activity only checks it."""
    memory: dict[str, Any] = {}
    """For a tool that reads the run's memory: the memory, when it is small, or the call is local."""
    asks_memory: bool = False
    """For a tool that reads the run's memory: whether it is larger, and the activity reads it by query."""
    lost: int = 0
    """For a local call that is repeated as an ordinary activity: the number of workers it has lost, or of attempts whose outcome is unknown."""
    unknown: bool = False
    """Whether an earlier activity of this call may have taken effect: it ended with a question to a person, and the call goes on."""
    effect: Effect | None = None
    """The effect of an earlier call, whose outcome is unknown, that this call repeats."""
    key_run_id: str = ""
    """In a fork: the run by whose id idempotency keys are made."""
    approval: Approval | None = None
    """Who approved the call."""
    attachments: list[AttachmentRecord] = []
    """For a tool that takes attachments: those that it may read."""
    tainted: bool = False
    """Whether the run has read text from outside that counts."""
    taint: Taint | None = None
    """All text from outside that the run has read, or None."""
    rules: list[ApprovalRule] = []
    """For a displayed call: the rules of the run's policy, for a further request."""


class ApprovalTask(Record):
    """The input of `CheckApprovalActivity`: an approved call, and the displayed parts of its tool."""

    name: str
    payload: dict[str, Any] = {}
    raw: str | None = None
    """The arguments as the model wrote them; when set, the boundary parses them."""
    agent_id: str
    spec_digest: str | None = None
    """The digest of the displayed declaration of the tool."""
    shown: ShownTool | None = None
    await_id: str = ""
    """The confirmation that was answered; empty for a local activity, whose id it is."""
    rules: list[ApprovalRule] = []
    """The rules of the run's policy, for a further request."""


class ApproverTask(Record):
    """The input of `JudgeApproverActivity`: a decision whose sender a function of the author's judges."""

    agent_id: str
    wait: AwaitConfirmation
    """The call, with what is decided on."""
    principal: Principal
    sent: dict[str, Any] = {}
    """The decision, as it was sent."""
    by_signal: bool = False
    """Whether it was sent as a signal, whose refusal becomes a note."""
    key: str = ""
    """Names the task in the memo `decided`, with which the run records when it takes the decision. Empty from a run that writes none."""


class ApproverVerdict(Record):
    """The result of `JudgeApproverActivity`."""

    allowed: bool = False
    why: str = ""


class EditTask(Record):
    """The input of `CheckEditActivity`: an approval with edited arguments, before the run accepts it."""

    agent_id: str
    wait: AwaitConfirmation
    """The call, as it was displayed."""
    principal: Principal | None = None
    """The principal that approves."""
    judges: bool = False
    """Whether the tool's own function judges the principal, about the edited call."""
    sent: dict[str, Any] = {}
    """The approval, as it was sent."""
    by_signal: bool = False
    """Whether it was sent as a signal, whose refusal becomes a note."""
    key: str = ""
    """Names the task in the memo `decided`, with which the run records when it takes the decision. Empty from a run that writes none."""


class EditFault(Record):
    """A field of edited arguments that cannot be used."""

    field: str
    """JSON pointer to the field; empty for the arguments themselves."""
    message: str
    """The rule that it breaks."""


class EditVerdict(Record):
    """The result of `CheckEditActivity`."""

    edit: CallEdit | None = None
    """The edit as it takes effect, or None if it is refused, or changes nothing."""
    why: str = ""
    """Why it is refused; empty if it is not."""
    kind: str = "InvalidAnswer"
    """The type of the refusal."""
    faults: list[EditFault] = []
    """The fields that cannot be used."""


class StoreTask(Record):
    """The input of `StoreTranscriptActivity`: the messages of a run that go to external storage."""

    agent_id: str
    after: int = 0
    until: int


class Stored(Record):
    """The result of `StoreTranscriptActivity`."""

    claim: dict[str, str] | None = None
    """The reference to the messages in external storage, or None if the worker has no storage."""
    archives: bool = False
    """Whether the worker's app archives events, and has a storage for them."""


class ArchiveTask(Record):
    """The input of `ArchiveEventsActivity`: the executions of a run whose events go to external storage."""

    agent_id: str
    after: int = 0
    """Number of executions whose events are archived."""
    until: int
    """Number of executions whose events are to be archived: all before the present one."""
    claim: dict[str, str] | None = None
    """The reference to the last part of the archive."""


class Archived(Record):
    """The result of `ArchiveEventsActivity`."""

    claim: dict[str, str] | None = None
    """The reference to the last part of the archive, which leads to the earlier parts, or None."""
    until: int = 0
    """Number of executions, from the first one, whose events are archived."""


class BranchTask(Record):
    """The input of `ReadBranchActivity`, which returns the state of a conversation at an earlier point."""

    agent_id: str
    at: str
    """The event at which the point is: the end of a turn, or the start of the run."""
