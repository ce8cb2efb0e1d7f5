"""A tool's entry in the catalogue: what a review should see change (SR-98)."""

from collections.abc import Mapping
from typing import Any

from sojourn.contracts.ids import ToolId
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["entry_of"]

_DECLARED = {
    "kind",
    "decode_in_executor",
    "local",
    "bounded",
    "annotations",
    "trusted",
    "confirmation",
    "approvers",
    "approver_check",
    "four_eyes",
    "timeout",
    "retry",
    "task_queue",
    "agent_id",
}
"""Fields of a spec that are written where they are not the default; injected fields are no caller's business."""


def entry_of(spec: ToolSpec, *, about: str, approval: Mapping[str, str]) -> dict[str, Any]:
    """The entry of a tool as JSON; what was not declared is left out.

    Args:
        spec: The tool.
        about: The description of its toolset.
        approval: By agent, `ask` where a person must approve each call, or `deny`.
    """
    entry: dict[str, Any] = {
        "id": str(spec.id),
        "service": ToolId(spec.id).service,
        "toolset": ToolId(spec.id).toolset,
        "title": spec.title,
        "description": spec.description,
        "tags": spec.tags,
        "payload": {"schema": spec.payload.json_schema},
        "result": {"schema": spec.result.json_schema},
    }
    if about:
        entry["toolset_description"] = about
    if spec.artifacts:
        entry["artifacts"] = {kind: {"schema": shape.json_schema} for kind, shape in spec.artifacts.items()}
    if approval:
        entry["approval"] = {agent_id: approval[agent_id] for agent_id in sorted(approval)}
    return entry | spec.model_dump(mode="json", include=_DECLARED, exclude_defaults=True)
