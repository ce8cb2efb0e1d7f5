"""Approvals: what decides on a call, how Temporal's screens show it, and what a call that is decided against gives."""

import json
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.command_line import expiry, fenced_query, fenced_signal, indented, lines
from sojourn.core.awaits.disclosure import disclose
from sojourn.core.awaits.sent import Door, Refused, as_json, digest, text_of
from sojourn.core.values.visible import fence, visible

__all__ = [
    "CONFIRMATION",
    "Decided",
    "decided_against",
    "denied",
    "read_confirmation",
    "sample_confirmation",
    "shown_confirmation",
    "whole_call",
]

CONFIRMATION = "provide_confirmation"

_MAX_WHOLE = 64_000
"""Characters of a payload that a query tells whole: it is put into words in workflow code, which has 2 s for it."""

_MAX_LINES = 1_500_000
"""Characters of all lines: a query's answer has at most 2 MB."""

_UNSEEN = "THE payload_digest THAT STANDS THERE LAST"

_MAX_SHOWN = 10
"""Lines of a call that is too large for a query."""


@dataclass(frozen=True, slots=True)
class Decided:
    """An accepted decision on a call."""

    await_id: str
    approved: bool
    reason: str
    by: str | None
    scope: str = "call"
    """`call`, or `tool`: stop asking about it in this run."""

    @property
    def text(self) -> str:
        """What was said beside it."""
        return self.reason

    @property
    def digest(self) -> str:
        """What tells a repetition of the decision from another one."""
        return digest([self.approved, self.scope])


def read_confirmation(
    call: AwaitConfirmation, fields: dict[str, Any], by: str | None, door: Door
) -> Decided | Refused:
    """Judge what was sent to decide on a call."""
    approved, scope = fields.get("approved"), fields.get("scope") or "call"
    if not isinstance(approved, bool):
        return Refused(f"the answer to {call.id} says `approved`: true or false")
    if scope not in ("call", "tool") or (scope == "tool" and not approved):
        return Refused("`scope` is `call`, or with an approval `tool`")
    reason = text_of(fields, "reason")
    if isinstance(reason, Refused):
        return reason
    digest = fields.get("payload_digest")
    if digest is None and call.payload_digest and (door == "update" or (door == "signal" and call.binds)):
        bound = {"id": call.id, "approved": approved, "payload_digest": call.payload_digest}
        return Refused(
            f"a decision says which arguments were seen: look at them, and send {as_json(bound)}", "NotBound"
        )
    if digest is not None and digest != call.payload_digest:
        return Refused(f"{call.id} is about other arguments than those of this digest")
    return Decided(call.id, approved, reason, by, scope)


def shown_confirmation(run_id: str, wait: AwaitConfirmation) -> str:
    """A call, and the lines that decide on it; what is not all there is not approved from here."""
    seen = disclose(wait.payload)
    shown = [visible(wait.prompt), visible(wait.tool), *indented(seen), expiry(wait)]
    parts = ["**Waiting for approval:**", fence(lines(shown))]
    answer = sample_confirmation(wait)
    if not seen.is_whole:
        parts += [
            "Not all of it is shown. This tells it whole:",
            fenced_query(run_id, wait.id),
            "Then, to approve it:",
        ]
        answer["payload_digest"] = _UNSEEN
    parts += [fenced_signal(run_id, CONFIRMATION, answer)]
    return "\n\n".join(
        [*parts, "Or, so that it does not run:", fenced_signal(run_id, CONFIRMATION, _denial(wait))]
    )


def sample_confirmation(wait: AwaitConfirmation) -> dict[str, Any]:
    """An approval, in which what is in capitals is to be replaced."""
    return {"id": wait.id, "approved": True, **_bound(wait), "by": "YOUR NAME"}


def _denial(wait: AwaitConfirmation) -> dict[str, Any]:
    return {"id": wait.id, "approved": False, **_bound(wait), "reason": "THE REASON", "by": "YOUR NAME"}


def _bound(wait: AwaitConfirmation) -> dict[str, str]:
    """Which arguments it is about; a wait of long ago may not tell."""
    return {"payload_digest": wait.payload_digest} if wait.payload_digest else {}


def whole_call(wait: AwaitConfirmation) -> list[str]:
    """All that a person decides on, in lines; the last names its digest, where nothing had to be left out."""
    is_small = len(json.dumps(wait.payload)) <= _MAX_WHOLE
    lines = [visible(wait.prompt), visible(wait.tool), *disclose(wait.payload, whole=is_small).lines]
    if is_small and sum(map(len, lines)) <= _MAX_LINES:
        return [*lines, f"payload_digest: {wait.payload_digest}"]
    return [*lines[:_MAX_SHOWN], "too large for a query: `sojourn show --full` tells it whole"]


def denied(call: ToolRequest, why: str) -> ToolResult:
    """A policy or a person decided that the call does not run; nothing needs undoing."""
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.new(f"denied: {why}", code="denied"),
    )


def decided_against(call: ToolRequest, decided: Decided | None) -> ToolResult:
    """A person denied the call, or nobody decided in time."""
    if decided is None:
        return denied(call, "nobody approved it in time")
    by = f" by {decided.by}" if decided.by else ""
    return denied(call, decided.reason) if decided.reason else denied(call, f"it was not approved{by}")
