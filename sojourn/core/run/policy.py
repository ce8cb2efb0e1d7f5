"""Select the tools a run may use, by its policy and the policy engine."""

from collections.abc import Collection, Sequence
from typing import Any

from sojourn.contracts.ids import matches_any
from sojourn.contracts.plan import PolicyDecision
from sojourn.contracts.run_policy import Caps, Limits, in_both
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.run.limits import stricter_caps
from sojourn.core.run.run_input import add_labels, labels_fault

__all__ = ["merge_decisions", "offered_tools", "policy_fault", "withheld_reason"]

MAX_NAMES = 1_000

_MAX_REASON = 1_000


def policy_fault(decided: Any) -> str | None:
    """Return why a policy engine's result is refused, or None.

    The sentence says what to return instead.
    """
    if not isinstance(decided, PolicyDecision):
        return f"a policy engine returns a PolicyDecision, not {type(decided).__name__}"
    lists = (decided.allowed_tools or [], decided.disable_tools, decided.approve, decided.ask)
    if any(len(names) > MAX_NAMES for names in lists):
        return f"a PolicyDecision names at most {MAX_NAMES:,} tools in each list"
    if len(decided.reason) > _MAX_REASON:
        return f"the reason of a PolicyDecision has at most {_MAX_REASON:,} characters"
    return labels_fault(decided.labels)


def merge_decisions(before: PolicyDecision | None, decided: PolicyDecision) -> PolicyDecision | None:
    """Both decisions of a turn as one, or None when they change nothing.

    The stricter of two limits applies. Approvals and requests to ask are united.
    """
    if before is None:
        return decided if decided != PolicyDecision() else None
    return PolicyDecision(
        allowed_tools=_intersect(before.allowed_tools, decided.allowed_tools),
        disable_tools=_union(before.disable_tools, decided.disable_tools),
        approve=_union(before.approve, decided.approve),
        ask=_union(before.ask, decided.ask),
        caps=_caps(before.caps, decided.caps),
        labels=add_labels(before.labels, decided.labels),
        reason=decided.reason or before.reason,
    )


def _intersect(before: list[str] | None, decided: list[str] | None) -> list[str] | None:
    if before is None or decided is None:
        return decided if before is None else before
    return in_both(before, decided)


def _caps(before: Caps | None, decided: Caps | None) -> Caps | None:
    return decided if before is None else stricter_caps(before, decided)


def _union(left: list[str], right: list[str]) -> list[str]:
    return list(dict.fromkeys([*left, *right]))


def withheld_reason(
    tool: str, tags: Collection[str], limits: Limits, decision: PolicyDecision | None
) -> str | None:
    """Return why a run may not use a tool, as a clause, or None if it may."""
    if limits.allowed_tools is not None and not matches_any(tool, limits.allowed_tools):
        return "it is not among the tools that this run's policy allows"
    if limits.allowed_tags is not None and not any(tag in limits.allowed_tags for tag in tags):
        return "it has none of the tags that this run's policy allows"
    if matches_any(tool, limits.denied_tools) or any(tag in limits.denied_tags for tag in tags):
        return "this run's policy does not allow it"
    if decision is None:
        return None
    if decision.allowed_tools is not None and not matches_any(tool, decision.allowed_tools):
        return "the policy engine does not allow it now"
    return "the policy engine has disabled it for now" if matches_any(tool, decision.disable_tools) else None


def offered_tools(
    specs: Sequence[ToolSpec], limits: Limits, decision: PolicyDecision | None
) -> list[ToolSpec]:
    return [spec for spec in specs if withheld_reason(spec.id, spec.tags, limits, decision) is None]
