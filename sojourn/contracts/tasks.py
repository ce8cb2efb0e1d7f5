"""What the workflow hands to its two activities, and gets back: internal, tolerant, small.

These are written once a step into the history, so every default is left out there.
"""

from datetime import timedelta
from typing import Any, Self

from pydantic import AliasChoices, Field, model_validator

from sojourn.contracts.awaits import AwaitClarification, AwaitExternalTools
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.input_required import ToolInput
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, Usage
from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.record import Record
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.run_policy import Caps, Limits, RunPolicy, RunPolicyOverride
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError

__all__ = ["Limits", "PlanOutcome", "PlanTask", "ToolTask"]


class PlanTask(Record):
    """The input of `PlanActivity`: which turn it is, and what is new since the last."""

    agent_id: str
    """The agent that plans."""
    session_id: str = ""
    """The run's session."""
    turn_id: str = "t1"
    """The user turn that is planned."""
    parent: RunLink | None = None
    """In a child run: whose call it answers."""
    labels: dict[str, str] = {}
    """The run's labels."""
    depth: int = 0
    """Agents above this one."""
    callers: list[str] = []
    """The agents above this one, the outermost first."""
    answer: dict[str, Any] | None = None
    """JSON Schema of the typed answer that the parent expects."""
    plan: int = 1
    """Counts the plans of the run, from 1."""
    after: int = 0
    """Messages of the transcript before the new ones."""
    new: list[Message] = []
    """The new messages, when they are small together."""
    until: int | None = None
    """When the new messages are large: where they end; the activity reads them by query."""
    accepted_attempt: int = 1
    """The attempt whose result the workflow accepted for the plan before; a cache entry of another is stale."""
    override: RunPolicyOverride | None = None
    """Until the policy is known: the run's own limits."""
    unlimited: bool = False
    """On a later plan: whether the policy is still not known, since the first was cut off."""
    limits: Limits = Limits()
    """On later plans: the recorded policy's limits."""
    caps: Caps = Caps()
    """What is left of the limits."""
    finalize: Finalize | None = None
    """When set, only an answer is legal."""
    correction: str | None = None
    """Why the last plan was refused."""
    unseen: int | None = None
    """The first message that no planner has seen, where it is not the first new one: a policy asked in between."""


class PlanOutcome(Record):
    """The result of `PlanActivity`: the plan, with all the workflow needs to carry it out."""

    calls: list[ToolRequest] = []
    """The calls, with their final ids; payloads that are not executed may be left out. On the wire they are left out
    where `message` holds the same."""
    dispatches: list[Dispatch] = []
    """How to carry out each, in the same order; the calls after the last are refused. On the wire they are left out
    where nothing is refused and each is carried out in the usual way."""
    refused: str | None = None
    """Why calls have no dispatch: `max_calls_per_step` `max_tool_calls` `max_tool_rounds` `plan_size` `final_turn`."""
    final: Message | None = None
    """The answer."""
    result: Any = None
    """The typed answer."""
    await_: AwaitClarification | None = Field(
        default=None, validation_alias=AliasChoices("await", "await_"), serialization_alias="await"
    )
    """The question."""
    asking: str | None = None
    """The call of `message` by which a model asks: the answer is its result."""
    asked_by_policy: bool = False
    """Whether the question is the policy's own, so that the planner has not been asked about the last step."""
    external: AwaitExternalTools | None = None
    """For calls executed outside: the wait's id and expiry, without its items."""
    wait_: timedelta | None = Field(
        default=None, validation_alias=AliasChoices("wait", "wait_"), serialization_alias="wait"
    )
    """How long to sleep."""
    wait_counts: bool = False
    """Whether the sleep is active time."""
    failure: ToolError | None = None
    """Why the run fails, as its planner decided."""
    decision: PolicyDecision | None = None
    """What the policy engine decided, where it changed anything."""
    message: Message | None = None
    """The assistant message as a model gave it; else made from the calls."""
    notes: list[str] = []
    """For people who follow the run."""
    usage: Usage | None = None
    """What the turn used of a model."""
    fault: str | None = None
    """Why the planner's result is refused; it gets two more tries."""
    fault_code: str | None = None
    """`MalformedAnswer` when the answer does not fit what the parent expects; else none."""
    policy: RunPolicy | None = None
    """On the first plan: the run's policy, in full."""
    attempt: int = 1
    """The attempt that made this."""
    overtime: bool = False
    """Whether the time budget was used up before there was a plan."""

    def recorded(self) -> "PlanOutcome":
        """The same, with calls that stand in the message left out, and dispatches that say nothing."""
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
    """The input of `ExecuteToolActivity`; run id, call id and attempt come from the activity itself."""

    name: str
    """The tool's id."""
    payload: dict[str, Any] = {}
    """The arguments."""
    raw: str | None = None
    """The arguments as a model wrote them; when set, the boundary parses it."""
    agent_id: str
    """The agent that asked."""
    session_id: str = ""
    """The run's session."""
    turn_id: str = "t1"
    """The user turn that produced the call."""
    parent_tool_call_id: str | None = None
    """In a child run, the parent's call that started it."""
    labels: dict[str, str] = {}
    """The run's labels."""
    spec_digest: str | None = None
    """For an approved call: the tool as it was shown; one that was changed since does not run."""
    input: ToolInput | None = None
    """For a call that needed input: the answers with which it goes on."""
    given: dict[str, Any] | None = None
    """For a call executed outside: what was sent, `result` or `error` and `retry_hint`; it is only checked here."""
    lost: int = 0
    """For a local call that is repeated as an ordinary one: the workers lost under it."""
