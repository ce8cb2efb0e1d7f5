"""Observer: what a run reports of itself to whoever watches it on this worker.

The run reports in a replay too, in the same order; an observer must not change what the run does.
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
    """Watches nothing; a subclass overrides the reports that it needs."""

    def begins(self, run: RunInput) -> None:
        """The run begins."""

    def answered(
        self,
        call: ToolRequest,
        dispatch: Dispatch | None,
        result: ToolResult,
        *,
        turn_id: str,
        since: datetime,
        by_worker: bool,
    ) -> None:
        """A call has its only answer.

        Args:
            call: The call.
            dispatch: How the call was carried out; None for a refused call.
            result: Its answer.
            turn_id: The user turn.
            since: When it was taken up.
            by_worker: Whether the answer is what a worker's execution of the tool gave.
        """

    def waits(self, open_waits: Mapping[str, Await]) -> None:
        """The open waits have changed, by id."""
