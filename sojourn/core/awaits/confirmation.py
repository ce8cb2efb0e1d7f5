"""Read decisions on calls, format a call for Temporal's screens, and deny a call."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.contracts.tasks import EditVerdict
from sojourn.contracts.tool_call import CallEdit, GivenApproval, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import APPROVAL_VOID
from sojourn.contracts.wire_names import PROVIDE_CONFIRMATION
from sojourn.core.awaits.deciding import (
    NOT_APPROVER,
    describe_deciders,
    describe_progress,
    is_restricted,
    needed_roles,
    refusal_of,
    refusal_of_count,
)
from sojourn.core.awaits.disclosure import (
    describe_expiry,
    describe_files,
    describe_taint,
    disclose,
    fence_query,
    fence_signal,
    indent_lines,
    join_lines,
)
from sojourn.core.awaits.envelope import Channel, Rejection, answer_digest, read_text, write_json
from sojourn.core.awaits.principals import PRINCIPAL, principal_of, without_roles
from sojourn.values.json_fault import json_fault
from sojourn.values.text import echo
from sojourn.values.visible import fence, visible
from sojourn.values.wire import MAX_ANSWER_CHARS, MAX_PAYLOAD_BYTES, size_of

__all__ = [
    "DECISION",
    "EDIT",
    "NO_EDIT",
    "SOURCES",
    "UNCHECKED",
    "VOID",
    "Decided",
    "confirmation_digest",
    "count_approval",
    "deny",
    "deny_by_decision",
    "describe_changes",
    "format_confirmation",
    "is_void",
    "read_confirmation",
    "refusal_of_edit",
    "refuse_unknown_fields",
    "role_options",
    "sample_confirmation",
    "void_reason",
    "whole_call",
]

VOID = "ApprovalVoid"
"""The error type that reports an approval as void."""

_MAX_WHOLE = 64_000
"""Largest payload that the query returns in full, in characters: workflow code formats it, and has 2 s for that."""

_MAX_LINES = 1_500_000
"""Longest answer of the query, in characters of all lines: Temporal limits a query's answer to 2 MB."""

_UNSEEN = "THE payload_digest FROM THE LAST LINE"

SOURCES = "sources"
"""The scope of an approval that lifts the taint which its wait shows."""

EDIT = "arguments"
"""The field of an approval with edited arguments."""

_WITHOUT_EDIT = {"tool": "an approval of all calls of the tool", SOURCES: "an approval that lifts sources"}

DECISION = ("id", "approved", "payload_digest", "by", "reason", "scope", PRINCIPAL, EDIT)

NO_EDIT = "deny the call, with a reason that says what to change"
"""The advice to a sender of other arguments, if the call or the protocol has none."""

MAX_CHANGES = 500
"""Longest text about how a tool was changed, in characters."""

_MAX_SHOWN = 10
"""Lines shown of a call that is too large for a query."""


@dataclass(frozen=True, slots=True)
class Decided:
    await_id: str
    approved: bool
    reason: str
    by: str | None
    scope: str = "call"
    """`call`; `tool`: stop the asking about the tool; or `sources`: those of the call's taint no longer count."""
    principal: Principal | None = None
    arguments: dict[str, Any] | None = None
    """Edited arguments, as they were sent. They are checked before the run accepts the decision."""
    edit: CallEdit | None = None
    """The edit as it takes effect, once it is checked."""
    at: datetime | None = None
    """When the run received it; only the run itself records that."""
    given: tuple[GivenApproval, ...] = ()
    """All approvals, this one included, if the call needed several."""
    is_release: bool = False
    """Whether it follows from the end of the asking about the tool."""

    @property
    def text(self) -> str:
        return self.reason

    @property
    def code(self) -> str | None:
        """None: `approved` says how it was decided."""
        return None

    @property
    def digest(self) -> str:
        return _digest_of(self.approved, self.scope, self.arguments)


def read_confirmation(
    call: AwaitConfirmation, fields: dict[str, Any], by: str | None, channel: Channel
) -> Decided | Rejection:
    if channel == "signal" and call.strict and (unknown := refuse_unknown_fields(fields)):
        return unknown
    approved, scope = fields.get("approved"), fields.get("scope") or "call"
    if not isinstance(approved, bool):
        return Rejection(f"the answer to {call.id} needs `approved`: true or false")
    if refused := _refuse_scope(call, scope, approved=approved):
        return refused
    arguments = _read_edit(call, fields, approved=approved, scope=scope, channel=channel)
    if isinstance(arguments, Rejection):
        return arguments
    reason = read_text(fields, "reason")
    if isinstance(reason, Rejection):
        return reason
    if unbound := _refuse_unbound(call, fields, approved=approved, channel=channel):
        return unbound
    principal = principal_of(fields)
    if isinstance(principal, Rejection):
        return principal
    edits = arguments is not None
    why = (
        refusal_of(call, principal, approved=approved, edits=edits)
        if channel != "accepted"
        else refusal_of_count(call, principal, approved=approved, edits=edits)
    )
    if why:
        return Rejection(why, NOT_APPROVER)
    return Decided(call.id, approved, reason, by, scope, principal, arguments)


def _refuse_scope(call: AwaitConfirmation, scope: Any, *, approved: bool) -> Rejection | None:
    if scope == SOURCES and approved and call.taint and not call.lifts_taint:
        return Rejection(f"{call.id} is approved by itself: the sources of its taint stay; leave `scope` out")
    scopes = ("call", "tool", SOURCES) if call.lifts_taint else ("call", "tool")
    if scope not in scopes or (scope != "call" and not approved):
        return Rejection("`scope` is `call`, or with an approval `tool`")
    if scope == "tool" and call.stop_asking == "never":
        return Rejection(
            f"{call.id} is approved by itself: the asking about its tool cannot be stopped; leave `scope` out"
        )
    return None


def _refuse_unbound(
    call: AwaitConfirmation, fields: Mapping[str, Any], *, approved: bool, channel: Channel
) -> Rejection | None:
    digest = fields.get("payload_digest")
    needs_digest = channel == "update" or (channel == "signal" and call.binds)
    if digest is None and call.payload_digest and needs_digest:
        bound = {"id": call.id, "approved": approved, "payload_digest": call.payload_digest}
        return Rejection(
            f"a decision names the arguments that were seen: look at them, and send {write_json(bound)}",
            "NotBound",
        )
    if digest is not None and digest != call.payload_digest:
        return Rejection(f"{call.id} is about other arguments than those of this digest")
    return None


def _read_edit(
    call: AwaitConfirmation, fields: Mapping[str, Any], *, approved: bool, scope: str, channel: Channel
) -> dict[str, Any] | Rejection | None:
    """Return the edited arguments of an approval, or why it cannot have any.

    The tool's own schema is checked by an activity.
    """
    given = fields.get(EDIT)
    if given is None or not (call.strict or channel == "update"):
        return None  # an earlier version ignored the field of such a signal
    if not call.allows_edits:
        if channel == "accepted":
            return None
        return Rejection(f"{call.id} is decided with the arguments as they are: {NO_EDIT}")
    if not approved or scope != "call":
        which = _WITHOUT_EDIT[scope] if approved else "a denial"
        return Rejection(f"{which} has no `{EDIT}`: edited ones go with the approval of one call")
    if not isinstance(given, dict):
        return Rejection(f"`{EDIT}` is an object with all arguments of the call")
    arguments = cast("dict[str, Any]", given)
    if fault := json_fault(arguments):
        return Rejection(f"`{EDIT}` cannot be used: {fault.message}")
    if channel != "accepted" and (size := size_of(arguments)) > (most := _most_bytes(call)):
        return Rejection(f"`{EDIT}` has {size:,} bytes, and those of this call may have at most {most:,}")
    return arguments


def _most_bytes(call: AwaitConfirmation) -> int:
    # An edit is a person's answer. The calls of a step can all begin in one workflow task, whose commands are bounded.
    return min(size_of(call.payload) + MAX_ANSWER_CHARS, MAX_PAYLOAD_BYTES)


def count_approval(wait: AwaitConfirmation, decided: Decided) -> AwaitConfirmation:
    """Return a wait with a further approval. An edit begins their count anew."""
    assert decided.principal is not None
    given = GivenApproval(
        principal=without_roles(decided.principal) or decided.principal,
        by=decided.by,
        reason=decided.reason,
        answer=decided.digest,
    )
    if decided.edit is None:
        return wait.model_copy(update={"given": [*wait.given, given]})
    return wait.edited(decided.edit).model_copy(update={"given": [given]})


def confirmation_digest(fields: Mapping[str, Any]) -> str:
    """Return the digest that `Decided` would have for a message."""
    return _digest_of(fields.get("approved"), fields.get("scope") or "call", fields.get(EDIT))


def _digest_of(approved: Any, scope: Any, arguments: Any) -> str:
    if arguments is None:
        return answer_digest([approved, scope])
    return answer_digest([approved, scope, json.dumps(arguments, sort_keys=True)])


UNCHECKED = f"no worker could check `{EDIT}` in time: send the approval again"
"""Why an edit is refused that could not be checked."""


def refusal_of_edit(verdict: EditVerdict) -> Rejection | None:
    """Return why edited arguments are refused, with the fields, or None."""
    if not verdict.why:
        return None
    faults = tuple({"field": each.field, "message": each.message} for each in verdict.faults)
    return Rejection(verdict.why, verdict.kind, faults)


def refuse_unknown_fields(fields: Mapping[str, Any]) -> Rejection | None:
    # Such a field is mostly an attempt to run the call with other arguments. The call would run with those
    # that were shown.
    unknown = next((name for name in fields if name not in DECISION), None)
    if unknown is None:
        return None
    known = ", ".join(f"`{name}`" for name in DECISION)
    return Rejection(
        f"{PROVIDE_CONFIRMATION} does not know {echo(unknown)}; it takes {known}; edited arguments are `{EDIT}`"
    )


def format_confirmation(run_id: str, wait: AwaitConfirmation) -> str:
    """Format a call in Markdown for Temporal's screens, with its commands."""
    seen = disclose(wait.payload)
    progress = describe_progress(wait)
    who = f"Decides: {describe_deciders(wait)}.{progress and f' {progress}.'}" if is_restricted(wait) else ""
    shown = [
        visible(wait.prompt),
        visible(wait.tool),
        *_warn(wait),
        *indent_lines(seen),
        *(f"  {line}" for line in describe_files(wait, whole=False)),
        who,
        describe_expiry(wait),
    ]
    parts = ["**Waiting for approval:**", fence(join_lines(shown))]
    if is_restricted(wait):
        return "\n\n".join(
            [*parts, "It is decided in the console, over HTTP, or by:", *_commands(run_id, wait)]
        )
    answer = sample_confirmation(wait)
    if not seen.is_whole:
        parts += [
            "The call is shortened here. This query returns all of it:",
            fence_query(run_id, wait.id),
            "Then, to approve it:",
        ]
        answer["payload_digest"] = _UNSEEN
    parts += [fence_signal(run_id, PROVIDE_CONFIRMATION, answer)]
    return "\n\n".join(
        [*parts, "Or, so that it does not run:", fence_signal(run_id, PROVIDE_CONFIRMATION, _denial(wait))]
    )


def _commands(run_id: str, wait: AwaitConfirmation) -> list[str]:
    if visible(run_id) != run_id:
        return ["No command can be shown for this run's id."]
    to = f"{shlex.quote(run_id)} {shlex.quote(wait.id)} --as SUBJECT {role_options(wait)}"
    return [fence(f"sojourn approve {to}\nsojourn deny {to}")]


def role_options(wait: AwaitConfirmation) -> str:
    """Return the `--role` options for deciding on a call, with one role of each list."""
    names = [roles[0] for roles in needed_roles(wait)] or ["ROLE"]
    return " ".join(f"--role {shlex.quote(name) if visible(name) == name else 'ROLE'}" for name in names)


def sample_confirmation(wait: AwaitConfirmation) -> dict[str, Any]:
    return {"id": wait.id, "approved": True, **_digest_field(wait), "by": "YOUR NAME"}


def _denial(wait: AwaitConfirmation) -> dict[str, Any]:
    return {
        "id": wait.id,
        "approved": False,
        **_digest_field(wait),
        "reason": "THE REASON",
        "by": "YOUR NAME",
    }


def _digest_field(wait: AwaitConfirmation) -> dict[str, str]:
    # Empty for a wait that an older version recorded without a digest.
    return {"payload_digest": wait.payload_digest} if wait.payload_digest else {}


def whole_call(wait: AwaitConfirmation) -> list[str]:
    """Return the call in full, as lines."""
    is_small = len(json.dumps(wait.payload)) <= _MAX_WHOLE
    lines = [
        visible(wait.prompt),
        visible(wait.tool),
        *_warn(wait),
        *filter(None, [describe_deciders(wait), describe_progress(wait)]),
        *disclose(wait.payload, whole=is_small).lines,
        *describe_files(wait, whole=is_small),
    ]
    if is_small and sum(map(len, lines)) <= _MAX_LINES:
        return [*lines, f"payload_digest: {wait.payload_digest}"]
    return [*lines[:_MAX_SHOWN], "too large for a query: `sojourn show --full` shows all of it"]


def deny(call: ToolRequest, why: str) -> ToolResult:
    """Build the result of a call that a policy or a person denied."""
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.new(f"denied: {why}", code="denied"),
    )


def void_reason(wait: AwaitConfirmation) -> str:
    """Build the note that an approval is void because the tool has changed."""
    why = "".join(f": {line}" for line in describe_changes(wait))
    return f"the approval of {wait.tool} ({wait.tool_call_id}) is void, and the call did not run{why}"


def is_void(result: ToolResult) -> bool:
    """Return whether a call did not run because its tool changed after approval."""
    return result.error is not None and result.error.code == APPROVAL_VOID


def describe_changes(wait: AwaitConfirmation) -> list[str]:
    """Return one line on how the tool was changed since the first confirmation."""
    changes = "; ".join(wait.changes)[:MAX_CHANGES]
    return [visible(f"changed since it was shown: {changes}")] if wait.changes else []


def _warn(wait: AwaitConfirmation) -> list[str]:
    """Return the lines that a person reads before the arguments."""
    tainted = [visible(describe_taint(wait.taint))] if wait.taint else []
    return [*describe_changes(wait), *tainted]


def deny_by_decision(call: ToolRequest, decided: Decided | None) -> ToolResult:
    """Build the result of a call that a person denied, or that expired undecided."""
    if decided is None:
        return deny(call, "nobody approved it in time")
    by = f" by {decided.by}" if decided.by else ""
    return deny(call, decided.reason) if decided.reason else deny(call, f"it was not approved{by}")
