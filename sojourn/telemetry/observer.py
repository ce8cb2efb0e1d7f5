"""The interface through which a run reports its progress to telemetry.

The run reports on its worker, in a replay too, in the same order. An observer must not change what the run
does.
"""

from collections.abc import Mapping
from datetime import datetime

from sojourn.contracts.awaits import Await
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.run import RunInput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = ["Observer"]


class Observer:
    def begins(self, run: RunInput, began: datetime | None = None) -> None:
        """Report that the run begins, or continues in another execution."""

    def report_answer(
        self,
        call: ToolRequest,
        dispatch: Dispatch | None,
        result: ToolResult,
        *,
        turn_id: str,
        since: datetime,
        by_worker: bool,
    ) -> None:
        """Report that a call is answered, which began at `since`."""

    def waits(self, open_waits: Mapping[str, Await]) -> None:
        """Report the open waits, by id, after they have changed."""
