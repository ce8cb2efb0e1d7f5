"""Find the branches of a conversation among its turns."""

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.timeline.entries import UserTurn

__all__ = ["TurnIndex", "index_turns"]


@dataclass(frozen=True, slots=True)
class TurnIndex:
    """The turns of all branches, by the points between which they are."""

    ended_at: dict[str, UserTurn]
    """By the event that ended the turn."""
    begun_after: dict[str, list[UserTurn]]
    """By the point after which they began, in order."""
    tips: dict[str, str]
    """By the key of a turn: the event that ended the newest turn after it; empty while that turn is under way."""


def index_turns(turns: Sequence[UserTurn]) -> TurnIndex:
    """Return the index of turns that are in the order in which they began."""
    index = TurnIndex({turn.end.event_id: turn for turn in turns if turn.end}, {}, {})
    for turn in turns:
        if turn.follows is not None:
            index.begun_after.setdefault(turn.follows, []).append(turn)
    for turn in reversed(turns):  # a turn began after the one that it follows
        end = turn.end.event_id if turn.end else ""
        after = index.begun_after.get(end)
        index.tips[turn.key] = index.tips[after[-1].key] if end and after else end
    return index
