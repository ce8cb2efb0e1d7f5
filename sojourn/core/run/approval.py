"""Who decides whether a call runs: its policy, the policy engine, or a person.

The rules in order, of which the first that fits decides: denied tools and tags; read-only runs; named tools
and tags run; the policy engine, which approves no call of which the tool or a rule says who decides; else a person, where
the policy asks about such calls.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.ids import matches_any
from sojourn.contracts.plan import PolicyDecision
from sojourn.contracts.principal import Principal
from sojourn.contracts.run_policy import ApprovalPolicy
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.awaits.deciding import combined
from sojourn.core.awaits.principals import without_roles
from sojourn.core.payload.template import asked
from sojourn.core.run.shown_tool import digest_of, shown_of
from sojourn.core.values.visible import inert
from sojourn.core.values.wire import encode_readable

__all__ = [
    "APPROVE",
    "NO_APPROVER",
    "Verdict",
    "approvers_of",
    "asking",
    "confirmation_id",
    "confirmation_of",
    "is_marked",
    "judge",
    "says_who",
]

APPROVE = "sojourn.approvals.approve"
"""The tool whose calls are nothing but a question to approvers; no policy and no release lets one run unasked."""

NO_APPROVER = "its tool and the rules of this run's policy have no approver's role in common"
"""Why a call is denied that nobody may approve, as a clause."""

MAX_PROMPT = 500
"""Longest prompt to a person, in characters."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call."""

    kind: Literal["run", "ask", "deny"]
    why: str = ""
    """For `deny`: the reason, as a clause."""
    is_always: bool = False
    """For `ask`: whether a person is asked even after the asking about the tool was stopped."""


_RUN = Verdict("run")


def judge(
    spec: ToolSpec,
    call: ToolRequest,
    approval: ApprovalPolicy,
    decision: PolicyDecision | None,
    *,
    interrupts_allowed: bool,
) -> Verdict:
    """Decide whether a call runs, is denied, or waits for a person."""
    if matches_any(spec.id, approval.denied_tools) or any(tag in approval.denied_tags for tag in spec.tags):
        return Verdict("deny", "this run's policy denies it")
    reads = spec.trusted and spec.annotations.read_only is True
    must_ask = spec.id == APPROVE or (
        decision is not None and (matches_any(spec.id, decision.ask) or call.tool_call_id in decision.ask)
    )
    rules = approval.rules_for(spec.id, spec.tags)
    if reads and approval.read_only_runs and not must_ask and not is_marked(spec) and not rules:
        return _RUN
    runs = matches_any(spec.id, approval.run_tools) or any(tag in approval.run_tags for tag in spec.tags)
    if runs and not must_ask:
        return _RUN
    if (
        decision
        and approval.asks
        and not must_ask
        and not says_who(spec, approval)
        and (matches_any(spec.id, decision.approve) or call.tool_call_id in decision.approve)
    ):
        return _RUN
    if not must_ask and not rules and not asking(spec, approval):
        return _RUN
    if not approval.asks:
        return Verdict("deny", "this run's policy does not allow it")
    if spec.kind == "external":
        return _RUN  # the program that executes the call decides
    if not interrupts_allowed:
        return Verdict("deny", "a person would have to approve it, and this run may ask nobody")
    if approvers_of(spec, approval) is None:
        return Verdict("deny", NO_APPROVER)
    return Verdict("ask", is_always=must_ask or approval.stop_asking == "never")


def is_marked(spec: ToolSpec) -> bool:
    """Whether the tool's own declaration has a person asked, by what it says of the question or of the approver."""
    return spec.confirmation is not None or bool(spec.approvers or spec.approver_check) or spec.four_eyes


def says_who(spec: ToolSpec, approval: ApprovalPolicy) -> bool:
    """Whether the tool, or a rule, says who may decide, so that no policy engine decides in their place."""
    return (
        bool(spec.approvers or spec.approver_check)
        or spec.four_eyes
        or bool(approval.rules_for(spec.id, spec.tags))
    )


def approvers_of(
    spec: ToolSpec, approval: ApprovalPolicy, payload: dict[str, Any] | None = None
) -> tuple[list[str], list[list[str]]] | None:
    """The roles of which whoever decides needs one, and further lists of which as well; None where the author's lists have none in common.

    Args:
        spec: The tool.
        approval: The run's policy.
        payload: The call's valid payload, which says so too where the call is an approval that a flow asks for.
    """
    rules = approval.rules_for(spec.id, spec.tags)
    lists = [spec.approvers, *(rule.approvers for rule in rules if not rule.narrows)]
    if spec.id == APPROVE and payload:
        lists.append(payload.get("approvers") or [])
    narrowing = [rule.approvers for rule in rules if rule.narrows]
    return combined(lists, narrowing, has_check=bool(spec.approver_check))


def asking(spec: ToolSpec, approval: ApprovalPolicy) -> bool:
    """Whether `asks_for` has a person asked about this tool, when no earlier rule decides."""
    match approval.asks_for:
        case "nothing":
            return False
        case "marked":
            return is_marked(spec) or (spec.trusted and spec.annotations.destructive is True)
        case "changes":
            return not (spec.trusted and spec.annotations.read_only) or is_marked(spec)
        case _:
            return True


def confirmation_of(
    spec: ToolSpec,
    call: ToolRequest,
    payload: dict[str, Any],
    approval: ApprovalPolicy,
    *,
    asked_by: Principal | None = None,
    also_asked_by: Sequence[Principal] = (),
    is_always: bool = False,
    changes: list[str] | None = None,
) -> AwaitConfirmation:
    """The confirmation for a call with a valid payload; without the payload where the call itself has it.

    Args:
        spec: The tool.
        call: The call.
        payload: The call's payload.
        approval: The run's policy.
        asked_by: For whom the call is made.
        also_asked_by: Who else has asked for it, without roles.
        is_always: Whether a person is asked even after the asking about the tool was stopped.
        changes: For a call that is asked about again: how the tool differs from what was shown before.
    """
    rules = approval.rules_for(spec.id, spec.tags)
    approvers, narrowed_to = approvers_of(spec, approval, payload) or ([], [])
    return AwaitConfirmation(
        id=confirmation_id(call.tool_call_id),
        tool_call_id=call.tool_call_id,
        tool=spec.id,
        tags=spec.tags,
        title=spec.title,
        prompt=_prompt(spec, payload),
        payload={} if call.raw is None else payload,
        payload_digest=_digest(payload),
        binds=True,
        strict=True,
        spec_digest=digest_of(spec),
        shown=shown_of(spec),
        changes=changes or [],
        expires_after=approval.expires_after,
        approvers=approvers,
        narrowed_to=narrowed_to,
        approver_check=spec.approver_check,
        four_eyes=spec.four_eyes
        or any(rule.four_eyes for rule in rules)
        or (spec.id == APPROVE and payload.get("four_eyes") is True),
        asked_by=without_roles(asked_by),
        also_asked_by=list(also_asked_by),
        one_tenant=True,
        role_denies=bool(spec.approver_check),
        stop_asking="never" if is_always or spec.approver_check else approval.stop_asking,
    )


def confirmation_id(call_id: str) -> str:
    """The id of the first confirmation of a call."""
    return f"confirm-{call_id}"


def _digest(payload: dict[str, Any]) -> str:
    return hashlib.sha256(encode_readable(payload)).hexdigest()


def _prompt(spec: ToolSpec, payload: dict[str, Any]) -> str:
    if spec.id == APPROVE:  # the flow's own sentence, which is all that is asked
        return _cut(inert(" ".join(str(payload.get("question", "")).split())))
    if not spec.confirmation:
        return f"Run “{inert(spec.title)}”?"  # a server of MCP may have written it
    return _cut(asked(spec.confirmation, spec.payload.json_schema, payload))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PROMPT else text[: MAX_PROMPT - 1] + "…"
