"""Choose the events of one branch of a conversation."""

from collections.abc import Iterable

from sojourn.contracts.event import Event, MessageReceivedEvent
from sojourn.timeline.entries import UserMessage, UserTurn, is_turn_end
from sojourn.timeline.timeline import Timeline

__all__ = ["events_of_branch"]

_ALL = 10**9


def events_of_branch(run_id: str, events: Iterable[Event]) -> list[Event]:
    """Return a conversation's events without those of other branches.

    The messages that opened turns of other branches are left out, too.
    """
    timeline, found = Timeline(run_id, _ALL, is_conversation=True), list[tuple[Event, UserTurn | None]]()
    received: dict[str, UserMessage] = {}
    for event in events:
        for entry, _ in timeline.feed(event):
            if isinstance(entry, UserMessage):
                received[entry.event_id] = entry
        ended = timeline.turns[-1] if is_turn_end(event) and timeline.turns else None
        is_of_turn = not isinstance(event, MessageReceivedEvent)
        found.append((event, (timeline.turn or ended) if is_of_turn else None))
    path = {id(turn) for turn in timeline.path}

    def is_here(event: Event, turn: UserTurn | None) -> bool:
        if isinstance(event, MessageReceivedEvent):
            turn = received[event.event_id].turn
        return turn is None or id(turn) in path

    return [event for event, turn in found if is_here(event, turn)]
