"""ChatBar: what a conversation does or waits for just now, and what the line that is being typed does."""

from collections.abc import Callable

from sojourn.cli.options import connection_options
from sojourn.cli.screen.draft import Draft
from sojourn.cli.screen.text import shell_word
from sojourn.cli.screen.wait_views import view_of
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    Event,
    RunPausedEvent,
    RunResumedEvent,
    RunStreamEndEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
)
from sojourn.core.awaits.kinds import wait_in

__all__ = ["ChatBar"]

_IDLE = " idle · Ctrl-D leaves"
_LATER = "Ctrl-C ends the turn · a line that is sent now waits for the next one"
_BUSY = f" working · {_LATER}"
_OUTSIDE = f" waits for results from outside · {_LATER}"


class ChatBar:
    """The last line of the screen, and the prompt above it, as the events so far have them."""

    def __init__(self) -> None:
        self.is_busy = False
        """Whether a turn is under way."""
        self._waits: dict[tuple[str, str], Await] = {}
        """The open waits for a person, by run and id, oldest first."""
        self._outside: set[tuple[str, str]] = set()
        """The open waits for results from outside."""
        self._paused = ""
        """While the conversation is paused: its run."""
        self._draft = Draft()

    @property
    def asked(self) -> tuple[str, Await] | None:
        """The oldest open wait for a person, and the run that waits."""
        return next(((run_id, wait) for (run_id, _), wait in self._waits.items()), None)

    @property
    def prompt(self) -> str:
        """What is printed before the line that is being typed."""
        if self.asked is None:
            return "> "
        return "approve? [y/n/a] " if isinstance(self.asked[1], AwaitConfirmation) else "answer> "

    @property
    def text(self) -> str:
        """What is waited for and what the next line does; else the last line of what the agent writes, or what it does."""
        if self.asked is not None:
            return self._asking(self.asked[1])
        if self._paused:
            return (
                f" paused; it goes on with: sojourn resume {shell_word(self._paused)}{connection_options()}"
            )
        if not self.is_busy:
            return _IDLE
        written = self._draft.lines()[-1:]
        return f" {written[0]}" if written else _OUTSIDE if self._outside else _BUSY

    def _asking(self, wait: Await) -> str:
        does = "decides it: y, n or a" if isinstance(wait, AwaitConfirmation) else "answers it"
        others = len(self._waits) - 1
        more = f" · {others} more {'waits' if others == 1 else 'wait'} after it" if others else ""
        return f" {view_of(wait).kind}: your next line {does}{more} · /say TEXT sends a message · Ctrl-C ends the turn"

    def feed(self, event: Event) -> None:
        """Take in what an event changes."""
        match event:
            case TextDeltaEvent():
                self._draft.add(event.text)
            case StreamRestartedEvent() | AssistantMessageEvent():
                self._draft = Draft()
            case TurnStartedEvent():
                self.is_busy = True
            case TurnCompletedEvent() | TurnFailedEvent():
                self.is_busy = False
                self._close(lambda _: True)
            case RunPausedEvent() | RunResumedEvent() if event.parent_tool_call_id is None:
                self._paused = event.run_id if isinstance(event, RunPausedEvent) else ""
            case AwaitAnsweredEvent():
                self.answered(event.run_id, event.await_id)
            case RunStreamEndEvent():
                self._close(lambda key: key[0] == event.run_id)
            case _:
                self._open(event.run_id, wait_in(event))

    def answered(self, run_id: str, await_id: str) -> None:
        """Forget a wait, whose answer was accepted."""
        self._close(lambda key: key == (run_id, await_id))

    def _open(self, run_id: str, wait: Await | None) -> None:
        if wait is not None and view_of(wait).is_for_people:
            self._waits[run_id, wait.id] = wait
        elif wait is not None:
            self._outside.add((run_id, wait.id))

    def _close(self, is_over: Callable[[tuple[str, str]], bool]) -> None:
        """Forget the waits of which this holds."""
        self._waits = {key: wait for key, wait in self._waits.items() if not is_over(key)}
        self._outside = {key for key in self._outside if not is_over(key)}
