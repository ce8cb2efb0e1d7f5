"""The limits of a run and a conversation, and which calls need an approval."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, cast

from pydantic import (
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from sojourn.contracts.awaits import Expiry
from sojourn.contracts.ids import matches_any
from sojourn.contracts.record import Declaration, PositiveDuration, Record

__all__ = [
    "ApprovalPolicy",
    "ApprovalRule",
    "Asks",
    "Caps",
    "Limits",
    "OnMissingFields",
    "RunPolicy",
    "RunPolicyOverride",
    "SessionPolicy",
    "StopAsking",
    "in_both",
]

T = TypeVar("T")

Asks = Literal["nothing", "marked", "changes", "everything"]
"""Calls that need approval by a person, from none to all."""

_STRICTNESS: dict[Asks, int] = {"nothing": 0, "marked": 1, "changes": 2, "everything": 3}


StopAsking = Literal["turn", "run", "never"]
"""Time for which an approval of a whole tool holds."""

OnMessage = Literal["wait", "answer", "deny"]
"""What a message to the conversation does to an open approval."""

_PRECEDENCE: dict[OnMessage, int] = {"wait": 0, "answer": 1, "deny": 2}
"""Of two policies, the higher one counts: `wait` is the default, and says nothing."""

Tainted = Literal["allow", "ask", "deny"]
"""What becomes of a consequential call once the run has read text from outside."""

_CAUTION: dict[Tainted, int] = {"allow": 0, "ask": 1, "deny": 2}

_PATIENCE: dict[StopAsking, int] = {"never": 0, "turn": 1, "run": 2}


class ApprovalRule(Declaration):
    """Who approves the calls of some tools. Each call needs an approval, unless the policy lets it run."""

    tools: list[str] = []
    """Tools by id, a whole toolset as `ops.devices.*`, or `*` for all."""
    tags: list[str] = []
    """Tags of tools."""
    approvers: list[str] = []
    """Roles of the approvers, who need one of them. Empty leaves it to the tool, else to the role `approver`."""
    four_eyes: bool = False
    """Whether the principals who requested a call may not approve it."""
    approvals: PositiveInt = 1
    """How many principals have to approve a call."""
    steps: list[str] = []
    """Roles that have to approve a call, one after the other, each by another principal."""
    narrows: bool = False
    """Whether the rule comes from an override, so that its roles only narrow who may decide without it."""

    def fits(self, tool: str, tags: Collection[str]) -> bool:
        """Check whether the rule is about a tool."""
        return matches_any(tool, self.tools) or any(tag in self.tags for tag in tags)


class ApprovalPolicy(Declaration):
    """Who decides before a call runs. The rules apply in this order, and the first that fits decides.

    Denied tools and tags; read-only tools run; named tools and tags run; what the policy engine
    decides; else `asks_for` decides whether to ask a person. A tool is named by its id, a whole
    toolset as `ops.devices.*`.
    """

    denied_tools: list[str] = []
    """Tools whose calls are denied."""
    denied_tags: list[str] = []
    """Tags whose tools' calls are denied."""
    read_only_runs: bool = True
    """Whether a tool declared `read_only` runs without asking a person."""
    run_tools: list[str] = []
    """Tools that run without asking a person, regardless of their annotations."""
    run_tags: list[str] = []
    """Tags whose tools run without asking a person."""
    asks_for: Asks = "marked"
    """Which other calls need an approval: `nothing`; `marked`: tools declared `destructive` or with a
    `confirmation`; `changes`: tools not declared `read_only`; `everything`.
    """
    asks: bool = True
    """Whether the run may ask a person at all. False denies the call instead."""
    expires_after: Expiry | None = None
    """How long to wait for a decision before the call is denied; None waits without limit."""

    rules: list[ApprovalRule] = []
    """Rules for who approves the calls of some tools. Every rule that fits a call counts."""
    stop_asking: StopAsking = "turn"
    """How long a person may stop the asking about a tool: `turn` until the turn ends, `run` until the run ends, `never`.

    It never covers a call about which the policy engine asks, nor one that the person who stopped the asking may not approve.
    """
    allows_edits: bool = True
    """Whether an approver may edit the arguments of a call. A tool may forbid it too."""
    approvals: PositiveInt = 1
    """How many principals have to approve a call that needs an approval."""
    escalate_after: Expiry | None = None
    """How long to wait for a decision before it is announced again, and before `escalate_to` may decide too. An override does not change it."""
    escalate_to: list[str] = []
    """Roles that may decide too after `escalate_after`."""

    on_message: OnMessage = "wait"
    """What a message of the user does while an approval is open: with `wait` it waits for its turn; with `answer` the planner answers it
    at once, the approval stays open, and the turn goes on knowing both; with `deny` it denies the call, as the reason, and joins the
    present turn, whose planner then answers it.
    """
    tainted: Tainted = "ask"
    """What becomes of a call that may destroy something once the run has read text from outside, such as a web page, whatever
    else lets it run: with `ask` a person decides, with `deny` it is denied, with `allow` it is judged as if the run had read nothing.
    """

    @model_serializer(mode="wrap")
    def _in_full(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    @classmethod
    def unattended(cls) -> "ApprovalPolicy":
        """Return a policy that requests no approvals. Every call runs."""
        return cls(asks_for="nothing", tainted="allow")

    @classmethod
    def supervised(cls) -> "ApprovalPolicy":
        """Return a policy that asks a person about every tool not declared `read_only`."""
        return cls(asks_for="changes")

    @classmethod
    def read_only(cls) -> "ApprovalPolicy":
        """Return a policy that denies every tool not declared `read_only`."""
        return cls(asks_for="changes", asks=False, tainted="deny")

    def tightened(self, other: "ApprovalPolicy | None") -> "ApprovalPolicy":
        """Return the stricter of both policies, rule by rule.

        A call is denied if either policy denies it, and runs without approval only if both policies
        let it.
        """
        if other is None:
            return self
        limits = [item for item in (self.expires_after, other.expires_after) if item is not None]
        return ApprovalPolicy(
            denied_tools=_union(self.denied_tools, other.denied_tools),
            denied_tags=_union(self.denied_tags, other.denied_tags),
            read_only_runs=self.read_only_runs and other.read_only_runs,
            run_tools=in_both(self.run_tools, other.run_tools),
            run_tags=[item for item in self.run_tags if item in other.run_tags],
            asks_for=other.asks_for
            if _STRICTNESS[other.asks_for] > _STRICTNESS[self.asks_for]
            else self.asks_for,
            asks=self.asks and other.asks,
            expires_after=min(limits, default=None),
            rules=_union(self.rules, [self._narrowing(rule) for rule in other.rules]),
            stop_asking=min(self.stop_asking, other.stop_asking, key=_PATIENCE.__getitem__),
            allows_edits=self.allows_edits and other.allows_edits,
            approvals=max(self.approvals, other.approvals),
            escalate_after=self.escalate_after,
            escalate_to=self.escalate_to,
            on_message=max(self.on_message, other.on_message, key=_PRECEDENCE.__getitem__),
            tainted=max(self.tainted, other.tainted, key=_CAUTION.__getitem__),
        )

    def _narrowing(self, rule: ApprovalRule) -> ApprovalRule:
        return rule if rule in self.rules else rule.model_copy(update={"narrows": True})

    def rules_for(self, tool: str, tags: Collection[str]) -> list[ApprovalRule]:
        """Return the rules that are about a tool."""
        return [rule for rule in self.rules if rule.fits(tool, tags)]


def in_both(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Return the tool patterns that both lists cover."""
    narrower = [pattern for pattern in left if _covers(pattern, right)]
    return list(dict.fromkeys([*narrower, *(pattern for pattern in right if _covers(pattern, left))]))


def _covers(pattern: str, by: Sequence[str]) -> bool:
    return any(
        other in (pattern, "*") or (other.endswith(".*") and pattern.startswith(other[:-1])) for other in by
    )


def _union(left: list[T], right: list[T]) -> list[T]:
    return [
        *left,
        *(each for place, each in enumerate(right) if each not in left and each not in right[:place]),
    ]


class SessionPolicy(Declaration):
    """The limits of a conversation; None means no limit. A conversation that has reached one ends.

    A run that is no conversation counts as one of a single turn.
    """

    model_config = ConfigDict(extra="forbid")

    max_turns: PositiveInt | None = None
    """Turns of the conversation, failed and interrupted ones too."""
    max_tokens: NonNegativeInt | None = None
    """Tokens read and written by models, in all turns and their child runs."""
    max_cost: NonNegativeFloat | None = None
    """US dollars spent on models, in all turns and their child runs."""
    idle_timeout: PositiveDuration | None = None
    """Longest time between the end of a turn and the next message; a pause does not count."""

    acts_for: Literal["sender", "starter"] | None = None
    """For whom a turn acts: the sender of its message, also if that is None; or `starter`, for the principal who began the conversation.

    With `starter` all who may send a message act with the starter's rights.
    """

    def tightened(self, other: "SessionPolicy") -> "SessionPolicy":
        """Return the stricter of both policies, field by field.

        Only the first one, of the agent, may let turns act for the starter.
        """
        names = [name for name in type(self).model_fields if name != _ACTS_FOR]
        both = {name: (getattr(self, name), getattr(other, name)) for name in names}
        least: dict[str, Any] = {
            name: min((v for v in pair if v is not None), default=None) for name, pair in both.items()
        }
        if other.acts_for == "sender":
            least[_ACTS_FOR] = other.acts_for
        return self.model_copy(update=least)


_ACTS_FOR = "acts_for"


OnMissingFields = Literal["resume", "await_clarification", "finalize"]
"""Reaction to a call without required fields."""


class Limits(Record):
    """The limits of a policy that concern one plan; recorded with each plan, so that a default here never changes."""

    max_calls_per_step: PositiveInt = 64
    """Calls of one plan that are executed; the rest are answered as `not_executed`."""
    plan_timeout: PositiveDuration = timedelta(minutes=10)
    """Time limit of one planner turn."""
    tool_timeout: PositiveDuration = timedelta(minutes=2)
    """Time limit of one attempt of a tool that declares no time-out of its own."""
    interrupts_allowed: bool = False
    """Whether the agent may ask a person (SR-74)."""
    on_missing_fields: str = "resume"
    """What follows a call without required fields."""
    approval: ApprovalPolicy = ApprovalPolicy()
    """Which calls need an approval before they run."""
    allowed_tools: list[str] | None = None
    """Only these tools are offered and run; a tool's id, or a toolset as `ops.devices.*`. None allows all."""
    allowed_tags: list[str] | None = None
    """Only tools with one of these tags are offered and run; None allows all."""
    denied_tools: list[str] = []
    """These tools are neither offered nor run."""
    denied_tags: list[str] = []
    """Tools with one of these tags are neither offered nor run."""
    max_depth: PositiveInt = 5
    """How deep agents may call agents."""
    finalizer_grace: PositiveDuration = timedelta(seconds=10)
    """Time for the final turn once the time budget is used up."""

    @model_validator(mode="before")
    @classmethod
    def _as_recorded(cls, value: Any) -> Any:
        return _as_recorded(value)


def _as_recorded(value: Any) -> Any:
    # An older version records its policy in full, without `tainted`. A run that began with it goes on as it did.
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    recorded = fields.get("approval")
    approval = cast("dict[str, Any]", recorded) if isinstance(recorded, dict) else {}
    if "tainted" in approval or not approval.keys() >= _FIRST_FIELDS:
        return cast("Any", value)
    return {**fields, "approval": {**approval, "tainted": "allow"}}


_FIRST_FIELDS = {
    "denied_tools",
    "denied_tags",
    "read_only_runs",
    "run_tools",
    "run_tags",
    "asks_for",
    "asks",
    "expires_after",
}
"""The fields of an `ApprovalPolicy` that every version records."""


class RunPolicy(Limits, Declaration):
    """The limits of a run, recorded in full once, in the first plan's result."""

    model_config = ConfigDict(extra="forbid")

    max_tool_calls: NonNegativeInt | None = None
    """Calls in a run and its child runs; None means no limit. A call over the limit is answered as `not_executed`."""
    max_tool_rounds: PositiveInt = 20
    """Plans with calls in one user turn (ME-18 to ME-25)."""
    max_parallel_calls: PositiveInt = 32
    """Calls in flight at once."""
    max_consecutive_failed_tool_calls: PositiveInt | None = 6
    """Consecutive steps in which every call failed before the planner gets its final turn; None means no limit."""
    similar_errors: PositiveInt | None = 3
    """Similar errors in a row before the planner gets its final turn (ME-4); so do twice as many of one class, without a success of any call between
    them. None means no limit."""
    time_budget: PositiveDuration | None = None
    """Active time of the run and its child runs: planning and executing count, waits and pauses do not.
    Calls in flight when the budget is used up are cancelled and answered; None means no limit."""
    max_tokens: NonNegativeInt | None = None
    """Tokens read and written by models, in the run and its child runs; None means no limit."""
    max_cost: NonNegativeFloat | None = None
    """US dollars spent on models, in the run and its child runs; None means no limit."""
    session: SessionPolicy | None = None
    """In a conversation: the limits of the whole, since all others count for each turn."""
    on_missing_fields: OnMissingFields = "resume"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    """What follows a call without required fields."""

    @model_serializer(mode="wrap")
    def _in_full(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    def tightened(self, override: "RunPolicyOverride | None") -> "RunPolicy":
        """Return the stricter of this policy and the override, field by field."""
        if override is None:
            return self
        changes = {
            name: value
            for name, theirs in override.set_fields().items()
            if (value := stricter(name, ours := getattr(self, name), theirs)) != ours
        }
        return self.model_copy(update=changes) if changes else self

    def overridden(self, override: "RunPolicyOverride | None") -> "RunPolicy":
        """This policy with the override's fields in place of its own, looser ones too."""
        return self.model_copy(update=override.set_fields()) if override else self


class RunPolicyOverride(Declaration):
    """Limits of one run. None inherits, and a value applies only if it is tighter, unless the app allows looser ones."""

    max_tool_calls: NonNegativeInt | None = None
    """Calls in the run and its child runs."""
    max_tool_rounds: PositiveInt | None = None
    """Plans with calls in one user turn."""
    max_calls_per_step: PositiveInt | None = None
    """Calls of one plan that are executed."""
    max_parallel_calls: PositiveInt | None = None
    """Calls in flight at once."""
    max_consecutive_failed_tool_calls: PositiveInt | None = None
    """Consecutive steps in which every call failed."""
    similar_errors: PositiveInt | None = None
    """Similar errors in a row."""
    time_budget: PositiveDuration | None = None
    """Active time of the run and its child runs."""
    finalizer_grace: PositiveDuration | None = None
    """Time for the final turn once the time budget is used up."""
    plan_timeout: PositiveDuration | None = None
    """Time limit of one planner turn."""
    tool_timeout: PositiveDuration | None = None
    """Time limit of one attempt of a tool that declares no time-out of its own."""
    interrupts_allowed: bool | None = None
    """False forbids the agent, and its child runs, to ask a person. True has no effect if the policy forbids it."""
    on_missing_fields: OnMissingFields | None = None
    """What follows a call without required fields; `finalize` is the strictest."""
    approval: ApprovalPolicy | None = None
    """Which calls need an approval. The stricter of both rules applies."""
    allowed_tools: list[str] | None = None
    """Only these tools are offered and run, of those that the policy allows."""
    allowed_tags: list[str] | None = None
    """Only tools with one of these tags are offered and run, of those that the policy allows."""
    denied_tools: list[str] | None = None
    """These tools are neither offered nor run, nor are those that the policy denies."""
    denied_tags: list[str] | None = None
    """Tools with one of these tags are neither offered nor run."""
    max_depth: PositiveInt | None = None
    """How deep agents may call agents."""
    max_tokens: NonNegativeInt | None = None
    """Tokens read and written by models, in the run and its child runs."""
    max_cost: NonNegativeFloat | None = None
    """US dollars spent on models, in the run and its child runs."""
    session: SessionPolicy | None = None
    """In a conversation: the limits of the whole; the stricter of each counts."""

    @model_validator(mode="before")
    @classmethod
    def _as_recorded(cls, value: Any) -> Any:
        return _as_recorded(value)

    def set_fields(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    def tightened(self, other: "RunPolicyOverride | None") -> "RunPolicyOverride":
        """Return the stricter of two overrides, field by field."""
        if other is None:
            return self
        changes = {
            name: stricter(name, getattr(self, name), theirs) for name, theirs in other.set_fields().items()
        }
        return self.model_copy(update=changes)


_ON_MISSING: tuple[OnMissingFields, ...] = ("resume", "await_clarification", "finalize")

_STRICTER: dict[str, Callable[[Any, Any], Any]] = {
    "on_missing_fields": lambda ours, theirs: max(ours, theirs, key=_ON_MISSING.index),
    "approval": lambda ours, theirs: ours.tightened(theirs),
    "session": lambda ours, theirs: ours.tightened(theirs),
    "allowed_tools": in_both,
    "allowed_tags": lambda ours, theirs: [tag for tag in theirs if tag in ours],
    "denied_tools": lambda ours, theirs: list(dict.fromkeys([*ours, *theirs])),
    "denied_tags": lambda ours, theirs: list(dict.fromkeys([*ours, *theirs])),
}


def stricter(name: str, ours: Any, theirs: Any) -> Any:
    """Return the stricter of two values of a policy's field. None means no limit."""
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return _STRICTER.get(name, min)(ours, theirs)


class Caps(Record):
    """The rest of a run's limits. None means no limit."""

    tool_calls: int | None = None
    """Calls left in the run and its child runs."""
    rounds: int | None = None
    """Plans with calls left in this turn, the coming plan included."""
    failed_steps: int | None = 3
    """Consecutive steps that may still fail entirely."""
    time: timedelta | None = None
    """Active time left."""
    tokens: int | None = None
    """Tokens left."""
    cost: float | None = None
    """US dollars left."""
