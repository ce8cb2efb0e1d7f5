"""ChatView: a conversation on the screen: its events in lines, and what opened a turn where that is not seen above it."""

from rich.console import Console

from sojourn.cli.chat_bar import ChatBar
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.lines import summed
from sojourn.cli.screen.prompt import how_to_decide
from sojourn.cli.screen.text import Line, plain
from sojourn.cli.screen.turn_lines import accepted_lines, opening_line
from sojourn.cli.screen.view import RunView
from sojourn.cli.screen.wait_views import call_lines
from sojourn.cli.waits import answer_lines
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import (
    Event,
    MessageReceivedEvent,
    RunStartedEvent,
    TextDeltaEvent,
    TurnCompletedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.core.awaits.kinds import wait_in

__all__ = ["ChatView"]


class ChatView:
    """Shows the events of a conversation above the line that is being typed.

    Args:
        verbose: How much of a call is shown.
    """

    def __init__(self, verbose: int = 0) -> None:
        self._detail = Detail(min(verbose, Detail.ALL))
        self._view = RunView(Console(highlight=False, force_terminal=True), self._detail, is_tree=False)
        self.bar = ChatBar()
        """What the conversation does or waits for."""
        self.typed: set[str] = set()
        """Ids of messages that were typed here, which are on the screen already."""
        self._messages: dict[str, MessageReceivedEvent] = {}
        """The messages that have no turn yet, by id."""
        self._behind: set[str] = set()
        """Ids of those whose turn does not begin at once, or that never were on the screen: their turn tells them."""
        self._whole: set[str] = set()
        """Ids of confirmations whose call was shown whole."""

    def say(self, text: str, style: str = "", *, once: bool = False) -> None:
        """Print a line that is not of an event."""
        self._view.say(text, style, once=once)

    def is_whole(self, wait: AwaitConfirmation) -> bool:
        """Whether all of a call was shown."""
        return wait.id in self._whole

    def show_whole(self, wait: AwaitConfirmation) -> None:
        """Show all of a call."""
        print("\n".join(call_lines(wait, whole=True)[0]))
        self._whole.add(wait.id)

    def recall(self, event: Event) -> None:
        """Take in an event of the past, which is not shown."""
        self._take(event)
        if isinstance(event, MessageReceivedEvent):
            self._behind.add(event.message_id)

    def show(self, event: Event) -> None:
        """Show one event."""
        opening = self._opening(event) if isinstance(event, TurnStartedEvent) else []
        self._take(event)
        if isinstance(event, (TextDeltaEvent, RunStartedEvent)):
            return
        if isinstance(event, MessageReceivedEvent):
            self._print(self._accepted(event))
            return
        self._print(opening)
        self._view.show(event)
        if isinstance(event, TurnCompletedEvent):
            self.say(f"  {summed(event.output)}", "dim")
        if wait := wait_in(event):
            self.say(self._how(event.run_id, wait), "dim")

    def _print(self, lines: list[Line]) -> None:
        for line in lines:
            self.say(line.text, line.style)

    def _opening(self, event: TurnStartedEvent) -> list[Line]:
        """The messages that open a turn, as far as they are not the last thing on the screen."""
        lines: list[Line] = []
        for each in event.message_ids:
            message = self._messages.get(each)
            if message is None:
                lines.append(Line(f"· message {plain(each)}, whose text is not kept here", "dim"))
            elif each in self._behind:
                lines.append(opening_line(message, self._view.console.width, self._detail))
        return lines

    def _accepted(self, message: MessageReceivedEvent) -> list[Line]:
        """A message that somebody else sent."""
        if message.message_id in self.typed:
            return []
        return accepted_lines(message, self._detail, is_behind=message.message_id in self._behind)

    def _take(self, event: Event) -> None:
        """Take in what an event changes."""
        if isinstance(event, MessageReceivedEvent):
            if self.bar.is_busy or self._messages:
                self._behind.add(event.message_id)
            self._messages[event.message_id] = event
        elif isinstance(event, (TurnStartedEvent, TurnSteeredEvent)):
            for each in event.message_ids:
                self._messages.pop(each, None)
                self._behind.discard(each)
        wait = wait_in(event)
        if isinstance(wait, AwaitConfirmation) and call_lines(wait)[1].is_whole:
            self._whole.add(wait.id)
        self.bar.feed(event)

    def _how(self, run_id: str, wait: Await) -> str:
        if isinstance(wait, AwaitConfirmation):
            return how_to_decide(is_seen=self.is_whole(wait))
        if isinstance(wait, AwaitClarification):
            return "  the next line is the answer; /say TEXT sends a message"
        return f"  send results with: {answer_lines(run_id, wait)[0]}"
