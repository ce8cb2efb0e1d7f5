"""Unread: which events come after a cursor, where they are read in the order of a follower."""

from sojourn.contracts.event import AgentRunStartedEvent, BaseEvent
from sojourn.contracts.ids import place_of
from sojourn.events.cursor import Position

__all__ = ["Unread"]


class Unread:
    """Which events come after a position, by the rules of `Cursor`; events are asked about in the follower's order."""

    def __init__(self, run_id: str, position: Position) -> None:
        self._position = position
        self._at: dict[str, Position | None] = {run_id: position}
        """By run, the position that counts; None where all of its events were read."""
        self._floors: dict[str, tuple[int, ...]] = {}

    def is_new(self, event: BaseEvent, place: tuple[int, ...]) -> bool:
        """Whether the subscriber has not had the event."""
        run_id = event.run_id
        at = self._at_of(run_id)
        if at is None:
            if isinstance(event, AgentRunStartedEvent):
                self._begin(event.run_link.run_id, None)
            return False
        floor = self._floors.get(run_id)
        if floor is None:
            floor = self._floors[run_id] = place_of(at.of(run_id))
        is_new = place > floor
        if isinstance(event, AgentRunStartedEvent):
            self._begin(event.run_link.run_id, at.below(event, is_new=is_new))
        return is_new

    def _at_of(self, run_id: str) -> Position | None:
        """The position in a run; one whose start is no longer kept is open in the position, or was read to its end."""
        if run_id not in self._at:
            self._at[run_id] = self._position if run_id in self._position.after else None
        return self._at[run_id]

    def _begin(self, run_id: str, at: Position | None) -> None:
        self._at[run_id] = at
        self._floors.pop(run_id, None)
