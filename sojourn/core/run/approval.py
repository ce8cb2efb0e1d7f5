"""Decide whether the policy, the policy engine or a person approves a call.

Between the question and the call a deploy may replace the worker. An approval holds as long as the tool is
the same, takes the same arguments and changes the same: other wording, time-outs or retries do not void it.

The first rule that fits decides, in this order:

1. Denied tools and tags.
2. Read-only runs.
3. Named tools and tags run.
4. The policy engine, but it approves no call if the tool or a rule says who decides.
5. A person, if the policy asks about such calls.

Once the run has read text from outside, a consequential call skips the layers 3 and 4, and no release covers it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.ids import matches_any
from sojourn.contracts.plan import PolicyDecision
from sojourn.contracts.principal import Principal
from sojourn.contracts.run_policy import ApprovalPolicy, ApprovalRule
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import Annotations, ShownTool, ToolSpec
from sojourn.core.awaits.deciding import combine_roles
from sojourn.core.awaits.disclosure import describe_sources
from sojourn.core.awaits.principals import without_roles
from sojourn.core.payload.template import fill_question
from sojourn.core.run.taint import taint_counts
from sojourn.core.schema.annotations import has_secrets, mask_secrets, without_wording
from sojourn.values.visible import inert
from sojourn.values.wire import encode_readable

__all__ = [
    "APPROVE",
    "NO_APPROVER",
    "ApprovalVerdict",
    "approvers_of",
    "asks_person",
    "confirmation_id",
    "confirmation_of",
    "digest_of",
    "is_denied_once_tainted",
    "is_marked",
    "judge",
    "list_changes",
    "names_approvers",
    "payload_digest",
    "prompt_of",
    "shown_tool",
    "takes_edits",
    "why_consequential",
]

MAX_FIELDS = 50

MAX_NAMED = 5

MAX_NAME = 60

_IN_WORDS = {None: "not declared", True: "yes", False: "no"}


def shown_tool(spec: ToolSpec) -> ShownTool:
    """Return the parts of a tool that an approval covers."""
    schema = spec.payload.json_schema
    fields = _properties(schema)
    return ShownTool(
        kind=spec.kind,
        agent_id=spec.agent_id,
        annotations=spec.annotations,
        schema_digest=_schema_digest(schema),
        approvers=sorted(spec.approvers),
        approver_check=spec.approver_check,
        four_eyes=spec.four_eyes,
        fields={name: _schema_digest(field)[:12] for name, field in fields.items()}
        if len(fields) <= MAX_FIELDS
        else {},
        wording_digest=_wording_digest(spec) if spec.kind == "mcp" else "",
    )


def digest_of(spec: ToolSpec) -> str:
    """Return the SHA-256 of a tool's whole declaration.

    Approvals of earlier versions cover this digest.
    """
    return hashlib.sha256(encode_readable(spec)).hexdigest()


def list_changes(shown: ShownTool | None, spec_digest: str | None, spec: ToolSpec) -> list[str]:
    """List how a tool differs from the one that was displayed, one text per change.

    A change reads like `destructive: no → yes`. The list is empty if nothing differs.
    """
    if shown is None:
        return ["its declaration"] if spec_digest and spec_digest != digest_of(spec) else []
    now, found = shown_tool(spec), list[str]()
    if shown.kind != now.kind:
        found.append(f"kind: {shown.kind} → {now.kind}")
    if shown.agent_id != now.agent_id:
        found.append(f"agent: {shown.agent_id} → {now.agent_id}")
    for name in Annotations.model_fields:
        before, after = getattr(shown.annotations, name), getattr(now.annotations, name)
        if before is not after:
            found.append(f"{name}: {_IN_WORDS[before]} → {_IN_WORDS[after]}")
    if (shown.approvers, shown.approver_check) != (now.approvers, now.approver_check):
        found.append(f"approvers: {_deciders(shown)} → {_deciders(now)}")
    if shown.four_eyes is not now.four_eyes:
        found.append(f"four_eyes: {_IN_WORDS[shown.four_eyes]} → {_IN_WORDS[now.four_eyes]}")
    if shown.schema_digest != now.schema_digest:
        found.append(f"arguments: {_fields(shown.fields, now.fields)}")
    elif shown.wording_digest and shown.wording_digest != now.wording_digest:
        found.append("its title, its description, or those of its arguments")
    return found


def _deciders(shown: ShownTool) -> str:
    return shown.approver_check or _name_fields(shown.approvers) or "not declared"


def _fields(before: dict[str, str], after: dict[str, str]) -> str:
    # If no field differs, or there are too many fields to record, the clause says only that something
    # changed.
    if not before or not after:
        return "changed"
    kinds = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and before[name] != after[name]],
    }
    return "; ".join(f"{_name_fields(names)} {how}" for how, names in kinds.items() if names) or "changed"


def _name_fields(names: list[str]) -> str:
    shown = [name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…" for name in names[:MAX_NAMED]]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(shown) + more


def _schema_digest(schema: Any) -> str:
    return hashlib.sha256(encode_readable(without_wording(schema))).hexdigest()


def _wording_digest(spec: ToolSpec) -> str:
    return hashlib.sha256(
        encode_readable([spec.title, spec.description, spec.payload.json_schema])
    ).hexdigest()


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


APPROVE = "sojourn.approvals.approve"
"""The tool whose calls only put a question to approvers.

No policy and no release lets such a call run without their decision.
"""

NO_APPROVER = "its tool and the rules of this run's policy have no approver's role in common"
"""Why a call is denied if it has no possible approver, as a clause."""

MAX_PROMPT = 500


@dataclass(frozen=True, slots=True)
class ApprovalVerdict:
    kind: Literal["run", "ask", "deny"]
    why: str = ""
    is_always: bool = False
    """For `ask`: whether to ask even after asking about the tool was stopped."""


_RUN = ApprovalVerdict("run")


def judge(
    spec: ToolSpec,
    call: ToolRequest,
    approval: ApprovalPolicy,
    decision: PolicyDecision | None,
    *,
    interrupts_allowed: bool,
    taint: Taint | None = None,
) -> ApprovalVerdict:
    """Return what becomes of a call.

    Args:
        spec: The tool.
        call: The call, whose id the policy engine may have named.
        approval: The run's policy.
        decision: What the policy engine decided.
        interrupts_allowed: Whether the run may ask a person.
        taint: The text from outside that the run has read before this plan.
    """
    if matches_any(spec.id, approval.denied_tools) or any(tag in approval.denied_tags for tag in spec.tags):
        return ApprovalVerdict("deny", "this run's policy denies it")
    reads = spec.trusted and spec.annotations.read_only is True
    must_ask = spec.id == APPROVE or (
        decision is not None and (matches_any(spec.id, decision.ask) or call.tool_call_id in decision.ask)
    )
    rules = approval.rules_for(spec.id, spec.tags)
    if reads and approval.read_only_runs and not must_ask and not is_marked(spec) and not rules:
        return _RUN
    if taint is not None and taint_counts(taint, approval):
        may_ask = approval.asks and (interrupts_allowed or spec.kind == "external")
        denies = approval.tainted == "deny"
        why = why_consequential(spec, approval, is_strict=denies or may_ask)
        if why and (denies or not may_ask):
            sources = describe_sources(taint)
            return ApprovalVerdict("deny", f"{why}, and the run has read text from outside: {sources}")
        must_ask = must_ask or bool(why)
    if not must_ask and _runs_unasked(spec, call, approval, decision):
        return _RUN
    if not approval.asks:
        return ApprovalVerdict("deny", "this run's policy does not allow it")
    if spec.kind == "external":
        return _RUN  # the program that executes the call decides
    if not interrupts_allowed:
        return ApprovalVerdict("deny", "a person would have to approve it, and this run may not ask a person")
    if approvers_of(spec, approval) is None:
        return ApprovalVerdict("deny", NO_APPROVER)
    return ApprovalVerdict("ask", is_always=must_ask or approval.stop_asking == "never")


def _runs_unasked(
    spec: ToolSpec, call: ToolRequest, approval: ApprovalPolicy, decision: PolicyDecision | None
) -> bool:
    if matches_any(spec.id, approval.run_tools) or any(tag in approval.run_tags for tag in spec.tags):
        return True
    is_approved = decision is not None and (
        matches_any(spec.id, decision.approve) or call.tool_call_id in decision.approve
    )
    if is_approved and approval.asks and not names_approvers(spec, approval):
        return True
    return not approval.rules_for(spec.id, spec.tags) and not asks_person(spec, approval)


def is_denied_once_tainted(spec: ToolSpec, approval: ApprovalPolicy) -> bool:
    """Return whether text from outside makes a run that may ask no person deny a call.

    Without such text the call runs.
    """
    call = ToolRequest(name=spec.id)
    before, after = (
        judge(spec, call, approval, None, interrupts_allowed=False, taint=taint).kind
        for taint in (None, Taint(count=1))
    )
    return (before, after) == ("run", "deny")


def why_consequential(spec: ToolSpec, approval: ApprovalPolicy, *, is_strict: bool) -> str:
    """Return why a call needs a person in a tainted run, as a clause.

    Empty if it does not. The calls of a child run are judged there. An MCP server that is not trusted is
    believed when it says that its tool changes something: then `destructiveHint` is true by default, for any server. A tool of
    which it says nothing counts only if `is_strict`, so that a run that may ask no person can go on with it.
    """
    says = spec.annotations
    if spec.id == APPROVE:  # it only asks, and nothing runs after it
        return ""
    if spec.trusted and says.destructive:
        return "it is destructive"
    if is_marked(spec) or approval.rules_for(spec.id, spec.tags):
        return "a person would have to approve it"
    if spec.kind == "mcp" and says.read_only is False and says.destructive is None:
        return "its server does not call it harmless"
    if not spec.trusted and says.read_only is not True and says.destructive is not False:
        is_said = says.destructive is True or says.read_only is False
        return "its server does not call it harmless" if is_said or is_strict else ""
    asks = approval.asks_for not in ("nothing", "marked") and asks_person(spec, approval)
    return "this run's policy asks about it" if asks and spec.kind != "agent" else ""


def is_marked(spec: ToolSpec) -> bool:
    """Return whether the tool's own declaration requires a person's approval.

    It does if it describes the question or the approver.
    """
    return spec.confirmation is not None or bool(spec.approvers or spec.approver_check) or spec.four_eyes


def names_approvers(spec: ToolSpec, approval: ApprovalPolicy) -> bool:
    """Return whether the tool or a rule says who may decide.

    If so, no policy engine decides in their place.
    """
    return (
        bool(spec.approvers or spec.approver_check)
        or spec.four_eyes
        or bool(approval.rules_for(spec.id, spec.tags))
    )


def approvers_of(
    spec: ToolSpec, approval: ApprovalPolicy, payload: dict[str, Any] | None = None
) -> tuple[list[str], list[list[str]]] | None:
    """Return the roles that may decide about a call, or None if none can.

    The approver needs one role of the first list, and one of each further list. None means that the lists
    of the tool's author have no role in common.
    """
    rules = approval.rules_for(spec.id, spec.tags)
    lists = [spec.approvers, *(roles_of_rule(rule) for rule in rules if not rule.narrows)]
    if spec.id == APPROVE and payload:
        lists.append(payload.get("approvers") or [])
    narrowing = [roles_of_rule(rule) for rule in rules if rule.narrows]
    return combine_roles(lists, narrowing, has_check=bool(spec.approver_check))


def roles_of_rule(rule: ApprovalRule) -> list[str]:
    """Return the roles of a rule. An approver needs one of them."""
    return rule.approvers or list(dict.fromkeys(rule.steps))


def steps_of(rules: Sequence[ApprovalRule]) -> list[str]:
    """Return the roles that approve one after the other, by all rules."""
    return list(dict.fromkeys(role for rule in rules for role in rule.steps))


def asks_person(spec: ToolSpec, approval: ApprovalPolicy) -> bool:
    """Return whether `asks_for` requires a person's approval for this tool."""
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
    attachments: Sequence[AttachmentRecord] = (),
    taint: Taint | None = None,
) -> AwaitConfirmation:
    """Return the confirmation for a call with a valid payload.

    The attachments are those that the payload names. The payload is left out if the call itself holds it.
    """
    rules, schema = approval.rules_for(spec.id, spec.tags), spec.payload.json_schema
    approvers, narrowed_to = approvers_of(spec, approval, payload) or ([], [])
    steps = steps_of(rules)
    needed = max(approval.approvals, len(steps), *(rule.approvals for rule in rules))
    is_single = is_always or spec.approver_check or needed > 1
    counts = taint_counts(taint, approval)
    return AwaitConfirmation(
        id=confirmation_id(call.tool_call_id),
        tool_call_id=call.tool_call_id,
        tool=spec.id,
        tags=spec.tags,
        title=spec.title,
        prompt=prompt_of(spec, payload, attachments),
        attachments=[*attachments],
        payload={} if call.raw is None else payload,
        masked=mask_secrets(schema, payload) if has_secrets(schema) else None,
        payload_digest=payload_digest(payload),
        binds=True,
        strict=True,
        spec_digest=digest_of(spec),
        shown=shown_tool(spec),
        changes=changes or [],
        expires_after=approval.expires_after,
        escalate_after=approval.escalate_after,
        escalate_to=approval.escalate_to,
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
        stop_asking="never" if is_single else approval.stop_asking,
        approvals_needed=needed,
        steps=steps,
        allows_edits=approval.allows_edits and takes_edits(spec),
        taint=taint if counts else None,
        lifts_taint=counts and approval.stop_asking != "never" and not spec.approver_check and needed == 1,
        on_message=approval.on_message,
    )


def takes_edits(spec: ToolSpec) -> bool:
    """Return whether a call of a tool may run with arguments that an approver edits.

    The messages of an agent's child run are made before the approval, and a flow's question is no
    call that runs.
    """
    return spec.allows_edits and spec.kind != "agent" and spec.id != APPROVE


def confirmation_id(call_id: str) -> str:
    return f"confirm-{call_id}"


def payload_digest(payload: dict[str, Any]) -> str:
    return hashlib.sha256(encode_readable(payload)).hexdigest()


def prompt_of(spec: ToolSpec, payload: dict[str, Any], attachments: Sequence[AttachmentRecord] = ()) -> str:
    """Return the question to the person, with the names of files."""
    if spec.id == APPROVE:  # the flow's own sentence is the whole question
        return _cut(inert(" ".join(str(payload.get("question", "")).split())))
    if not spec.confirmation:
        return f"Run “{inert(spec.title)}”?"  # a server of MCP may have written it
    names = {each.id: each.name for each in attachments}
    return _cut(fill_question(spec.confirmation, spec.payload.json_schema, payload, names))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_PROMPT else text[: MAX_PROMPT - 1] + "…"
