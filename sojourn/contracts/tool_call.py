"""A tool call, with its arguments, its run and turn, and the input it needs."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field, PrivateAttr

from sojourn.contracts.attachment import Attachment, AttachmentStore, FileContent
from sojourn.contracts.memory import SessionMemory
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Record
from sojourn.contracts.taint import Taint

__all__ = [
    "Approval",
    "ArgumentReading",
    "CallEdit",
    "GivenApproval",
    "InputForm",
    "InputRequired",
    "SignInRequest",
    "ToolCallMeta",
    "ToolInput",
    "ToolRequest",
]


class ArgumentReading(Record):
    """One reading of arguments before they were validated; the meaning is what the model wrote."""

    kind: str
    """`absent` (nothing, blanks or `null` in place of an object), `code_fence`, `trailing_comma`, `json_text` (JSON in a
    string), `left_out` (an optional field with `null` or a blank that its schema refuses, unless that may mean null), `whole_number` (`10.0` for
    an integer), `exact_number` (a fraction with more digits than a float holds, read as its text), `default` (a required field whose schema has a default); an open set.
    """
    field: str = ""
    """JSON pointer to the field; empty for the arguments themselves."""

    @property
    def text(self) -> str:
        """Text for people, such as `/country left out (null or blank)`."""
        return f"{self.field or 'the arguments'} {_TEXTS.get(self.kind, self.kind)}"


_TEXTS = {
    "absent": "absent, read as {}",
    "code_fence": "in a code fence",
    "default": "filled with the default of the schema",
    "exact_number": "read as a text with all its digits",
    "json_text": "decoded from a text",
    "left_out": "left out (null or blank)",
    "trailing_comma": "with a trailing comma",
    "whole_number": "read as an integer",
}


class SignInRequest(Record):
    """A sign-in of the principal for whom a call acts, at the server of a toolset."""

    toolset: str
    """The toolset."""
    title: str
    """The server's name for people."""
    host: str
    """The server's host, to check before signing in."""
    scopes: list[str] = []
    """What the server is to be asked for; empty if its metadata says so."""
    principal: Principal
    """The only one who can sign in, without roles."""
    resource_metadata: str | None = None
    """Where the server says that its metadata is."""
    url: str = ""
    """The page at which to sign in; empty if there is none."""


class InputForm(Record):
    """One form for a person to fill in."""

    key: str
    """The name of the request, as the tool gave it."""
    message: str
    """The purpose of the form."""
    form: dict[str, Any] = {}
    """JSON Schema of the answer: a flat object."""
    sign_in: SignInRequest | None = None
    """The sign-in that the call needs, in place of values."""


class InputRequired(Record):
    """A call that stopped half-way: the forms to fill in, and the state that the tool wants back with the answers."""

    server: str = ""
    """The toolset that asks, filled in by the activity."""
    forms: list[InputForm]
    """The forms to fill in."""
    responses: dict[str, dict[str, Any]] = {}
    """Answers given without asking the person: requests that are always declined."""
    request_state: str | None = None
    """The tool's own state, sent back unchanged."""
    outcome_unknown: bool = False
    """Whether an earlier attempt of the call may have taken effect; filled in by the activity."""


class ToolInput(Record):
    """The answers to an `InputRequired`, with which the call continues."""

    responses: dict[str, dict[str, Any]]
    """By the name of the request: `{"action": "accept", "content": {...}}`, `decline` or `cancel`."""
    request_state: str | None = None
    """The state of the `InputRequired`, unchanged."""


MAX_WRITTEN = 8_000


class ToolRequest(Record):
    """A tool call, as a planner requests it and as an executor receives it."""

    name: str
    """The tool's id; kept even when no such tool exists."""
    payload: dict[str, Any] = {}
    """The arguments, a JSON object; empty in a recorded call that has them in `raw`."""
    raw: str | None = None
    """The arguments exactly as the model wrote them; when set, the boundary parses them."""
    tool_call_id: str = ""
    """Unique in the run; a planner may leave it out."""
    readings: list[ArgumentReading] = []
    """How the arguments were read, if they had another form. Then `payload` has the arguments as read, and `raw` is None."""
    written: str | None = None
    """The arguments before they were read, as JSON text; None without readings, or beyond 8,000 characters."""

    _parsed: bool = PrivateAttr(default=False)

    @property
    def is_parsed(self) -> bool:
        """Whether `payload` has the arguments, and not only `raw`.

        This is always so in what engines, interceptors and executors get.
        """
        return self.raw is None or self._parsed

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, a JSON object, whether code or a model planned the call.

        Raises:
            ValueError: Only the text that a model wrote is here, and it is not parsed, as in a recorded call.
        """
        if not self.is_parsed:
            raise ValueError(
                f"the arguments of this call of {self.name} are not parsed; their text is in raw"
            )
        return self.payload

    def with_arguments(self, arguments: dict[str, Any]) -> "ToolRequest":
        """Return this call with its arguments parsed. `raw` stays as the model wrote it."""
        parsed = self.model_copy(update={"payload": arguments})
        parsed._parsed = self.raw is not None  # noqa: SLF001 - of this class
        return parsed

    def edited(self, arguments: dict[str, Any]) -> "ToolRequest":
        """Return this call as it runs with the arguments of an approver."""
        changes: dict[str, Any] = {"payload": arguments, "raw": None, "readings": [], "written": None}
        return self.model_copy(update=changes)

    def read_as(self, arguments: dict[str, Any], readings: Sequence[ArgumentReading]) -> "ToolRequest":
        """Return this call with its arguments as they were read.

        The run decides, executes and records the call with these arguments.
        """
        written = self.written if self.readings else self.raw
        if written is None and not self.readings:
            written = json.dumps(self.payload, ensure_ascii=False)
        changes = {
            "payload": arguments,
            "raw": None,
            "readings": [*self.readings, *readings],
            "written": None if written is None or len(written) > MAX_WRITTEN else written,
        }
        return self.model_copy(update=changes)


class CallEdit(Record):
    """The arguments with which an approver replaced those of a call."""

    arguments: dict[str, Any]
    """All arguments of the call, as it runs."""
    digest: str
    """SHA-256 of the arguments, as the `payload_digest` of a wait."""
    prompt: str = ""
    """The question to a further approver, about these arguments."""
    masked: dict[str, Any] | None = None
    """The arguments with their secret values masked, for planners; None if there are none."""

    @property
    def for_planner(self) -> dict[str, Any]:
        return self.arguments if self.masked is None else self.masked


class GivenApproval(Record):
    """One of several approvals of a call."""

    principal: Principal
    """Who approved, without roles."""
    by: str | None = None
    """The name in the approval."""
    reason: str = ""
    """The reason."""
    answer: str = ""
    """The digest of the approval as it was sent, to recognize a repetition."""

    @property
    def name(self) -> str:
        """The name to show."""
        return self.by or self.principal.subject


class Approval(Record):
    """Who approved a call."""

    await_id: str
    """The wait with the decision. Empty for a call under a release."""
    by: str | None = None
    """The name in the decision, which proves nothing by itself."""
    subject: str | None = None
    """The principal who decided, as the HTTP service or another program had authenticated it, or None."""
    tenant: str = ""
    """The tenant of `subject`."""
    at: datetime | None = None
    """When."""
    digest: str = ""
    """The digest of the approved arguments. Empty for a call under a release."""
    edited: bool = False
    """Whether the approver edited the arguments."""
    reason: str = ""
    """The reason."""
    scope: str = "call"
    """`call`, `tool` if an approver released the tool, or `sources` if the approver lifted the taint."""
    given: list[GivenApproval] = []
    """All approvals in order, if the call needed several; the last one is that of `subject`."""


class ToolCallMeta(Record):
    """Where a call belongs, passed to every executor explicitly (SR-62 to SR-70)."""

    run_id: str
    """The durable run that owns the call; equal on every attempt (SR-63)."""
    session_id: str = ""
    """Groups the runs of a conversation (SR-64)."""
    turn_id: str = ""
    """The conversation turn that produced the call (SR-65)."""
    tool_call_id: str = ""
    """Unique per invocation, equal on every attempt (SR-66)."""
    parent_tool_call_id: str | None = None
    """In a child run: the parent's call that started the run (SR-67)."""
    agent_id: str = ""
    """The agent that requested the call."""
    attempt: int = 1
    """1 for the first attempt; more after a lost worker or a transient failure."""
    labels: dict[str, str] = {}
    """The run's labels; they authorise nothing."""
    principal: Principal | None = None
    """For whom the call is made, as a program had found out: who sent the message of its turn, else who asked for the run; of a child run, for whom
    its parent called it.
    """
    idempotency_key: str = ""
    """Names the effect, so that a service can refuse a repetition: equal on every attempt, and in each later call that repeats an effect
    whose outcome is unknown, or that was not carried out. A hash of run id, tool_call_id and payload; a fork has its origin's run id.
    """
    approval: Approval | None = None
    """Who approved the call, or None if it needed no approval."""
    input: ToolInput | None = None
    """A person's answers, if the call asked for input (`ToolResult.input_required`) and continues with them."""
    tainted: bool = False
    """Whether the run had read text from outside when the call began, so that the tool can be stricter."""
    taint: Taint | None = None
    """What the run had read from outside, also if a person lifted it. A tool that starts a run passes it on: `client.start(..., taint=meta.taint)`."""

    known_attachments: list[Any] | None = Field(default=None, repr=False)
    """The files of the conversation, for a tool that takes attachments; read them as `attachments`."""
    known_store: Any = Field(default=None, repr=False)
    """Stores the files that the call makes; use `attach`."""
    known_memory: SessionMemory | None = Field(default=None, repr=False)
    """The memory of the run, for a tool that is declared with `memory=True`; read it as `memory`."""

    @property
    def attachments(self) -> list[Attachment]:
        """The newest files of the run or conversation, oldest first.

        Raises:
            TypeError: The tool has no parameter of type `Attachment`, and is not declared with `attachments=True`.
        """
        if self.known_attachments is None:
            raise TypeError("this tool reads meta.attachments; declare it with attachments=True")
        return self.known_attachments

    async def attach(self, name: str, media_type: str, content: FileContent) -> Attachment:
        """Store a file that the call makes, and return it.

        It becomes an artifact of the call's result. People download it, models see it as they see the files of messages, and later
        calls get it by its id.

        Args:
            name: The file's name, without a path.
            media_type: The MIME type; if empty, the one that the name suggests.
            content: The bytes, the path of a file of this machine, or pieces of it. A file that comes in pieces is never whole in memory.

        Raises:
            InvalidInput: The file is too large or cannot be read, or there is no external storage.
            TypeError: The meta is not that of a call on a worker.
        """
        return await self._store.attach(name, media_type, content)

    def attach_blocking(self, name: str, media_type: str, content: FileContent) -> Attachment:
        """Store a file as `attach` does, in a tool that is no coroutine."""
        return self._store.attach_blocking(name, media_type, content)

    @property
    def _store(self) -> AttachmentStore:
        if self.known_store is None:
            raise TypeError("a tool attaches files while a worker executes its call")
        return self.known_store

    @property
    def memory(self) -> SessionMemory:
        """Read-only memory of the run when the step began, besides its transcript.

        Raises:
            TypeError: The tool is not declared with `memory=True`.
        """
        if self.known_memory is None:
            raise TypeError("this tool reads meta.memory; declare it with memory=True")
        return self.known_memory

    @staticmethod
    def key_of(run_id: str, call: ToolRequest) -> str:
        """Return the idempotency key of a call: 32 hex digits."""
        canonical = json.dumps(call.payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(f"{run_id}\n{call.tool_call_id}\n{canonical}".encode()).hexdigest()[:32]
