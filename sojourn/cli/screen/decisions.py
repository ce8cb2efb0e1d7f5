"""Decisions: who denied which call, as the events of the waits tell it."""

from sojourn.cli.screen.text import plain
from sojourn.contracts.event import AwaitAnsweredEvent, AwaitConfirmationEvent, Event, ToolEndEvent

__all__ = ["Decisions"]


class Decisions:
    """The people who denied calls of a run and its child runs."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], str] = {}
        """The id of the call that each wait is about, by run and wait."""
        self._denied: dict[tuple[str, str], str] = {}
        """Who denied a call, by run and call."""

    def feed(self, event: Event) -> None:
        """Take an event, in order."""
        match event:
            case AwaitConfirmationEvent(confirmation=wait):
                self._calls[event.run_id, wait.id] = wait.tool_call_id
            case AwaitAnsweredEvent(approved=False):
                call_id = self._calls.get((event.run_id, event.await_id), "")
                self._denied[event.run_id, call_id] = plain(event.by or event.identity or "")
            case _:
                pass

    def denied_by(self, event: ToolEndEvent) -> str:
        """Return who denied the call that ended, such as `by ana`; empty where no person did."""
        who = self._denied.get((event.run_id, event.tool_call_id))
        return f"by {who}" if who else ""
