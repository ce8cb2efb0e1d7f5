"""The waits of a run."""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Input, Record
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_call import CallEdit, GivenApproval, SignInRequest
from sojourn.contracts.tool_spec import ShownTool

__all__ = [
    "ApprovalScope",
    "Await",
    "AwaitClarification",
    "AwaitConfirmation",
    "AwaitExternalTools",
    "ExternalCall",
    "KindName",
    "PlannerQuestion",
    "PlannerWait",
    "escalates_at",
    "expires_at",
    "record_of",
]

Expiry = Annotated[timedelta, Field(gt=timedelta(0), le=timedelta(days=3650))]
"""Time limit of a wait. Temporal rejects a timer that is not positive."""

KindName = Literal["question", "approval", "tool_results"]
"""The name of a kind of wait outside the wire."""

ApprovalScope = Literal["call", "tool", "sources"]
"""What an approval is for: one call, later calls of the tool too, or also that the shown sources of text from outside no longer count."""


class AwaitClarification(Input):
    """A question to a person; the run waits until a person answers (SR-94).

    A client answers by the update or signal `provide_clarification`: `{"id", "answer": text or values by
    field, "by"}`, or `{"id", "declined": true}`.
    """

    kind: ClassVar[KindName] = "question"
    """The kind of wait."""
    is_for_people: ClassVar[bool] = True
    """Whether a person answers."""
    answer_path: ClassVar[str] = "answers"
    """The last part of the path at which the HTTP service takes an answer."""
    metric_name: ClassVar[str] = "clarification"
    """The name of the kind in metrics."""
    noun: ClassVar[str] = "a question"
    """The kind in words, with its article."""
    id: str = ""
    """Unique in the run; changed when another wait has the id, and derived when left out."""
    question: str
    """The question."""
    missing_fields: list[str] = []
    """Fields of `restrict_to_tool` that the answer should give: a name, or a JSON pointer for a nested field."""
    restrict_to_tool: str | None = None
    """The tool whose call the answer repairs."""
    example_input: dict[str, Any] | None = None
    """A payload that the tool would take."""
    clarifying_prompt: str | None = None
    """More detail for the person."""
    expires_after: Expiry | None = None
    """How long to wait before the planner learns that no answer came. None waits without limit."""
    form: dict[str, Any] | None = None
    """JSON Schema that an answer by field has to fit; filled in from `restrict_to_tool`."""
    closed: bool = False
    """Whether an answer by field may have no other fields; filled in from `form` and `missing_fields`."""
    checks_in_full: bool = False
    """Whether an answer by field is also checked for patterns, formats and nested values; filled in with `form`.

    False for a question of an older version and for a form that a planner gave.
    """
    tool_call_id: str | None = None
    """In a tool's question: the call that needs input, and gets the answer. In a planner's question: the call of
    `PlanResult.message` with which the model asks. The answer is that call's result.
    """
    server: str | None = None
    """The toolset that asks, if a tool does."""
    sign_in: SignInRequest | None = None
    """The sign-in that the call needs. The HTTP service answers once it is done; an answer by hand makes the run look again."""

    @property
    def summary(self) -> str:
        """What the wait asks for, in a sentence."""
        return self.question

    @property
    def tools(self) -> list[str]:
        """The tools that the wait is about."""
        return [self.restrict_to_tool] if self.restrict_to_tool else []


class AwaitConfirmation(Record):
    """A question to a person whether a call may run.

    A client answers by the update or signal `provide_confirmation`: `{"id", "approved", "payload_digest",
    "by", "reason", "scope", "principal", "arguments"}`; the scope `tool` stops the asking about this tool, as long as `stop_asking` says,
    `sources` says that the sources in `taint` no longer count, if `lifts_taint`, and `arguments` of an approval replace those of the
    call, if `allows_edits`.
    """

    kind: ClassVar[KindName] = "approval"
    """The kind of wait."""
    is_for_people: ClassVar[bool] = True
    """Whether a person answers."""
    answer_path: ClassVar[str] = "approvals"
    """The last part of the path at which the HTTP service takes an answer."""
    metric_name: ClassVar[str] = "confirmation"
    """The name of the kind in metrics."""
    noun: ClassVar[str] = "an approval"
    """The kind in words, with its article."""
    id: str
    """Unique in the run."""
    tool_call_id: str
    """The call that waits for the decision."""
    tool: str
    """The tool's id."""
    tags: list[str] = []
    """The tool's tags."""
    title: str = ""
    """The tool's title."""
    prompt: str = ""
    """One sentence for the person: what the call does when approved."""
    payload: dict[str, Any] = {}
    """The arguments of the call, without injected fields."""
    masked: dict[str, Any] | None = None
    """The arguments with the values masked that the tool's schema marks as secret, for notices. None if there are none."""
    payload_digest: str = ""
    """SHA-256 of the arguments, so that the approved call is the call that runs."""
    binds: bool = False
    """Whether a decision by signal has to give `payload_digest`; a decision by update always has to."""
    strict: bool = False
    """Whether a decision by signal that has a further field is refused; one by update always is."""
    spec_digest: str = ""
    """SHA-256 of the tool's whole declaration, for workers of versions that know no `shown`."""
    shown: ShownTool | None = None
    """The parts of the tool that the decision covers. If the tool differs from them, the call does not run."""
    changes: list[str] = []
    """The changes of the tool since its last display, if they are the reason for this further request."""
    outcome_unknown: bool = False
    """Whether the call repeats one that may have taken effect."""
    other_call: str = ""
    """In a fork: that the origin carried out this call, or may have, with other arguments; `prompt` begins with it."""
    expires_after: Expiry | None = None
    """How long to wait before the call is denied; None waits without limit."""
    approvers: list[str] = []
    """Roles of the approvers, who need one of them, by the tool or a rule. Empty means `approver`."""
    narrowed_to: list[list[str]] = []
    """Further lists of roles, by rules. An approver needs one role of each list too."""
    approver_check: str = ""
    """The name of the function that judges who may decide, if the tool has one instead of roles."""
    by_rules: bool = False
    """Whether the rules of the run's policy count in a further request for the call. An older worker did not know them."""
    four_eyes: bool = False
    """Whether `asked_by` and `also_asked_by` may not approve the call; denying it is allowed."""
    asked_by: Principal | None = None
    """The principal for whom the call is made, without roles, or None if the program that started the run named none."""
    also_asked_by: list[Principal] = []
    """Who has asked for the call beside `asked_by`, without roles: senders of other messages of the turn, and askers in the
    origin of a fork. With `four_eyes` they may not approve it either.
    """
    one_tenant: bool = False
    """Whether a decision by a principal of another tenant than that of `asked_by` is refused."""
    role_denies: bool = False
    """Whether a principal with the role `approver` may deny a call with an `approver_check`, without being judged."""
    attachments: list[AttachmentRecord] = []
    """The files that the arguments name; an id stands for their content, so that a decision covers it."""
    approvals_needed: int = 1
    """How many principals have to approve the call. Each counts once, and one denial denies it."""
    steps: list[str] = []
    """The roles that approve in this order: the next approver needs the role of the next step. Empty means any order."""
    given: list[GivenApproval] = []
    """The approvals so far, if several are needed. An edit begins the count anew, with that of its approver."""
    edit: CallEdit | None = None
    """The edit of an approver, if further approvals are needed. `payload`, `payload_digest` and `prompt` are those of the edited call."""
    in_doubt: list[str] = []
    """Digests of arguments with which a call of the tool may have taken effect. No edit makes this call one of them, unseen."""
    escalate_after: Expiry | None = None
    """How long the wait is open until it escalates; None means never."""
    escalate_to: list[str] = []
    """Roles that may decide too, once it has escalated. Empty only announces it again."""
    escalated: bool = False
    """Whether it has escalated."""
    allows_edits: bool = False
    """Whether an approval may have other arguments, with which the call then runs."""
    stop_asking: str = "run"
    """How long an approval with the scope `tool` counts: `turn`, `run`, or `never`, which refuses that scope."""
    taint: Taint | None = None
    """The text from outside that the run had read before the call was planned, or None if it makes no difference."""
    lifts_taint: bool = False
    """Whether an approval may have the scope `sources`: the sources in `taint` then no longer count in this run."""
    on_message: str = "wait"
    """What becomes of a message of the user in a conversation: it waits (`wait`), is answered at once (`answer`), or denies the call (`deny`)."""

    @property
    def summary(self) -> str:
        """What the wait asks for, in a sentence."""
        return self.prompt or self.title or self.tool

    @property
    def tools(self) -> list[str]:
        """The tools that the wait is about."""
        return [self.tool]

    def edited(self, edit: CallEdit) -> "AwaitConfirmation":
        """Return this wait about the edited call, which repeats no other call."""
        named = json.dumps(edit.arguments)
        call: dict[str, Any] = {
            "payload": edit.arguments,
            "masked": edit.masked,
            "payload_digest": edit.digest,
            "prompt": edit.prompt,
            "attachments": [file for file in self.attachments if file.id in named],
        }
        return self.model_copy(update={**call, "edit": edit, "outcome_unknown": False, "other_call": ""})


class ExternalCall(Input):
    """A call that a program outside the run executes."""

    tool_call_id: str = ""
    """Unique in the run; derived when left out."""
    tool: str
    """The tool's id."""
    payload: dict[str, Any] = {}
    """The arguments."""


class AwaitExternalTools(Input):
    """Calls that a program outside the run executes; the run waits for their results.

    A client answers by the update or signal `provide_tool_results`: `{"id", "results": [{"tool_call_id",
    "result" or "error", "retry_hint"}], "by"}`; the results may come in several parts.
    """

    kind: ClassVar[KindName] = "tool_results"
    """The kind of wait."""
    is_for_people: ClassVar[bool] = False
    """Whether a person answers."""
    answer_path: ClassVar[str] = "tool-results"
    """The last part of the path at which the HTTP service takes an answer."""
    metric_name: ClassVar[str] = "external_tools"
    """The name of the kind in metrics."""
    noun: ClassVar[str] = "results from outside"
    """The kind in words, with its article."""
    id: str = ""
    """Unique in the run; derived when left out."""
    items: list[ExternalCall]
    """The calls."""
    expires_after: Expiry | None = None
    """How long to wait before missing results are answered as `timeout`; None waits without limit."""

    @property
    def summary(self) -> str:
        """What the wait asks for, in a sentence."""
        tools = self.tools
        named = ", ".join(tools[:_MAX_NAMED]) + (" ..." if len(tools) > _MAX_NAMED else "")
        return f"{len(self.items)} results of {named}" if len(self.items) > 1 else f"Result of {named}"

    @property
    def tools(self) -> list[str]:
        """The tools that the wait is about."""
        return list(dict.fromkeys(item.tool for item in self.items))


_MAX_NAMED = 3
"""Most tools that a summary names."""

Await = AwaitClarification | AwaitConfirmation | AwaitExternalTools
"""Any wait. `question`, `tool_call_id` and `items` tell the kinds apart."""

PlannerQuestion: TypeAlias = AwaitClarification
"""A wait for one answer that the planner reads. A kind that is added joins here with `|`."""

PlannerWait = PlannerQuestion | AwaitExternalTools
"""A wait that a planner may ask for."""


def record_of(kind: str) -> type[Await] | None:
    """Return the record of a kind of wait, or None for one of a newer version."""
    return next((each for each in get_args(Await) if each.kind == kind), None)


def escalates_at(wait: Await, since: datetime | None) -> datetime | None:
    """Return when an open wait escalates or has escalated, or None if it does not."""
    after = wait.escalate_after if isinstance(wait, AwaitConfirmation) else None
    return since + after if since and after else None


def expires_at(wait: Await, since: datetime | None) -> datetime | None:
    """Return when an open wait expires, or None if it does not."""
    return since + wait.expires_after if since and wait.expires_after else None
