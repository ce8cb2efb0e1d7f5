"""A conversation on the screen.

Its events are printed as lines. The bar below them shows the state of the conversation and the
effect of the next line.
"""

from rich.console import Console

from sojourn.cli.options import connection_options
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.draft import draft_lines
from sojourn.cli.screen.lines import summed
from sojourn.cli.screen.prompt import how_to_decide
from sojourn.cli.screen.run_trees import grow
from sojourn.cli.screen.text import Line, plain, shell_word
from sojourn.cli.screen.turn_lines import accepted_lines, opening_line
from sojourn.cli.screen.view import RunView
from sojourn.cli.screen.waits import call_lines
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
    wait_in,
)
from sojourn.timeline import TimelineTree, UserMessage

__all__ = ["ChatBar", "ChatView"]


_IDLE = " idle · Ctrl-D leaves"
_LATER = "Ctrl-C ends the turn · a line that is sent now waits for the next one"
_BUSY = f" working · {_LATER}"
_OUTSIDE = f" waits for results from outside · {_LATER}"


class ChatBar:
    """The last line of the screen and the prompt above it, after the events so far."""

    def __init__(self) -> None:
        self._timelines: TimelineTree | None = None
        self._answered: set[tuple[str, str]] = set()
        """Waits whose answers were accepted, and whose events have not come yet."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way."""
        return self._timelines is not None and self._timelines.top.turn is not None

    @property
    def queued(self) -> dict[str, UserMessage]:
        """The messages that have no turn yet, by id."""
        return self._timelines.top.queued if self._timelines else {}

    @property
    def asked(self) -> tuple[str, Await] | None:
        """The oldest open wait for a person, and the run that waits."""
        return next(iter(self._waits(for_people=True)), None)

    @property
    def prompt(self) -> str:
        """The text before the line that the user types."""
        if self.asked is None:
            return "> "
        return "approve? [y/n/a] " if isinstance(self.asked[1], AwaitConfirmation) else "answer> "

    @property
    def text(self) -> str:
        """The open wait with the effect of the next line, or the agent's progress.

        While the agent writes, this is the last line of its draft.
        """
        if self.asked is not None:
            return self._asking(self.asked[1])
        top = self._timelines and self._timelines.top
        if top and top.is_paused:
            line = f"sojourn resume {shell_word(top.run_id)}{connection_options()}"
            return f" paused; it goes on with: {line}"
        if top is None or top.turn is None:
            return _IDLE
        written = draft_lines(top.turn.plan.draft.text)[-1:] if top.turn.plan else []
        return f" {written[0]}" if written else _OUTSIDE if self._waits(for_people=False) else _BUSY

    def _asking(self, wait: Await) -> str:
        does = "decides it: y, n or a" if isinstance(wait, AwaitConfirmation) else "answers it"
        others = len(self._waits(for_people=True)) - 1
        more = f" · {others} more {'waits' if others == 1 else 'wait'} after it" if others else ""
        return f" {wait.kind}: your next line {does}{more} · /say TEXT sends a message · Ctrl-C ends the turn"

    def feed(self, event: Event) -> None:
        """Take the next event."""
        self._timelines = grow(self._timelines, event)
        self._answered &= self._timelines.open_waits.keys()

    def answered(self, run_id: str, await_id: str) -> None:
        """Forget a wait, whose answer was accepted."""
        self._answered.add((run_id, await_id))

    def _waits(self, *, for_people: bool) -> list[tuple[str, Await]]:
        opened = self._timelines.open_waits if self._timelines else {}
        return [
            (run_id, each.wait)
            for (run_id, await_id), each in opened.items()
            if each.wait.is_for_people is for_people and (run_id, await_id) not in self._answered
        ]


class ChatView:
    """A display of a conversation's events above the line that the user types.

    Args:
        verbose: The detail of calls, as for `-v`.
    """

    def __init__(self, verbose: int = 0) -> None:
        self._detail = Detail(min(verbose, Detail.ALL))
        self._view = RunView(Console(highlight=False, force_terminal=True), self._detail, is_tree=False)
        self.bar = ChatBar()
        """What the conversation does or waits for."""
        self.typed: set[str] = set()
        """Ids of messages that were typed here, which are on the screen already."""
        self._behind: set[str] = set()
        """Ids of those whose turn does not begin at once, or that never were on the screen: their turn tells them."""
        self._whole: set[str] = set()
        """Ids of confirmations whose call was shown whole."""

    @property
    def _messages(self) -> dict[str, UserMessage]:
        """The messages that have no turn yet, by id."""
        return self.bar.queued

    def say(self, text: str, style: str = "", *, once: bool = False) -> None:
        """Print a line that belongs to no event."""
        self._view.say(text, style, once=once)

    def is_whole(self, wait: AwaitConfirmation) -> bool:
        """Return whether all of a call was shown."""
        return wait.id in self._whole

    def show_whole(self, wait: AwaitConfirmation) -> None:
        """Show all of a call."""
        print("\n".join(call_lines(wait, whole=True)[0]))
        self._whole.add(wait.id)

    def recall(self, event: Event) -> None:
        """Record a past event without showing it."""
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
            self._print(self._accepted(event.message_id))
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
        """Return the messages that open a turn, unless they are the last lines shown."""
        lines: list[Line] = []
        for each in event.message_ids:
            message = self._messages.get(each)
            if message is None:
                lines.append(Line(f"· message {plain(each)}, whose text is not kept here", "dim"))
            elif each in self._behind:
                lines.append(opening_line(message, self._view.console.width, self._detail))
        return lines

    def _accepted(self, message_id: str) -> list[Line]:
        """Return the lines of a message that another user sent."""
        message = self._messages.get(message_id)
        if message is None or message_id in self.typed:
            return []
        return accepted_lines(message, self._detail, is_behind=message_id in self._behind)

    def _take(self, event: Event) -> None:
        """Update the open wait and the backlog from an event."""
        if isinstance(event, MessageReceivedEvent) and (self.bar.is_busy or self._messages):
            self._behind.add(event.message_id)
        elif isinstance(event, (TurnStartedEvent, TurnSteeredEvent)):
            self._behind -= set(event.message_ids)
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
