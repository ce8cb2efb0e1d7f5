"""FoldState: what a fold has read so far: the run state, and a maker of events."""

from typing import Any, TypeVar

from sojourn.contracts.event import BaseEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.core.history.record import HistoryRecord
from sojourn.core.run.state import RunState

__all__ = ["FoldState"]

Kind = TypeVar("Kind", bound=BaseEvent)


class FoldState:
    """The state of one run, as far as its history has been read.

    Args:
        run_id: The run.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.state = RunState.opened(RunInput(agent_id="", messages=[]))
        self.handed: tuple[Message, ...] = ()
        """The messages that the last plan, or the end of the run or the turn, has moved from the state into the transcript."""

    def event(self, record: HistoryRecord, kind: type[Kind], **payload: Any) -> Kind:
        """An event at this record; the fold sets its id."""
        run = self.state.opening
        return kind(
            run_id=self.run_id,
            session_id=run.session_id,
            turn_id=self.state.turn_id,
            agent_id=run.agent_id,
            parent_tool_call_id=run.parent.parent_tool_call_id if run.parent else None,
            time=record.time,
            **payload,
        )
