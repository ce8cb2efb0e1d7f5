"""One description of an open wait for every reader.

It is also the JSON shape that the API and the commands print. A face renders a `WaitView`, and
reads no `Await`. Texts are as the planner, the tool or the model wrote them: a face that prints
them makes them harmless first.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from sojourn.contracts.attachment import PICTURE_TYPES, attachment_path, file_name, media_type_of
from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
    KindName,
    escalates_at,
    expires_at,
)
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunStatus
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_call import SignInRequest
from sojourn.contracts.tool_spec import Annotations
from sojourn.core.awaits.clarification import wanted_fields
from sojourn.core.awaits.confirmation import describe_changes, role_options
from sojourn.core.awaits.deciding import (
    describe_deciders,
    describe_progress,
    is_restricted,
    may_decide,
    needed_roles,
    roles_of,
)
from sojourn.core.awaits.disclosure import (
    Disclosure,
    describe_file,
    describe_taint,
    disclose,
    disclose_changes,
)
from sojourn.core.awaits.envelope import write_json
from sojourn.core.awaits.kinds import KINDS
from sojourn.core.run.approval import APPROVE
from sojourn.values.numbers import is_exact
from sojourn.values.visible import format_duration, visible

__all__ = [
    "Asker",
    "AttachmentView",
    "Disclosure",
    "StatusView",
    "WaitContext",
    "WaitRef",
    "WaitView",
    "context_of",
    "describe_taint",
    "disclose",
    "disclose_changes",
    "open_waits",
    "status_view",
    "wait_view",
]

_DIGEST = 64
"""Characters of the digest of a call's arguments, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class WaitRef:
    """A wait as displayed. An answer to one that has changed fits no open wait."""

    run_id: str
    """The run that waits: the one that a client follows, or a child run of it."""
    await_id: str
    """The wait."""
    digest: str = ""
    """For an approval, the digest of the displayed arguments."""
    call_id: str = ""
    """For a wait for results, the id of the call."""

    def token(self, root: str) -> str:
        """Return the id of the wait for a client that follows the run `root`.

        It is unique among the waits of that run and of its child runs.

        `confirm-c1@/c0#DIGEST` is the approval `confirm-c1` of the child run that answers the call `c0`. Only for an id with
        `@/` does the token name the run `root` too, by an empty path.
        """
        below = self.run_id.removeprefix(root) or ("/" if "@/" in self.await_id else "")
        of = f"{self.await_id}@{below}" if below else self.await_id
        bound = self.digest or self.call_id
        return f"{of}#{bound}" if bound else of

    @property
    def code(self) -> str:
        """A short code that names the call as displayed, for a person to type.

        It has twelve characters, and is empty if the wait has no digest.
        """
        if not self.digest:
            return ""
        bound = json.dumps([self.run_id, self.await_id, self.digest])
        return hashlib.sha256(bound.encode()).hexdigest()[:12]

    @classmethod
    def parse(cls, token: str, root: str) -> "WaitRef":
        """Read a token of a client that follows the run `root`.

        The run is certain. Ids of waits and of calls may have the token's own marks, so an answer to an open wait is
        matched by comparing tokens, not by what is parsed here.
        """
        await_id, mark, below = token.rpartition("@/")
        if mark:
            path, _, bound = below.partition("#")
            return cls(f"{root}/{path}" if path else root, await_id, *_cut(bound))
        await_id, mark, bound = token.rpartition("#")
        if not mark or bound.isdigit():  # `question#2` is the second wait with that name
            return cls(root, token)
        return cls(root, await_id, *_cut(bound))


def _cut(text: str) -> tuple[str, str]:
    is_digest = len(text) == _DIGEST and set(text) <= set("0123456789abcdef")
    return (text, "") if is_digest else ("", text)


MAX_TEXT = 2_000
"""Longest text of a wait's context, in characters."""

_AWAITED = ("requested", "running", "waiting")
"""States of an external call whose result is missing."""


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class WaitContext(_Shape):
    """Facts that a person needs to answer."""

    asked: str = ""
    """The last message of the user, at most 2,000 characters."""
    said: str = ""
    """The last text of the planner, at most 2,000 characters."""
    started_at: datetime | None = None
    """When the run started."""
    paused: str | None = None
    """The reason of a pause; null while the run is not paused."""


class Asker(_Shape):
    """A principal that asked for a call."""

    subject: str
    """The subject, unique within the tenant."""
    tenant: str = ""
    """The tenant."""


class AttachmentView(_Shape):
    """A file that the arguments of a call to approve name by its id."""

    id: str
    """The id in the arguments. It stands for the content, so the digest of the arguments covers the file."""
    name: str
    """The file's name, which its sender chose."""
    media_type: str
    """The MIME type, as its sender stated it."""
    size: int
    """Size in bytes."""
    path: str
    """The path of its content in the HTTP service."""

    @property
    def is_picture(self) -> bool:
        """Whether a page may show it."""
        return self.media_type in PICTURE_TYPES

    @property
    def line(self) -> str:
        """The file in a line, with every character visible. A name has no quotation marks."""
        return describe_file(self.id, self.name, self.media_type, self.size)


class WaitView(_Shape):
    """An open wait of a run or a child run; an answer goes to `run_id`."""

    run_id: str
    """The run that waits, and takes the answer."""
    await_id: str
    """The wait."""
    kind: KindName
    """`question` is answered at `/answers`, `approval` at `/approvals`, `tool_results` at `/tool-results`."""
    agent_id: str = ""
    """The agent that runs; empty if it is not known here."""
    session_id: str = ""
    """The run's session."""
    parent_run_id: str = ""
    """Of a child run: the run whose call it answers; empty if it is not known here."""
    since: datetime | None = None
    """Since when it is open; null in the status of a run, which does not have it."""
    expires_after: timedelta | None = None
    """How long it stays open; null for no limit."""
    expires_at: datetime | None = None
    """When it expires; null for never, and if `since` is null."""
    title: str = ""
    """The title of the tool to approve."""
    prompt: str = ""
    """The question, or for results from outside, which results are awaited."""
    server: str | None = None
    """The MCP server, or the toolset, that asks the question."""
    tool: str | None = None
    """The tool: to approve, or that an answer repairs."""
    tool_call_id: str | None = None
    """The call."""
    tags: list[str] = []
    """The tool's tags."""
    annotations: Annotations | None = None
    """What the tool to approve declares, such as `destructive`; null if it was not recorded."""
    payload: dict[str, Any] | None = None
    """The arguments of the call to approve."""
    payload_text: str = ""
    """The arguments as JSON in a text, if they have an integer that JavaScript rounds: show this to the person who decides."""
    digest: str | None = None
    """The digest of the arguments, which an approval names."""
    attachments: list[AttachmentView] = []
    """The files that the arguments name; the digest covers their content."""
    outcome_unknown: bool = False
    """Whether the call repeats one that may have taken effect."""
    changes: list[str] = []
    """Changes of the tool since it was last displayed."""
    taint: Taint | None = None
    """The text from outside that the run had read before the call was planned; null if it makes no difference."""
    lifts_taint: bool = False
    """Whether an approval may have `scope: "sources"`: the sources in `taint` then no longer count in this run."""
    approvers: list[str] = []
    """Roles of the approvers, who need one of them. Empty if a function of the app judges."""
    narrowed_to: list[list[str]] = []
    """Further lists of roles, by rules: the principal needs one role of each of them too."""
    approver_check: str = ""
    """The name of that function."""
    four_eyes: bool = False
    """Whether `asked_by` and `also_asked_by` may not approve the call."""
    asked_by: Asker | None = None
    """For whom the call is made; null if it is not known."""
    also_asked_by: list[Asker] = []
    """Who else has asked for it: senders of other messages of the turn, and who asked in the origin of a fork."""
    approvals_needed: int = 1
    """How many principals have to approve the call; each counts once."""
    steps: list[str] = []
    """The roles that approve in this order; empty for any order."""
    given: list[Asker] = []
    """Who has approved so far, if several have to."""
    escalate_after: timedelta | None = None
    """After what time without a decision the wait is announced again; null for never."""
    escalate_to: list[str] = []
    """The roles that may decide too after that time."""
    escalated: bool = False
    """Whether it has been announced again."""
    escalates_at: datetime | None = None
    """When it is or was announced again; null for never, and if `since` is null."""
    allows_edits: bool = False
    """Whether an approval may have edited `arguments`, with which the call then runs."""
    stop_asking: str = ""
    """How long an approval with `scope: "tool"` counts: `turn`, `run`, or `never`, which refuses that scope."""
    on_message: str = ""
    """What becomes of a message of the user: it waits (`wait`), is answered at once (`answer`), or denies the call, as the reason (`deny`). Always `wait` for a call of a child run, which no message reaches."""
    form: dict[str, Any] | None = None
    """JSON Schema of an answer by field; null if the answer is a text."""
    missing_fields: list[str] = []
    """The fields that the answer should give."""
    example: dict[str, Any] | None = None
    """An example of a payload."""
    sign_in: SignInRequest | None = None
    """The sign-in that a call needs: only its `principal` can do it (`POST /v1/grants`)."""
    calls: list[ExternalCall] = []
    """The calls whose results are awaited."""
    context: WaitContext | None = None
    """What the run is about; null in the status of a run, which says that itself."""
    wait: SkipJsonSchema[Await] = Field(exclude=True)
    """The record that is described, for rendering; no part of the JSON."""

    @property
    def key(self) -> str:
        """The run and the wait in one text, unique among all waits."""
        return f"{self.run_id} {self.await_id}"

    @property
    def summary(self) -> str:
        """What the wait asks for, in a sentence. A face cuts it to a line."""
        return self.wait.summary

    @property
    def noun(self) -> str:
        """The kind in words, such as `a question`."""
        return self.wait.noun

    @property
    def is_for_people(self) -> bool:
        """Whether a person answers. A program gives the results of external calls."""
        return self.wait.is_for_people

    @property
    def takes_words(self) -> bool:
        """Whether a person answers it by a text or a form, and does not decide on a call."""
        return self.is_for_people and self.call is None

    @property
    def takes_messages(self) -> bool:
        """Whether a message of the user is answered while the call waits, or denies it."""
        return self.on_message in ("answer", "deny")

    @property
    def may_be_declined(self) -> bool:
        """Whether a person may decline to answer."""
        kind = KINDS.get(type(self.wait))
        return kind is not None and "declined" in kind.fields

    @property
    def detail(self) -> str:
        """What the prompt says beside the summary."""
        return self.prompt.removeprefix(self.summary).strip()

    @property
    def ref(self) -> WaitRef:
        """The reference to answer it by."""
        return WaitRef(self.run_id, self.await_id, self.digest or "")

    def refs(self) -> Iterator[tuple[WaitRef, ExternalCall | None]]:
        """Yield the reference of each answer: one per external call, or one."""
        if self.kind != "tool_results":
            yield self.ref, None
        for call in self.calls:
            yield WaitRef(self.run_id, self.await_id, call_id=call.tool_call_id), call

    @property
    def call(self) -> AwaitConfirmation | None:
        """The record, if it is an approval."""
        return self.wait if isinstance(self.wait, AwaitConfirmation) else None

    @property
    def question(self) -> AwaitClarification | None:
        """The record, if it is a question."""
        return self.wait if isinstance(self.wait, AwaitClarification) else None

    @property
    def is_of_flow(self) -> bool:
        """Whether a flow asks for the approval: no call runs after it, the flow goes on."""
        return self.tool == APPROVE

    @property
    def tools(self) -> list[str]:
        """The tools that it is about."""
        return self.wait.tools

    # The rules on who may answer are in `sojourn.core.awaits.deciding`.

    @property
    def roles(self) -> Sequence[Sequence[str]]:
        """A principal needs a role of each list. Empty if only the app decides."""
        return needed_roles(self.call) if self.call else [["user"]]

    @property
    def deciders(self) -> str:
        """The principals that may decide on the call, in words.

        Empty if neither its tool nor a rule says so.
        """
        return describe_deciders(self.call) if self.call else ""

    @property
    def role_options(self) -> str:
        """The `--role` options of a command that decides on the call."""
        return role_options(self.call) if self.call else ""

    @property
    def changes_in_words(self) -> list[str]:
        """Changes of the tool since it was last displayed: one line, or none."""
        return describe_changes(self.call) if self.call else []

    @property
    def taint_in_words(self) -> str:
        """The sentence on text from outside that the run had read, or an empty text."""
        return describe_taint(self.taint) if self.taint else ""

    @property
    def fields_in_words(self) -> list[str]:
        """The fields that the answer to a question should give, with their types."""
        return wanted_fields(self.question) if self.question else []

    @property
    def is_restricted(self) -> bool:
        """Whether the tool, or a rule, says who may decide."""
        return self.call is not None and is_restricted(self.call)

    @property
    def progress(self) -> str:
        """The approvals so far, such as `1 of 2 approved: ana`. Empty if one is enough."""
        return describe_progress(self.call) if self.call else ""

    @property
    def escalation(self) -> str:
        """When and to whom the wait escalates or has escalated.

        Empty if it does not.
        """
        if self.escalate_after is None:
            return ""
        to = f" to {' or '.join(map(visible, self.escalate_to))}" if self.escalate_to else ""
        done = "escalated" if self.escalated else "escalates"
        when = f" at {self.escalates_at:%Y-%m-%d %H:%M} UTC" if self.escalates_at else ""
        return f"{done}{to}{when or f' {format_duration(self.escalate_after)} after it was asked'}"

    def may_answer(self, principal: Principal) -> bool:
        """Return whether a principal may approve or at least deny."""
        if self.call is None:
            return "user" in principal.roles
        return may_decide(self.call, principal, approved=False)

    def may_approve(self, principal: Principal) -> bool:
        """Return whether a principal may approve the call, as far as roles say."""
        return self.call is not None and may_decide(self.call, principal)

    def without_calls(self, call_ids: Sequence[str]) -> "WaitView":
        """Return the view without these external calls, whose results were given."""
        return self.with_calls([call for call in self.calls if call.tool_call_id not in call_ids])

    def with_calls(self, calls: Sequence[ExternalCall]) -> "WaitView":
        """Return the view with only these of its external calls."""
        if not isinstance(self.wait, AwaitExternalTools):
            return self
        changes = {"items": list(calls)}
        return self.model_copy(
            update={"calls": changes["items"], "wait": self.wait.model_copy(update=changes)}
        )


class StatusView(RunStatus):
    """The status of a run at one moment: its phase, open waits, calls, and the rest of its limits."""

    awaits: list[WaitView] = []  # noqa: RUF012  # pyright: ignore[reportIncompatibleVariableOverride] - records are frozen
    """The open waits, oldest first."""
    child_awaits: dict[str, list[WaitView]] = {}  # noqa: RUF012  # pyright: ignore[reportIncompatibleVariableOverride]
    """The open waits of child runs, by the child's run id; an answer goes to the child run."""


def wait_view(
    wait: Await,
    run_id: str,
    *,
    since: datetime | None = None,
    status: RunStatus | None = None,
    context: WaitContext | None = None,
) -> WaitView:
    """Describe a wait."""
    fields = _FIELDS[type(wait)](wait)
    if wait.kind == "approval" and "/" in run_id:  # of a child run
        fields["on_message"] = "wait"
    return WaitView(
        run_id=run_id,
        await_id=wait.id,
        kind=wait.kind,
        agent_id=_agent_of(run_id, status),
        session_id=status.session_id if status and status.run_id == run_id else "",
        parent_run_id=_parent_of(run_id, status),
        since=since,
        expires_after=wait.expires_after,
        expires_at=expires_at(wait, since),
        escalates_at=escalates_at(wait, since),
        context=context,
        wait=wait,
        attachments=_attachments(wait, run_id) if isinstance(wait, AwaitConfirmation) else [],
        **fields,
    )


def open_waits(status: RunStatus) -> list[WaitView]:
    """Return the open waits of a run and its child runs."""
    return [*_own_waits(status), *(view for views in _child_waits(status).values() for view in views)]


def _own_waits(status: RunStatus) -> list[WaitView]:
    # A worker of an earlier version lists external calls that have a result too.
    given = [call.tool_call_id for call in status.calls if call.state not in _AWAITED]
    views = [wait_view(wait, status.run_id, status=status).without_calls(given) for wait in status.awaits]
    return [view for view in views if view.calls or view.kind != "tool_results"]


def _child_waits(status: RunStatus) -> dict[str, list[WaitView]]:
    return {
        run_id: [wait_view(wait, run_id, status=status) for wait in waits]
        for run_id, waits in status.child_awaits.items()
    }


def status_view(status: RunStatus) -> StatusView:
    """Return a status with its waits as `WaitView`, as every face prints it."""
    fields: dict[str, Any] = {name: getattr(status, name) for name in RunStatus.model_fields}
    fields |= {"awaits": _own_waits(status), "child_awaits": _child_waits(status)}
    return StatusView(**fields)


def context_of(status: RunStatus, asked: str, said: str) -> WaitContext:
    """Return the subject of a run, to help the person who answers."""
    return WaitContext(
        asked=asked[:MAX_TEXT], said=said[:MAX_TEXT], started_at=status.started_at, paused=status.paused
    )


def _agent_of(run_id: str, status: RunStatus | None) -> str:
    if status is None:
        return ""
    if status.run_id == run_id:
        return status.agent_id
    links = [call.run_link for call in status.calls if call.run_link]
    return next((link.agent_id for link in links if link.run_id == run_id), "")


def _parent_of(run_id: str, status: RunStatus | None) -> str:
    if status is None or status.run_id == run_id:
        return status.parent_run_id if status else ""
    if any(call.run_link and call.run_link.run_id == run_id for call in status.calls):
        return status.run_id
    above = run_id.rpartition("/")[0]
    return "" if _SHORTENED.search(above) else above  # of a child run of a child run


_SHORTENED = re.compile(r"~[0-9a-f]{24}\Z")
"""The end of a parent's id that was too long for that of its child run."""


def _attachments(wait: AwaitConfirmation, run_id: str) -> list[AttachmentView]:
    return [
        AttachmentView(
            id=file.id,
            name=file_name(file.name),  # of a program that wrote the record itself, perhaps
            media_type=media_type_of(file.media_type),
            size=file.size,
            path=attachment_path(run_id, file.id),
        )
        for file in wait.attachments
    ]


def _asker(principal: Principal) -> Asker:
    return Asker(subject=principal.subject, tenant=principal.tenant)


def _question(wait: AwaitClarification) -> dict[str, Any]:
    return {
        "prompt": "\n".join(filter(None, (wait.question, wait.clarifying_prompt))),
        "server": wait.server,
        "tool": wait.restrict_to_tool,
        "tool_call_id": wait.tool_call_id,
        "form": wait.form,
        "missing_fields": wait.missing_fields,
        "example": wait.example_input,
        "sign_in": wait.sign_in,
    }


def _approval(wait: AwaitConfirmation) -> dict[str, Any]:
    return {
        "title": wait.title,
        "prompt": wait.prompt,
        "tool": wait.tool,
        "tool_call_id": wait.tool_call_id,
        "tags": wait.tags,
        "annotations": wait.shown and wait.shown.annotations,
        "payload": wait.payload,
        "payload_text": "" if is_exact(wait.payload) else write_json(wait.payload),
        "digest": wait.payload_digest,
        "outcome_unknown": wait.outcome_unknown,
        "changes": wait.changes,
        "taint": wait.taint,
        "lifts_taint": wait.lifts_taint,
        "approvers": roles_of(wait),
        "narrowed_to": wait.narrowed_to,
        "approver_check": wait.approver_check,
        "four_eyes": wait.four_eyes,
        "asked_by": wait.asked_by and _asker(wait.asked_by),
        "also_asked_by": [_asker(each) for each in wait.also_asked_by],
        "approvals_needed": wait.approvals_needed,
        "steps": wait.steps,
        "escalate_after": wait.escalate_after,
        "escalate_to": wait.escalate_to,
        "escalated": wait.escalated,
        "given": [_asker(each.principal) for each in wait.given],
        "allows_edits": wait.allows_edits,
        "stop_asking": wait.stop_asking,
        "on_message": wait.on_message,
    }


def _results(wait: AwaitExternalTools) -> dict[str, Any]:
    return {"prompt": wait.summary, "calls": wait.items}


_FIELDS = cast(
    "Mapping[type[Await], Callable[[Any], dict[str, Any]]]",
    {AwaitClarification: _question, AwaitConfirmation: _approval, AwaitExternalTools: _results},
)
"""The fields of a view that its kind fills in."""
