"""Show a conversation, and above its prompt the effect of the next line."""

from rich.console import Console
from rich.text import Text

from sojourn.answers import WaitRef, WaitView, wait_view
from sojourn.cli.options import connection_options
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.lines import lines_of, usage_text
from sojourn.cli.screen.prompt import how_to_decide
from sojourn.cli.screen.run_trees import INDENT, MOST_ENTRIES
from sojourn.cli.screen.text import Line, draft_lines, plain, shell_word
from sojourn.cli.screen.turn_lines import accepted_lines, opening_line
from sojourn.cli.screen.view import change_lines
from sojourn.cli.screen.waits import call_lines, texts_of
from sojourn.cli.waits import answer_lines
from sojourn.contracts.event import ApprovalGivenEvent, Event
from sojourn.timeline import Call, End, EntryChange, Timeline, TimelineTree, UserMessage, UserTurn, WaitEntry

__all__ = ["ChatBar", "ChatView"]


_IDLE = " idle · Ctrl-D leaves"
_LATER = "Ctrl-C ends the turn · a line that is sent now waits for the next one"
_BUSY = f" working · {_LATER}"
_OUTSIDE = f" waits for results from outside · {_LATER}"


class ChatBar:
    """The last line of the screen and the prompt above it."""

    def __init__(self, timelines: TimelineTree) -> None:
        self._timelines = timelines
        self._answered: set[WaitRef] = set()
        """Waits whose answers were accepted; their events may not have come yet."""

    @property
    def first_wait(self) -> WaitView | None:
        return next(iter(self._waits(for_people=True)), None)

    @property
    def prompt(self) -> str:
        if (wait := self.first_wait) is None:
            return "> "
        return "approve? [y/n/a] " if wait.kind == "approval" else "answer> "

    @property
    def text(self) -> str:
        """The open wait with the effect of the next line, or the agent's progress."""
        if (wait := self.first_wait) is not None:
            return self._asking(wait)
        top = self._timelines.top
        if top.is_paused:
            line = f"sojourn resume {shell_word(top.run_id)}{connection_options()}"
            return f" paused; it goes on with: {line}"
        if top.turn is None:
            return _IDLE
        written = draft_lines(top.turn.plan.draft.text)[-1:] if top.turn.plan else []
        return f" {written[0]}" if written else _OUTSIDE if self._waits(for_people=False) else _BUSY

    def _asking(self, wait: WaitView) -> str:
        does = "decides it: y, n or a" if wait.kind == "approval" else "answers it"
        if wait.takes_messages:
            does += ", and any other " + ("denies it" if wait.on_message == "deny" else "is a message")
        others = len(self._waits(for_people=True)) - 1
        more = f" · {others} more {'waits' if others == 1 else 'wait'} after it" if others else ""
        return f" {wait.kind}: your next line {does}{more} · /say TEXT sends a message · Ctrl-C ends the turn"

    def forget(self, wait: WaitView) -> None:
        """Leave out a wait whose answer was accepted."""
        self._answered.add(wait.ref)

    def _waits(self, *, for_people: bool) -> list[WaitView]:
        views = [wait_view(each.wait, each.run_id) for each in self._timelines.open_waits.values()]
        return [each for each in views if each.is_for_people is for_people and each.ref not in self._answered]


class ChatView:
    """A conversation's events above the line that the user types."""

    def __init__(self, run_id: str, verbose: int = 0) -> None:
        self._detail = Detail(min(verbose, Detail.ALL))
        self._console = Console(highlight=False, force_terminal=True)
        self._timelines = TimelineTree(run_id, MOST_ENTRIES, most_records=0)
        self.bar = ChatBar(self._timelines)
        """The state of the conversation, or its open wait."""
        self.typed: set[str] = set()
        """Ids of messages that were typed here, which are on the screen already."""
        self._recalled = 0
        """The version of the conversation up to which its events are not on the screen."""
        self._whole: set[WaitRef] = set()
        """Approvals whose call was displayed whole, each with the arguments that it had."""
        self._notices: set[str] = set()

    def say(self, text: str, style: str = "", *, once: bool = False) -> None:
        """Print a line that belongs to no event, with `once` only the first time."""
        if not (once and text in self._notices):
            self._notices.add(text)
            self._console.print(Text(text, style=style), soft_wrap=True)

    @property
    def waiting(self) -> list[UserMessage]:
        """The messages that have no turn yet, in order."""
        return list(self._timelines.top.queued.values())

    def is_whole(self, wait: WaitView) -> bool:
        return wait.ref in self._whole or call_lines(wait)[1].is_whole

    def show_whole(self, wait: WaitView) -> None:
        print("\n".join(call_lines(wait, whole=True)[0]))
        self._whole.add(wait.ref)

    def recall(self, event: Event) -> None:
        """Take a past event without showing it."""
        self._timelines.feed(event)
        self._recalled = self._timelines.top.version

    def show(self, event: Event) -> None:
        changes = self._timelines.feed(event)
        run, top = self._timelines.runs.get(event.run_id), self._timelines.top
        if run is None or event is run.started:
            return
        if run is top and top.turn is not None and top.turn.born == top.version:
            self._print(self._opening(top.turn))
        pad = INDENT * self._timelines.depth(run.run_id)
        for change in changes:
            self._print(self._lines_of(change, run), pad)
        if isinstance(event, ApprovalGivenEvent) and event.await_id in run.open_waits:
            self._print(self._approval_lines(event), pad)

    def _print(self, lines: list[Line], pad: str = "") -> None:
        for line in lines:
            self.say(pad + line.text, line.style)

    def _lines_of(self, change: EntryChange, run: Timeline) -> list[Line]:
        is_below = run is not self._timelines.top
        lines = change_lines(change, run, self._detail, is_below=is_below)
        match change.entry, change.kind:
            case UserMessage() as message, "added" if not is_below and message.message_id not in self.typed:
                return accepted_lines(message, self._detail, is_behind=message.is_behind)
            case End(output=output, is_of_turn=True), _ if output:
                return [*lines, Line(f"  {usage_text(output)}", "dim")]
            case (Call() | WaitEntry()) as entry, "asked" if entry.wait:
                return [*lines, Line(self._how(wait_view(entry.wait, run.run_id)), "dim")]
            case _:
                return lines

    def _approval_lines(self, event: ApprovalGivenEvent) -> list[Line]:
        """Return one of several approvals, and the call again if it was edited."""
        wait = wait_view(event.confirmation, event.run_id)
        call = [] if event.edited_arguments is None else texts_of(wait).lines(wait, False)
        return [*lines_of(event), *call, Line(self._how(wait), "dim")]

    def _opening(self, turn: UserTurn) -> list[Line]:
        lines = [
            opening_line(message, self._console.width, self._detail)
            for message in turn.messages
            if message.is_behind or message.born <= self._recalled
        ]
        unknown = [
            Line(f"· message {plain(each)}, whose text is not kept here", "dim") for each in turn.missing
        ]
        return lines + unknown

    def _how(self, wait: WaitView) -> str:
        if wait.kind == "approval":
            return how_to_decide(is_seen=self.is_whole(wait))
        if wait.kind == "tool_results":
            return f"  send results with: {answer_lines(wait)[0]}"
        return "  the next line is the answer; /say TEXT sends a message"
