"""Trees of a run: of a conversation one for each turn, below a heading; of any other run only one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.decisions import Decisions
from sojourn.cli.screen.text import Line
from sojourn.cli.screen.tree import RunTree
from sojourn.cli.screen.turn_lines import (
    TurnLine,
    heading,
    joined_lines,
    opening_lines,
    received_line,
    summary,
    waiting_lines,
)
from sojourn.cli.screen.turns import Turn, Turns
from sojourn.contracts.event import Event, MessageReceivedEvent, TurnStartedEvent, TurnSteeredEvent
from sojourn.core.values.text import counted

__all__ = ["LINES", "TurnTrees"]

INDENT = "  "

LINES = 20
"""Turns that are shown on a line each, the last ones before those that are drawn whole."""

MOST_WAITING = 10
"""Messages without a turn that are shown, the first ones."""


@dataclass
class _Part:
    """A turn, or what is between two turns."""

    tree: RunTree
    turn: Turn | None = None
    goes_on: bool = False
    """Whether the beginning of the turn is on the screen already."""

    def drawn(self, detail: Detail, *, so_far: bool) -> Iterator[RenderableType]:
        turn, tree = self.turn, self.tree.tree
        if turn is None:
            yield from [tree] if tree.children else []
            return
        if not self.goes_on:
            yield _text(heading(turn, detail))
            yield from (_Indented(_text(line)) for line in opening_lines(turn, detail))
        if tree.children:
            yield _Indented(tree)
        if turn.end is not None or so_far:
            yield _Indented(_text(summary(turn)))


class TurnTrees:
    """Grows with the events of a run and its child runs. Draws its turns, those before the last ones on a line each.

    Args:
        spins: Whether work in progress has a spinner.
        whole: Whether to show all of a wait and of an answer, however long.
        detail: How much of a call is shown.
        decisions: Who denied calls; by default nobody did.
        last: Number of turns that are drawn whole, the last ones, with the one under way; None means all.
        only: The id of the turn that is drawn, and no other; None means all.
        is_conversation: Whether the run is known to be a conversation.
    """

    def __init__(
        self,
        *,
        spins: bool = False,
        whole: bool = False,
        detail: Detail = Detail.BRIEF,
        decisions: Decisions | None = None,
        last: int | None = None,
        only: str | None = None,
        is_conversation: bool = False,
    ) -> None:
        self._spins, self._whole, self._detail = spins, whole, detail
        self._decisions = decisions or Decisions()
        self._last, self._only = last, only
        self._all_waiting = last is None and not spins
        self._turns = Turns(is_conversation=is_conversation)
        self._parts: list[_Part] = [_Part(self._grown())]
        self._earlier: list[Turn] = []
        """The turns that are shown on a line each."""
        self._left_out = 0
        self._is_over = False
        self.last_turn_id = ""
        """The id of the last turn that began."""

    @property
    def present(self) -> RunTree:
        """The tree of the turn under way, of what came after the last one, or of the run that has no turns."""
        if self._parts[-1].turn is not self._turns.present:
            self._parts.append(_Part(self._grown(self._parts[-1].tree)))
        return self._parts[-1].tree

    def feed(self, event: Event) -> None:
        """Draw one event."""
        turn = self._turns.feed(event)
        if turn is not None and turn is not self._parts[-1].turn:
            self._begin(turn)
        if isinstance(event, TurnSteeredEvent) and turn is not None:
            self.present.draw(joined_lines(self._turns.taken(event), self._detail))
        elif isinstance(event, MessageReceivedEvent):
            if turn is not None and event.mode == "interrupt":
                self.present.draw([received_line(event, self._detail)])
        elif not isinstance(event, TurnStartedEvent):
            (self._parts[-1].tree if turn is not None else self.present).feed(event)
        self._is_over = self._is_over or (
            event.type == "run_stream_end" and event.parent_tool_call_id is None
        )

    def say(self, line: Line, run_id: str = "") -> None:
        """Add a line to the branch of a child run; of any other run, to the tree of the present turn."""
        self.present.say(line, run_id)

    def go_on(self) -> None:
        """Begin new trees below those that are on the screen, whose calls may end here."""
        part = self._parts[-1]
        self._parts = [_Part(self._grown(part.tree), part.turn, goes_on=True)]
        self._earlier.clear()

    def done(self) -> list[RenderableType]:
        """Take away, and return, what changes no more: all before the turn under way."""
        last = self._parts[-1]
        is_open = last.turn is None or last.turn is self._turns.present
        count = len(self._parts) - is_open
        if not (count or self._earlier):
            return []
        shown = [*self._drawn(self._parts[:count])]
        self._parts = self._parts[count:] or [_Part(self._grown(last.tree))]
        self._earlier, self._left_out, self._last = [], 0, None
        return shown

    def keep(self, last: int) -> int:
        """Keep only the last lines and calls of each tree; return how many calls are left out."""
        return sum(part.tree.keep(last) for part in self._parts)

    @property
    def has_drawn(self) -> bool:
        """Whether the turn that is drawn alone was there."""
        return any(self._is_wanted(part) for part in self._parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the turns, and the messages that have none."""
        if self._only is not None:
            for part in filter(self._is_wanted, self._parts):
                yield from part.drawn(self._detail, so_far=True)
            return
        yield from self._drawn(self._parts)
        waiting = [*self._turns.waiting.values()]
        most = len(waiting) if self._all_waiting else MOST_WAITING
        for line in waiting_lines(waiting, most, self._detail, is_over=self._is_over):
            text = _text(line)
            text.no_wrap, text.overflow = True, "ellipsis"
            yield text
        if self._spins and self._turns.is_idle and not (waiting or self._is_over):
            yield Text("… idle, waits for a message", "dim")

    def _begin(self, turn: Turn) -> None:
        self._parts.append(_Part(self._grown(self._parts[-1].tree), turn))
        self.last_turn_id = turn.turn_id
        turns = [place for place, part in enumerate(self._parts) if part.turn is not None]
        if self._only is not None:
            self._parts = [part for part in self._parts if self._is_wanted(part) or part.turn is turn]
        elif self._last is not None and len(turns) > self._last:
            self._shorten(turns[-self._last])

    def _shorten(self, first: int) -> None:
        """Leave the turns before a part to a line each, and what is between them out."""
        head, before = self._parts[:1], self._parts[1:first]
        if head[0].turn is not None:
            head, before = [], self._parts[:first]
        earlier = [*self._earlier, *(part.turn for part in before if part.turn is not None)]
        self._left_out += max(0, len(earlier) - LINES)
        self._earlier = earlier[-LINES:]
        self._parts = [*head, *self._parts[first:]]

    def _is_wanted(self, part: _Part) -> bool:
        return part.turn is not None and (self._only is None or self._only in part.turn.names)

    def _drawn(self, parts: Sequence[_Part]) -> Iterator[RenderableType]:
        """The parts; after the first one, which names the run, the turns that are shown on a line each."""
        head = 1 if parts and parts[0].turn is None else 0
        for part in parts[:head]:
            yield from part.drawn(self._detail, so_far=False)
        if self._left_out:
            is_are = "is" if self._left_out == 1 else "are"
            text = f"{counted(self._left_out, 'turn')} before {is_are} left out"
            yield Text(text if self._spins else f"{text}; --last N and --all draw more", "dim")
        yield from (TurnLine(turn) for turn in self._earlier)
        for part in parts[head:]:
            yield from part.drawn(self._detail, so_far=not self._spins)

    def _grown(self, before: RunTree | None = None) -> RunTree:
        return RunTree(
            spins=self._spins,
            whole=self._whole,
            detail=self._detail,
            decisions=self._decisions,
            before=before,
        )


def _text(line: Line) -> Text:
    return Text(line.text, style=line.style)


class _Indented:
    """What is below a heading, indented, without spaces at the ends of its lines."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update(width=max(options.max_width - len(INDENT), 1))
        for line in console.render_lines(self._drawn, inner, pad=False):
            yield Segment(INDENT)
            yield from line
            yield Segment.line()
