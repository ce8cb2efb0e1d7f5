"""Print a run as it happens, as a live tree on a terminal or as plain lines.

Text from models, tools and people is printed as text: without control characters, never as markup.
"""

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sojourn.cli.screen.calls import Detail, called, detailed, ended, in_flight, payload_of, read_line
from sojourn.cli.screen.lines import is_drawn, lines_of
from sojourn.cli.screen.run_trees import RunTrees, grow
from sojourn.cli.screen.text import Line, plain
from sojourn.cli.screen.turn_lines import (
    heading,
    joined_lines,
    opening_lines,
    received_line,
    summary,
    waiting_lines,
)
from sojourn.contracts.event import (
    Event,
    MessageReceivedEvent,
    ToolEndEvent,
    ToolRetryEvent,
    ToolStartEvent,
    ToolUpdateEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.timeline import TimelineTree, UserMessage, UserTurn, is_run_end, is_turn_end

__all__ = ["RunView"]

INDENT = "  "

REDRAWN_AFTER = 1 / 8
"""Seconds between two drawings of a live tree, for its spinners."""


class RunView:
    """A display of the events of one run and its child runs.

    Use it as a context manager, in an event loop if it draws a live tree.

    Args:
        console: The console to print to: a live tree on a terminal, plain lines elsewhere. Standard output by default.
        detail: The detail in which to show calls.
        is_tree: Whether a terminal gets a live tree; with False it gets lines too, and a message of a conversation is
            shown when it is accepted, not with its turn.
    """

    def __init__(
        self, console: Console | None = None, detail: Detail = Detail.BRIEF, *, is_tree: bool = True
    ) -> None:
        self.console = console or Console(highlight=False)
        self._detail = detail
        self._tree = RunTrees(spins=True, detail=detail)
        self._timelines: TimelineTree | None = None
        """What was printed as lines, as timelines."""
        self._has_turns = is_tree
        self._is_held = False
        self._live = self._drawing() if self.console.is_terminal and is_tree else None
        self._redrawing: asyncio.TimerHandle | None = None
        self._said: set[str] = set()
        self._shown_turn: UserTurn | None = None

    @property
    def is_live(self) -> bool:
        """Whether the view is a live tree, which is redrawn as it changes."""
        return self.console.is_terminal

    def __enter__(self) -> Self:
        """Start drawing."""
        self.resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing. The last drawing stays on the screen."""
        self._stop()

    def hold(self, last: int) -> None:
        """Draw nothing until `release`, or until the user is prompted.

        Then draw the last turns in full, and those before them on a line each.
        """
        if self._live:
            self._is_held = True
            self._tree = RunTrees(spins=True, detail=self._detail, last=last)

    def release(self) -> None:
        """Draw the held events, and from now on each event."""
        self._is_held = False
        self._print_done()

    def pause(self) -> None:
        """Stop drawing, so that the user can be prompted.

        The last drawing stays on the screen.
        """
        if self._live:
            self.release()
            self._stop()
            self._tree.go_on()

    def resume(self) -> None:
        """Continue in a new tree, below the prompt."""
        if self._live:
            self._live = self._drawing()
            self._live.start()
            self._redraw(self._live)

    def say(self, text: str, style: str = "", *, once: bool = False) -> None:
        """Print a line that belongs to no event.

        With `once`, a line that was printed before is skipped.
        """
        if once and text in self._said:
            return
        self._said.add(text)
        if self._live:
            self._tree.say(Line(text, style))
        else:
            self._print(text, style)

    def show(self, event: Event) -> None:
        """Draw one event."""
        if self._live:
            self._tree.feed(event)
            self._print_done()
            return
        timelines = self._timelines = grow(self._timelines, event)
        turn = _turn_of(event, timelines) if self._has_turns else None
        pad = INDENT * (_depth(event.run_id, timelines) + (turn is not None))
        if turn and turn is not self._shown_turn:
            self._shown_turn = turn
            self._print(*heading(turn, self._detail))
            for line in opening_lines(turn, self._detail):
                self._print(pad + line.text, line.style)
        shown = self._lines_in_turns(event, timelines) if self._has_turns else self._lines(event, timelines)
        for line in shown:
            self._print(pad + line.text, line.style)

    def _drawing(self) -> Live:
        # Rich's thread would write the tree between the lines that are printed above it, as it holds no lock from cursor to text.
        return Live(get_renderable=self._shown, console=self.console, auto_refresh=False)

    def _redraw(self, live: Live) -> None:
        live.refresh()
        self._redrawing = asyncio.get_running_loop().call_later(REDRAWN_AFTER, self._redraw, live)

    def _stop(self) -> None:
        if self._redrawing:
            self._redrawing.cancel()
        if self._live:
            self._live.stop()

    def _shown(self) -> RenderableType:
        return Text("reading what was said before …", "dim") if self._is_held else self._tree

    def _print_done(self) -> None:
        """Print the final parts above the live tree, which has to fit the screen."""
        if self._live and not self._is_held and (done := self._tree.done()):
            self.console.print(Group(*done))

    def _lines_in_turns(self, event: Event, timelines: TimelineTree) -> Iterator[Line]:
        """Yield the lines of an event, with a message shown when a turn takes it."""
        top = timelines.top
        match event:
            case MessageReceivedEvent():
                if top.turn is not None and (message := top.queued.get(event.message_id)):
                    yield received_line(message, self._detail)
            case TurnStartedEvent():
                pass
            case TurnSteeredEvent():
                yield from joined_lines(_messages(top.turn, event), self._detail)
            case TurnCompletedEvent() | TurnFailedEvent():
                yield from self._lines(event, timelines)
                if self._shown_turn is not None:
                    yield summary(self._shown_turn)
            case _:
                yield from self._lines(event, timelines)
                if event.type == "run_stream_end" and event.run_id == top.run_id:
                    waiting = [*top.queued.values()]
                    yield from waiting_lines(waiting, len(waiting), self._detail, is_over=True)

    def _lines(self, event: Event, timelines: TimelineTree) -> list[Line]:
        if not is_drawn(event, self._detail, is_below=event.run_id in timelines.parents):
            return []
        match event:
            case ToolStartEvent():
                payload = [Line(f"  {payload_of(event.call)}")] if self._detail and event.call.payload else []
                read = read_line(event.call) if self._detail else ""
                return [
                    Line(f"→ {called(event.call)}"),
                    *payload,
                    *([Line(f"  {read}", "yellow")] if read else []),
                ]
            case ToolEndEvent():
                first, *rest = detailed(event.result, self._detail)
                call = timelines.runs[event.run_id].call(event.tool_call_id)
                how = ended(call) if call else ""
                head = Line(f"← {plain(event.result.name)} {how}: {first.text}", first.style)
                return [head, *(Line(f"  {line.text}", line.style) for line in rest)]
            case ToolRetryEvent() | ToolUpdateEvent():
                what = event.tool_name or "the planner"
                return [Line(f"  … {what}: {in_flight(event)}", "dim")]
            case _:
                return lines_of(event)

    def _print(self, text: str, style: str) -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)


def _turn_of(event: Event, timelines: TimelineTree) -> UserTurn | None:
    """Return the turn that is under way, or that an event has ended."""
    top = timelines.top
    is_end = event.run_id == top.run_id and (is_turn_end(event) or is_run_end(event))
    if is_end and top.turns and top.turns[-1].version == top.version:
        return top.turns[-1]
    return top.turn


def _depth(run_id: str, timelines: TimelineTree) -> int:
    depth = 0
    while run_id in timelines.parents:
        run_id, depth = timelines.parents[run_id][0], depth + 1
    return depth


def _messages(turn: UserTurn | None, event: TurnSteeredEvent) -> list[UserMessage]:
    """Return the messages that joined a turn by an event."""
    entries = turn.entries if turn else []
    return [
        each for each in entries if isinstance(each, UserMessage) and each.message_id in event.message_ids
    ]
