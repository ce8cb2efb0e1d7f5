"""Which tools a rule names: ids as they are, families as `ops.devices.*`, and tags."""

from collections.abc import Collection, Iterable, Sequence

from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.tasks import Limits
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["named", "offered", "withheld"]


def named(tool: str, patterns: Iterable[str]) -> bool:
    """Whether a tool is among these."""
    return any(one in (tool, "*") or (one.endswith(".*") and tool.startswith(one[:-1])) for one in patterns)


def withheld(tool: str, tags: Collection[str], limits: Limits, decision: PolicyDecision | None) -> str | None:
    """Why a run may not use a tool, in a clause, or None where it may."""
    if limits.allowed_tools is not None and not named(tool, limits.allowed_tools):
        return "it is not among the tools that this run's policy allows"
    if limits.allowed_tags is not None and not any(tag in limits.allowed_tags for tag in tags):
        return "it has none of the tags that this run's policy allows"
    if named(tool, limits.denied_tools) or any(tag in limits.denied_tags for tag in tags):
        return "this run's policy does not allow it"
    if decision is None:
        return None
    if decision.allowed_tools is not None and not named(tool, decision.allowed_tools):
        return "the policy engine does not allow it now"
    return "the policy engine has disabled it for now" if named(tool, decision.disable_tools) else None


def offered(specs: Sequence[ToolSpec], limits: Limits, decision: PolicyDecision | None) -> list[ToolSpec]:
    """The tools that a run may use."""
    return [spec for spec in specs if withheld(spec.id, spec.tags, limits, decision) is None]
