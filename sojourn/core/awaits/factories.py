"""Build the waits that a step opens."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from sojourn.contracts.awaits import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)
from sojourn.contracts.dispatch import CarriedEffect, Dispatch
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import Approval, InputForm, InputRequired, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.waits import Released
from sojourn.core.payload.parse import Parsed, parse_arguments
from sojourn.values.json_value import to_tokens
from sojourn.values.text import plain
from sojourn.values.timers import limit_duration
from sojourn.values.visible import inert

__all__ = [
    "EARLIER",
    "MAX_ASKED_AGAIN",
    "MAX_INPUT_ROUNDS",
    "ORIGIN",
    "approval_by_release",
    "approval_of",
    "confirm_again",
    "describe_other_call",
    "external_wait",
    "input_response",
    "input_wait",
    "lacks_fields",
    "maker_of",
    "point_to_fields",
    "question_for",
    "warn_of_other_call",
    "warn_of_unknown",
    "with_payload",
]

EARLIER = "An earlier attempt of this call may have taken effect; its outcome is unknown."
"""Opening of an approval if the call repeats one with an unknown outcome."""

ORIGIN = "The run from which this one was forked"
"""Who made a call after a fork's point."""

OTHER_BRANCH = "Another branch of this conversation"
"""Who made a call after the point at which a branch began."""

MAY_HAVE = "may have carried out this call already"
"""What an approval says first of a call that another run or branch made."""

MAX_SHOWN = 300
"""Most characters of the origin's arguments that an approval of others shows."""

MAX_ASKED_AGAIN = 3
"""Most repeated approvals of one call because its tool was changed."""

MAX_INPUT_ROUNDS = 20
"""Most requests for a person's input by one call."""


def with_payload(confirm: AwaitConfirmation, call: ToolRequest) -> AwaitConfirmation:
    return confirm if call.raw is not None else confirm.model_copy(update={"payload": call.payload})


def confirm_again(
    confirm: AwaitConfirmation, first: AwaitConfirmation, *, unknown: bool = False
) -> AwaitConfirmation:
    """Build the confirmation for a call that a worker wants to have confirmed again."""
    of_call = {
        name: getattr(first, name)
        for name in ("id", "tool_call_id", "tool", "expires_after", "asked_by", "also_asked_by", "taint")
    }
    of_call |= {
        "escalate_after": first.escalate_after,
        "escalate_to": first.escalate_to,
        "allows_edits": confirm.allows_edits and first.allows_edits,
        "approvals_needed": max(confirm.approvals_needed, first.approvals_needed),
        "steps": first.steps,
        "in_doubt": first.in_doubt,
        "lifts_taint": first.lifts_taint and not confirm.approver_check and confirm.approvals_needed == 1,
    }
    again = confirm.model_copy(update={**of_call, **_deciders_of(confirm, first)})
    if first.outcome_unknown or unknown:
        makers = (maker for maker in (ORIGIN, OTHER_BRANCH) if first.prompt.startswith(f"{maker} {MAY_HAVE}"))
        return warn_of_unknown(again, next(makers, ""))
    return _prefix_prompt(again, first.other_call) if first.other_call else again


def maker_of(effect: CarriedEffect | None) -> str:
    """Return who made the call of a carried effect.

    Empty for a call of the run itself.
    """
    if effect is None:
        return ""
    return OTHER_BRANCH if effect.branch else ORIGIN


def warn_of_unknown(confirm: AwaitConfirmation, maker: str = "") -> AwaitConfirmation:
    """Build the confirmation for a call that repeats one whose outcome is unknown.

    The prompt begins with that fact, and with who made the call if the run itself did not.
    """
    told = f"{maker} {MAY_HAVE}." if maker else EARLIER
    prompt = f"{told} {confirm.prompt}".strip()
    return confirm.model_copy(update={"prompt": prompt, "outcome_unknown": True, "stop_asking": "never"})


def warn_of_other_call(confirm: AwaitConfirmation, effect: CarriedEffect) -> AwaitConfirmation:
    """Build the confirmation for a call that was made with other arguments.

    A fork's origin, or another branch, made it.
    """
    return _prefix_prompt(confirm, describe_other_call(effect.call, maker_of(effect)))


def describe_other_call(call: ToolRequest, run: str, escape: Callable[[str], str] = inert) -> str:
    """Return the sentence that an approver reads first about the origin's call.

    `escape` makes the arguments safe where the sentence is read, by default on a screen that reads Markdown.
    """
    given = call.raw if call.raw is not None else json.dumps(call.payload, ensure_ascii=False)
    with_given = f" with {escape(plain(given, MAX_SHOWN))}" if call.raw or call.payload else ""
    return (
        f"{run} carried out, or may have carried out, {call.name}{with_given}. "
        "With other arguments it is another call, which takes effect too."
    )


def _prefix_prompt(confirm: AwaitConfirmation, told: str) -> AwaitConfirmation:
    prompt = f"{told} {confirm.prompt}".strip()
    return confirm.model_copy(update={"prompt": prompt, "other_call": told, "stop_asking": "never"})


def _deciders_of(confirm: AwaitConfirmation, first: AwaitConfirmation) -> dict[str, Any]:
    # The deciders come from the tool as it is now and from the rules of the run's policy. A worker of an
    # earlier version did not know the rules. In that case the rules of the first confirmation count.
    stop_asking = "never" if confirm.approver_check else first.stop_asking
    if confirm.by_rules:
        return {"stop_asking": stop_asking, "on_message": first.on_message}
    shown = first.shown
    had_rule = shown is not None and sorted(first.approvers) != sorted(shown.approvers)
    by_both = [role for role in first.approvers if role in confirm.approvers]
    approvers = (by_both or first.approvers) if had_rule else confirm.approvers
    by_rule = shown is not None and first.four_eyes and not shown.four_eyes
    return {
        "approvers": approvers,
        "narrowed_to": first.narrowed_to,
        "four_eyes": confirm.four_eyes or by_rule,
        "stop_asking": stop_asking,
        "on_message": first.on_message,
    }


def approval_of(decided: Decided, confirm: AwaitConfirmation) -> Approval:
    edit = decided.edit
    return Approval(
        await_id=decided.await_id,
        by=decided.by,
        **_identity(decided.principal),
        at=decided.at,
        digest=edit.digest if edit else confirm.payload_digest,
        edited=edit is not None,
        reason=decided.reason,
        scope="tool" if decided.is_release else decided.scope,
        given=list(decided.given),
    )


def approval_by_release(released: Released | None) -> Approval | None:
    """Return the approval of a call that a release lets run, or None."""
    if released is None:
        return None
    return Approval(
        await_id="",
        by=released.by,
        **_identity(released.principal),
        at=released.at,
        reason=released.reason,
        scope="tool",
    )


def _identity(principal: Principal | None) -> dict[str, Any]:
    return {"subject": principal.subject, "tenant": principal.tenant} if principal else {}


def external_wait(
    calls: Sequence[tuple[ToolRequest, Dispatch]], wait: AwaitExternalTools | None
) -> AwaitExternalTools | None:
    """Return one wait for all external calls of a step, or None when there are none."""
    items = [
        ExternalCall(
            tool_call_id=call.tool_call_id,
            tool=call.name,
            payload=_arguments(call) if dispatch.payload is None else dispatch.payload,
        )
        for call, dispatch in calls
        if dispatch.kind == "external"
    ]
    if not items:
        return None
    limits = [dispatch.expires_after for _, dispatch in calls if dispatch.kind == "external"]
    longest = None if None in limits else max(limit_duration(limit) for limit in limits if limit is not None)
    return AwaitExternalTools(
        id=(wait and wait.id) or f"external-{items[0].tool_call_id}", items=items, expires_after=longest
    )


def _arguments(call: ToolRequest) -> dict[str, Any]:
    # Arguments that a model wrote were valid when the call was dispatched.
    parsed = Parsed(call.payload) if call.raw is None else parse_arguments(call.raw)
    return parsed.payload if isinstance(parsed, Parsed) else call.payload


def input_wait(call: ToolRequest, needed: InputRequired, form: InputForm) -> AwaitClarification:
    properties = form.form.get("properties")
    return AwaitClarification(
        id=f"input-{call.tool_call_id}",
        question=form.message,
        missing_fields=list(properties) if isinstance(properties, dict) else [],  # pyright: ignore[reportUnknownArgumentType]
        form=form.form,
        tool_call_id=call.tool_call_id,
        server=needed.server,
        sign_in=form.sign_in,
    )


def input_response(answer: Clarified | None) -> dict[str, Any]:
    """Return a person's answer as an MCP elicitation result."""
    if answer is None:
        return {"action": "cancel"}
    return {"action": "decline"} if answer.declined else {"action": "accept", "content": answer.values or {}}


def question_for(results: Sequence[ToolResult]) -> AwaitClarification | None:
    """Return the question about the last call that lacks required fields, or None.

    With further fields a call has another effect. So the run does not ask about a call that may have taken
    effect without them.
    """
    hints = [result.retry_hint for result in results if lacks_fields(result)]
    lacking = [hint for hint in hints if hint and not hint.outcome_unknown]
    return lacking[-1].question() if lacking else None


def point_to_fields(question: AwaitClarification, results: Sequence[ToolResult]) -> AwaitClarification:
    """Replace the names of nested fields in a planner's question by JSON pointers.

    That applies to the names that the planner took from `hint.missing_fields`.
    """
    hints = [result.retry_hint for result in results if result.retry_hint]
    places: dict[str, list[str]] = {}
    for hint in hints:
        if hint.tool == question.restrict_to_tool:
            for name in hint.question().missing_fields:
                bare = to_tokens(name)[-1] if name.startswith("/") else name
                places.setdefault(bare, []).append(name)
    named = [place for name in question.missing_fields for place in places.get(name, [name])]
    return question.model_copy(update={"missing_fields": list(dict.fromkeys(named))})


def lacks_fields(result: ToolResult) -> bool:
    return bool(result.retry_hint and result.retry_hint.missing_fields)
