"""ShownTool: what of a tool a person approves, recorded when the call is shown."""

from sojourn.contracts.record import Record
from sojourn.contracts.tool_spec import Annotations

__all__ = ["APPROVAL_VOID", "ShownTool"]

APPROVAL_VOID = "approval_void"
"""The code of the error of a call that did not run, because its tool is not the one that a person was shown."""


class ShownTool(Record):
    """What of a tool an approval covers: what it is, what it takes and what it changes, not its wording."""

    kind: str = "service"
    """Who implements the tool, as in `ToolSpec.kind`."""
    agent_id: str | None = None
    """The agent behind an agent tool."""
    annotations: Annotations = Annotations()
    """What the tool changes."""
    schema_digest: str = ""
    """SHA-256 of the payload's JSON Schema, without titles, descriptions and examples."""
    approvers: list[str] = []
    """The roles that may decide, as in `ToolSpec.approvers`."""
    approver_check: str = ""
    """The function that judges who may decide, as in `ToolSpec.approver_check`."""
    four_eyes: bool = False
    """Whether whoever asked may not approve."""
    fields: dict[str, str] = {}
    """The first 12 characters of the same digest for each top-level field, by name; at most 50 fields."""
