"""Observer: what a run tells about itself to whoever watches it on this worker.

Told in a replay too, in the same order; an observer must not change what the run does.
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
    """Watches nothing; another one overrides what it cares about."""

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
        """A call has its one answer.

        Args:
            call: The call.
            dispatch: How it was carried out; None for one that was refused.
            result: Its answer.
            turn_id: The user turn.
            since: When it was taken up.
            by_worker: Whether the answer is what a worker's execution of the tool gave.
        """

    def waits(self, open_waits: Mapping[str, Await]) -> None:
        """What is waited for now, by id."""
