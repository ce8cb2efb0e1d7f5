"""Retrying: which activities in flight have failed and are tried again, and why the last attempt failed."""

from collections.abc import Mapping, Sequence
from datetime import UTC

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from sojourn.core.values.text import plain
from sojourn.events.history import HistoryReader

__all__ = ["retrying"]

MAX_TOLD = 20
"""Activities that are told of."""

MAX_TEXT = 500
"""Characters of a failure."""


async def retrying(
    pending: Sequence[PendingActivityInfo], converter: DataConverter, tools: Mapping[str, str]
) -> list[str]:
    """One line an activity, such as `plan: attempt 3 is due at 09:14:07 UTC; the last failed: RateLimited: ...`.

    Args:
        pending: The activities that have not ended.
        converter: Reads their failures.
        tools: By call, the tool.
    """
    reader = HistoryReader(converter)
    failed = [one for one in pending if one.attempt > 1 and one.HasField("last_failure")]
    return [
        f"{_what(one, tools)}: attempt {one.attempt} {_when(one)}; the last failed: "
        + plain(str(await reader.error_of(one.last_failure)), MAX_TEXT)
        for one in failed[:MAX_TOLD]
    ]


def _what(pending: PendingActivityInfo, tools: Mapping[str, str]) -> str:
    if pending.activity_type.name == "PlanActivity":
        return "plan"
    tool = tools.get(pending.activity_id)
    return f"call {pending.activity_id}{f' of {tool}' if tool else ''}"


def _when(pending: PendingActivityInfo) -> str:
    if pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        return "is under way"
    return f"is due at {pending.scheduled_time.ToDatetime(UTC):%H:%M:%S} UTC"
