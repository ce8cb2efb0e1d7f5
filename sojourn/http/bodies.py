"""Request bodies, validated strictly.

No body names a person, since the principal of the request acts.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from sojourn.answers import Answer, Decision, Declined, Results
from sojourn.client.bulk import BulkAction
from sojourn.contracts.attachment import MAX_ATTACHMENTS
from sojourn.contracts.awaits import ApprovalScope
from sojourn.contracts.message import USER_PARTS, Message, Part
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.http.problems import NOT_JSON
from sojourn.values.json_fault import json_fault

__all__ = [
    "NO_CHANGE",
    "NO_NOTE",
    "NO_REASON",
    "PRESENT_TURN",
    "ActionsBody",
    "AnswerBody",
    "ApprovalBody",
    "DecisionsBody",
    "EditBody",
    "ForkBody",
    "Id",
    "InterruptBody",
    "JsonBody",
    "MessageBody",
    "ReasonBody",
    "ResumeBody",
    "SessionBody",
    "SetAsideBody",
    "StartBody",
    "SwitchBody",
    "ToolResultsBody",
    "WithdrawBody",
]

Id = Annotated[str, Field(min_length=1, max_length=200)]
"""Id that a client chooses or names: of a message, a turn, a session, or a request."""

Name = Annotated[str, Field(max_length=200)]
Reason = Annotated[str, Field(max_length=10_000)]
MAX_PARTS = 200
"""Most parts of one message."""

Labels = Annotated[dict[str, str], Field(max_length=64)]


class JsonBody(BaseModel):
    """A JSON object that a run can hold.

    It has no NaN, no lone surrogate, and a bounded depth.
    """

    model_config = ConfigDict(use_attribute_docstrings=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _is_json(cls, value: Any) -> Any:
        if isinstance(value, bytes):
            raise PydanticCustomError(NOT_JSON, "it was not sent as `Content-Type: application/json`")
        if fault := json_fault(value, max_bytes=None):
            raise ValueError(fault.message)
        return value


class _RequestBody(JsonBody):
    model_config = ConfigDict(extra="forbid")


Attachments = Annotated[list[Annotated[str, Field(max_length=4_000)]], Field(max_length=MAX_ATTACHMENTS)]


def _check_parts(name: str, parts: Sequence[Part]) -> None:
    """Refuse parts that no user can send, such as calls and reasoning."""
    other = next((part.type for part in parts if not isinstance(part, USER_PARTS)), None)
    if other is not None:
        raise ValueError(f"{name}: a message has texts, images and documents, and no {other}")
    if any(getattr(part, "attachment", None) is not None for part in parts):
        raise ValueError(f"{name}: a stored file is named by its reference in `attachments`")
    if any(part.provider_metadata is not None for part in parts):
        raise ValueError(f"{name}: only a model's provider may set provider_metadata")


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class StartBody(_RequestBody):
    """A run to start."""

    model_config = _example(agent_id="shop.clerk", input="Where is order 7?", labels={"desk": "3"})

    agent_id: Annotated[str, Field(max_length=200)]
    """The agent."""
    input: str | Message | Annotated[list[Message], Field(min_length=1, max_length=1_000)]
    """A text of the user, a message, or the whole opening: messages of the user and the assistant."""
    attachments: Attachments = []
    """The `reference`s of uploads (`POST /v1/attachments`) that join the last message."""
    run_id: Name | None = None
    """Letters, digits and `_.:@=+-`, at most 200; made when left out. `Idempotency-Key` is another way to give it."""
    session_id: Name = ""
    """Groups the runs of a conversation that a program keeps by itself."""
    labels: Labels = {}
    """Labels for planners, tools and listings; they authorise nothing."""
    policy: RunPolicyOverride | None = None
    """Limits of this run. A value applies only if it is tighter than the agent's."""
    priority: Annotated[int, Field(ge=1, le=5)] | None = None
    """Its place among work that waits for a worker, from 1, the first, to 5; 3 when left out, and at most that for a principal of a tenant."""

    @model_validator(mode="after")
    def _has_roles_of_a_conversation(self) -> "StartBody":
        messages = self.opening
        for message in [] if isinstance(messages, str) else messages:
            if message.role not in ("user", "assistant"):
                raise ValueError("input: the role of a message is user or assistant")
            if len(message.parts) > MAX_PARTS:
                raise ValueError(f"input: a message has at most {MAX_PARTS} parts")
            _check_parts("input", message.parts)
        return self

    @property
    def opening(self) -> str | list[Message]:
        return [self.input] if isinstance(self.input, Message) else self.input


class AnswerBody(_RequestBody):
    """An answer to a question, or its refusal."""

    model_config = _example(await_id="ask-1", answer="yes, please")

    await_id: Name
    """The wait. An empty id means the only open wait of the run."""
    answer: str | dict[str, Any] | None = None
    """A text, or values by field."""
    declined: StrictBool = False
    """Whether the question is declined; then there is no answer."""
    reason: Reason = ""
    """Why it is declined."""

    @model_validator(mode="after")
    def _is_one(self) -> "AnswerBody":
        if (self.answer is None) != self.declined:
            raise ValueError("give either answer, or declined: true")
        return self

    @property
    def submission(self) -> Answer | Declined:
        return Declined(self.reason) if self.answer is None else Answer(self.answer)


class ApprovalBody(_RequestBody):
    """A decision on a call."""

    model_config = _example(await_id="confirm-call_1", approved=True, digest="3f1c…", scope="call")

    await_id: Name
    """The wait. An empty id means the only open wait of the run."""
    approved: StrictBool
    """Whether the call may run."""
    digest: Name | None = None
    """The digest of the call that the person has seen; an approval needs it."""
    reason: Reason = ""
    """The reason, recorded."""
    scope: ApprovalScope = "call"
    """`call`; or with an approval `tool`: do not ask about this tool again, as long as `stop_asking` of the wait says; or `sources`: those
    of the wait's `taint` no longer count in this run, if it `lifts_taint`.
    """
    arguments: dict[str, Any] | None = None
    """With an approval of a wait that `allows_edits`: all arguments of the call, edited. The call runs with these."""

    @model_validator(mode="after")
    def _is_bound(self) -> "ApprovalBody":
        if self.approved and not self.digest:
            raise ValueError("an approval needs the `digest` of the call that was seen, as the wait has it")
        if self.scope != "call" and not self.approved:
            raise ValueError(f"scope: {self.scope} goes with an approval")
        if self.arguments is not None and (not self.approved or self.scope != "call"):
            raise ValueError("arguments go with the approval of one call")
        return self

    @property
    def submission(self) -> Decision:
        return Decision(self.approved, self.digest, self.reason, self.scope, self.arguments)


class DecisionBody(ApprovalBody):
    """A decision on a call of any run."""

    model_config = _example(run_id="clerk-3f1c", await_id="confirm-call_1", approved=True, digest="3f1c…")

    run_id: Annotated[str, Field(min_length=1, max_length=1_000)]
    """The run that waits."""


class DecisionsBody(_RequestBody):
    """Decisions on several calls, each by itself."""

    model_config = _example(
        decisions=[
            {"run_id": "clerk-3f1c", "await_id": "confirm-call_1", "approved": True, "digest": "3f1c…"}
        ]
    )

    decisions: Annotated[list[DecisionBody], Field(min_length=1, max_length=100)]
    """The decisions, no two of them about the same call."""


class ToolResultsBody(_RequestBody):
    """Results of calls that a program outside the run has executed."""

    model_config = _example(
        await_id="external-1", results=[{"tool_call_id": "call_1", "result": {"paid": True}}]
    )

    await_id: Name
    """The wait. An empty id means the only open wait of the run."""
    results: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1_000)]
    """For each call `tool_call_id` and `result`, or `error` (a text, or an object with `message` and `code`), and perhaps `retry_hint`."""

    @property
    def submission(self) -> Results:
        return Results(self.results)


class ReasonBody(_RequestBody):
    """Why."""

    model_config = _example(reason="the stock is being counted")

    reason: Reason = ""
    """The reason, recorded."""


NO_REASON = ReasonBody()


class ActionsBody(ReasonBody):
    """An action on several runs, on each by itself."""

    model_config = _example(action="cancel", run_ids=["clerk-3f1c", "clerk-9ab2"], reason="wrong prompt")

    action: BulkAction
    """What to do with each: `cancel`; `retry`, which continues a run that ended without an answer in a new one; `retry_now`, which ends the backoff of an open one."""
    run_ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(min_length=1, max_length=100)
    ]
    """The runs."""


class SetAsideBody(ReasonBody):
    """Which message or result planners no longer read, and why."""

    model_config = _example(what="call_7", reason="spoils every answer")

    what: Annotated[int, Field(strict=True, ge=0, lt=1_000_000_000)] | Id
    """The number of a message in the transcript, from 0 on; the id of a call, for its result; or the id of a message that was sent."""


class WithdrawBody(_RequestBody):
    """The message to withdraw."""

    model_config = _example(message_id="m-7")

    message_id: Id
    """The id of a message that waits for its turn."""


class InterruptBody(ReasonBody):
    """Which turn ends, and why."""

    turn_id: Id | None = None
    """The turn that is meant, as events and the status have it: where another one is under way, the answer is 409. Whichever is, when left out."""


PRESENT_TURN = InterruptBody()


class ResumeBody(_RequestBody):
    """How a paused run goes on."""

    model_config = _example(note="counted", messages=["There are 7."])

    note: Reason = ""
    """A note, recorded."""
    messages: Annotated[list[str], Field(max_length=100)] = []
    """Messages to the planner, which begin a new user turn."""


NO_NOTE = ResumeBody()


class ForkBody(_RequestBody):
    """The start of a fork: a point of the run, and at most one change."""

    model_config = _example(at="0-000012-00000", message="Only look at order 9")

    at: Id | None = None
    """An event_id of the run; its last event when left out."""
    message: str | None = None
    """A user message, which begins a new user turn."""
    result: Any = None
    """A result in place of the one that the call of `at` had."""
    answer: str | dict[str, Any] | None = None
    """Another answer to the question at `at`."""
    approve: bool | None = None
    """Another decision on the call at `at`; a call that the origin may have carried out is not approved so, and the fork asks about it."""
    arguments: dict[str, Any] | None = None
    """Other arguments of the call at `at`. The new run checks the call again, and waits for an approver if a planner's call would."""
    run_id: Name | None = None
    """The id of the fork; made when left out."""


NO_CHANGE = ForkBody()


class MessageBody(_RequestBody):
    """A message to a conversation."""

    model_config = _example(message_id="m-1", text="Where is order 7?", mode="queue")

    message_id: Id | None = None
    """The sender's id of the message. A message that is sent again with it is delivered once. Generated if left out."""
    text: str | None = None
    """The text."""
    parts: Annotated[list[Part], Field(min_length=1, max_length=MAX_PARTS)] | None = None
    """In place of the text: texts, images and documents."""
    attachments: Attachments = []
    """The `reference`s of uploads (`POST /v1/attachments`) that join the message, which may have nothing else."""
    mode: Literal["queue", "steer", "interrupt"] = "queue"
    """`queue` opens a turn of its own; `steer` joins the present one; `interrupt` ends the present one first."""

    @model_validator(mode="after")
    def _is_one(self) -> "MessageBody":
        given = (self.text is not None) + (self.parts is not None)
        if given == 2 or not (given or self.attachments):
            raise ValueError("give either text or parts")
        _check_parts("parts", self.parts or [])
        return self

    @property
    def message(self) -> str | Message:
        return self.text if self.text is not None else Message(role="user", parts=self.parts or [])


class EditBody(_RequestBody):
    """Other words for a message that has opened a turn; without any, the same words are answered again."""

    model_config = _example(message_id="m-1", text="Where is order 9?")

    message_id: Id
    """The message, in the present branch of the conversation."""
    text: str | None = None
    """Its new text."""
    parts: Annotated[list[Part], Field(min_length=1, max_length=MAX_PARTS)] | None = None
    """In place of the text: texts, images and documents."""
    attachments: Attachments = []
    """As for a message."""
    branches: Annotated[int, Field(ge=0)] | None = None
    """`branches` of the conversation's alternatives, as the client has seen it. If it differs, nothing changes (409)."""

    @model_validator(mode="after")
    def _is_one(self) -> "EditBody":
        if self.text is not None and self.parts is not None:
            raise ValueError("give either text or parts")
        _check_parts("parts", self.parts or [])
        return self

    @property
    def message(self) -> str | Message | None:
        if self.text is not None:
            return self.text
        is_new = self.parts is not None or self.attachments
        return Message(role="user", parts=self.parts or []) if is_new else None


class SwitchBody(_RequestBody):
    """The branch to go on in."""

    model_config = _example(at="0-000023-00001")

    at: Annotated[str, Field(max_length=100)]
    """`at` of a turn of the conversation's alternatives."""


class SessionBody(MessageBody):
    """The first message of a conversation, with what holds for all of it; of one that has begun it is a message like any other."""

    model_config = _example(text="Where is order 7?", labels={"desk": "3"})

    labels: Labels = {}
    """Labels of the conversation, if the message starts it."""
    policy: RunPolicyOverride | None = None
    """Limits of each turn, and with `session` of the whole conversation, if the message starts it."""
