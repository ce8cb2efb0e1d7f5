"""What a person was shown of a tool, and how the tool differs from it when the approved call is about to run.

Between the question and the call a deploy may replace the worker. An approval holds as long as the tool is the same,
takes the same arguments and changes the same: other wording, time-outs or retries do not void it.
"""

import hashlib
from typing import Any, cast

from sojourn.contracts.tool_spec import Annotations, ShownTool, ToolSpec
from sojourn.core.schema.wording import without_wording
from sojourn.core.values.wire import encode_readable

__all__ = ["changes", "digest_of", "shown_of"]

MAX_FIELDS = 50
"""Most fields of a payload that are recorded one by one."""

MAX_NAMED = 5
"""Most names of fields in one change."""

MAX_NAME = 60
"""Longest name in a change, in characters."""

_IN_WORDS = {None: "not declared", True: "yes", False: "no"}


def shown_of(spec: ToolSpec) -> ShownTool:
    """What an approval covers of a tool."""
    schema = spec.payload.json_schema
    fields = _properties(schema)
    return ShownTool(
        kind=spec.kind,
        agent_id=spec.agent_id,
        annotations=spec.annotations,
        schema_digest=_digest(schema),
        approvers=sorted(spec.approvers),
        approver_check=spec.approver_check,
        four_eyes=spec.four_eyes,
        fields={name: _digest(field)[:12] for name, field in fields.items()}
        if len(fields) <= MAX_FIELDS
        else {},
    )


def digest_of(spec: ToolSpec) -> str:
    """SHA-256 of a tool's whole declaration: what the approvals of earlier versions cover."""
    return hashlib.sha256(encode_readable(spec)).hexdigest()


def changes(shown: ShownTool | None, spec_digest: str | None, spec: ToolSpec) -> list[str]:
    """How a tool differs from what was shown, one change a text, such as `destructive: no → yes`; empty if it does not.

    Args:
        shown: What was shown; None for a call that was shown by an earlier version, or was never shown.
        spec_digest: The digest of the whole declaration that was shown; it decides only where `shown` is None.
        spec: The tool as it is now.
    """
    if shown is None:
        return ["its declaration"] if spec_digest and spec_digest != digest_of(spec) else []
    now, found = shown_of(spec), list[str]()
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
    return found


def _deciders(shown: ShownTool) -> str:
    return shown.approver_check or _named(shown.approvers) or "not declared"


def _fields(before: dict[str, str], after: dict[str, str]) -> str:
    """Which fields differ; where no field does, or they are too many to be recorded, only that something does."""
    if not before or not after:
        return "changed"
    kinds = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and before[name] != after[name]],
    }
    return "; ".join(f"{_named(names)} {how}" for how, names in kinds.items() if names) or "changed"


def _named(names: list[str]) -> str:
    shown = [name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…" for name in names[:MAX_NAMED]]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(shown) + more


def _digest(schema: Any) -> str:
    return hashlib.sha256(encode_readable(without_wording(schema))).hexdigest()


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
