"""ChatView: a conversation on the screen: its events in lines, what the agent writes just now, and what a person is asked."""

from rich.console import Console

from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.draft import Draft
from sojourn.cli.screen.lines import summed
from sojourn.cli.screen.prompt import how_to_decide
from sojourn.cli.screen.view import RunView
from sojourn.cli.screen.wait_views import call_lines, view_of
from sojourn.cli.waits import answer_lines
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    Event,
    MessageReceivedEvent,
    RunStartedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
)
from sojourn.core.awaits.kinds import wait_in

__all__ = ["ChatView"]

_IDLE = " idle · Ctrl-D leaves"
_BUSY = " working · Ctrl-C ends the turn · a line that is sent now waits for the next one"


class ChatView:
    """Shows the events of a conversation above the line that is being typed.

    Args:
        verbose: How much of a call is shown.
    """

    def __init__(self, verbose: int = 0) -> None:
        detail = Detail(min(verbose, Detail.ALL))
        self._view = RunView(Console(highlight=False, force_terminal=True), detail, is_tree=False)
        self.typed: set[str] = set()
        """Ids of messages that were typed here, which are on the screen already."""
        self._waits: dict[tuple[str, str], Await] = {}
        self._whole: set[str] = set()
        """Ids of confirmations whose call was shown whole."""
        self._is_busy = False
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
    def toolbar(self) -> str:
        """The last line of what the agent writes, or what it does."""
        written = self._draft.lines()[-1:]
        return f" {written[0]}" if written and self._is_busy else _BUSY if self._is_busy else _IDLE

    def say(self, text: str, style: str = "", *, once: bool = False) -> None:
        """Print a line that is not of an event."""
        self._view.say(text, style, once=once)

    def answered(self, run_id: str, wait: Await) -> None:
        """Forget a wait, whose answer was accepted."""
        self._waits.pop((run_id, wait.id), None)

    def is_whole(self, wait: AwaitConfirmation) -> bool:
        """Whether all of a call was shown."""
        return wait.id in self._whole

    def show_whole(self, wait: AwaitConfirmation) -> None:
        """Show all of a call."""
        print("\n".join(call_lines(wait, whole=True)[0]))
        self._whole.add(wait.id)

    def show(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, TextDeltaEvent):
            self._draft.add(event.text)
            return
        self._take(event)
        is_known = isinstance(event, MessageReceivedEvent) and event.message_id in self.typed
        if is_known or isinstance(event, RunStartedEvent):
            return
        self._view.show(event)
        if isinstance(event, TurnCompletedEvent):
            self.say(f"  {summed(event.output)}", "dim")
        if wait := wait_in(event):
            self.say(self._how(event.run_id, wait), "dim")

    def _take(self, event: Event) -> None:
        """Take in what an event changes."""
        wait = wait_in(event)
        if isinstance(event, (StreamRestartedEvent, AssistantMessageEvent)):
            self._draft = Draft()
        elif isinstance(event, TurnStartedEvent):
            self._is_busy = True
        elif isinstance(event, (TurnCompletedEvent, TurnFailedEvent)):
            self._is_busy = False
            self._waits.clear()
        elif isinstance(event, AwaitAnsweredEvent):
            self._waits.pop((event.run_id, event.await_id), None)
        elif wait is not None and view_of(wait).is_for_people:
            self._waits[event.run_id, wait.id] = wait
            if isinstance(wait, AwaitConfirmation) and call_lines(wait)[1].is_whole:
                self._whole.add(wait.id)

    def _how(self, run_id: str, wait: Await) -> str:
        if isinstance(wait, AwaitConfirmation):
            return how_to_decide(is_seen=self.is_whole(wait))
        if isinstance(wait, AwaitClarification):
            return "  the next line is the answer; /say TEXT sends a message"
        return f"  send results with: {answer_lines(run_id, wait)[0]}"
