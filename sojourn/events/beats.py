"""Beats: what a call in flight says with its heartbeats."""

from typing import Any, cast

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

__all__ = ["said_by"]


async def said_by(pending: PendingActivityInfo, converter: DataConverter) -> dict[str, Any]:
    """The note of the last heartbeat with all that stands beside it, which anybody may have written; else nothing."""
    if not pending.heartbeat_details.payloads:
        return {}
    try:
        (said,) = await converter.decode(pending.heartbeat_details.payloads[:1])
    except (ValueError, KeyError, RuntimeError):
        return {}
    return cast("dict[str, Any]", said) if isinstance(said, dict) and "note" in said else {}
