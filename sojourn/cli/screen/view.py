"""Print a run as it happens, as a live tree on a terminal or as plain lines.

Text from models, tools and people is printed as text: without control characters, never as markup.
"""

import asyncio
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sojourn.answers import wait_view
from sojourn.cli.screen.calls import (
    Detail,
    call_text,
    child_line,
    end_text,
    payload_of,
    progress_text,
    read_line,
    result_lines,
)
from sojourn.cli.screen.lines import decision_lines, is_drawn, lines_of, spoken_lines
from sojourn.cli.screen.run_trees import INDENT, MOST_ENTRIES, RunTrees
from sojourn.cli.screen.text import Line, plain
from sojourn.cli.screen.turn_lines import (
    heading,
    joined_lines,
    opening_lines,
    received_line,
    summary,
    waiting_lines,
)
from sojourn.cli.screen.waits import texts_of
from sojourn.contracts.event import Event
from sojourn.timeline import (
    Call,
    End,
    EntryChange,
    Note,
    Plan,
    Timeline,
    TimelineTree,
    UserMessage,
    UserTurn,
    WaitEntry,
)

__all__ = ["RunView", "change_lines"]

REDRAWN_AFTER = 1 / 8
"""Seconds between two drawings of a live tree, for its spinners."""


class RunView:
    """Displays the events of a run. A live tree needs an event loop."""

    def __init__(self, run_id: str, console: Console | None = None, detail: Detail = Detail.BRIEF) -> None:
        self.console = console or Console(highlight=False)
        self._run_id, self._detail = run_id, detail
        self._tree = RunTrees(run_id, spins=True, detail=detail)
        self._lines = _RunLines(run_id, detail)
        self._is_held = False
        self._live = self._drawing() if self.console.is_terminal else None
        self._redrawing: asyncio.TimerHandle | None = None
        self._said: set[str] = set()

    @property
    def is_live(self) -> bool:
        return self.console.is_terminal

    @property
    def timeline(self) -> Timeline:
        return (self._tree if self._live else self._lines).timelines.top

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def hold(self, last: int) -> None:
        """Draw nothing until `release` or a prompt, then only the last turns in full."""
        if self._live:
            self._is_held = True
            self._tree = RunTrees(self._run_id, spins=True, detail=self._detail, last=last)

    def release(self) -> None:
        """Draw the held events, and from now on each event."""
        self._is_held = False
        self._print_done()

    def pause(self) -> None:
        """Stop drawing for a prompt. The last drawing stays on the screen."""
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
        """Print a line that belongs to no event, with `once` only the first time."""
        if once and text in self._said:
            return
        self._said.add(text)
        if self._live:
            self._tree.say(Line(text, style))
        else:
            self._print(text, style)

    def show(self, event: Event) -> None:
        if self._live:
            self._tree.feed(event)
            self._print_done()
            return
        for line in self._lines.of(event):
            self._print(line.text, line.style)

    def _drawing(self) -> Live:
        # Rich's thread would write the tree between the lines that are printed above it, as it holds no lock from cursor to text.
        return Live(get_renderable=self._render, console=self.console, auto_refresh=False)

    def _redraw(self, live: Live) -> None:
        live.refresh()
        self._redrawing = asyncio.get_running_loop().call_later(REDRAWN_AFTER, self._redraw, live)

    def _stop(self) -> None:
        if self._redrawing:
            self._redrawing.cancel()
        if self._live:
            self._live.stop()

    def _render(self) -> RenderableType:
        return Text("reading what was said before …", "dim") if self._is_held else self._tree

    def _print_done(self) -> None:
        """Print the final parts above the live tree, which has to fit the screen."""
        if self._live and not self._is_held and (done := self._tree.take_final_parts()):
            self.console.print(Group(*done))

    def _print(self, text: str, style: str) -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)


class _RunLines:
    """The events of a run as lines, with each message shown when a turn takes it."""

    def __init__(self, run_id: str, detail: Detail) -> None:
        self.timelines = TimelineTree(run_id, MOST_ENTRIES, most_records=0)
        self._detail = detail
        self._shown_turn: UserTurn | None = None

    def of(self, event: Event) -> Iterator[Line]:
        top, was_over = self.timelines.top, self.timelines.top.is_over
        changes = self.timelines.feed(event)
        run = self.timelines.runs.get(event.run_id)
        if run is None:
            return
        ends = [each.entry for each in changes if run is top and isinstance(each.entry, End)]
        turn = top.turn or next((end.turn for end in ends), None)
        pad = INDENT * (self.timelines.depth(event.run_id) + (turn is not None))
        if turn is not None and turn is not self._shown_turn:
            self._shown_turn = turn
            yield heading(turn, self._detail)
            yield from _indent(opening_lines(turn, self._detail), pad)
        if event is run.started:
            yield from _indent(lines_of(event) if run is top else [], pad)
            return
        for change in changes:
            yield from _indent(self._lines_of(change, run), pad)
        if top.is_over and not was_over:
            waiting = [*top.queued.values()]
            yield from waiting_lines(waiting, len(waiting), self._detail, is_over=True)

    def _lines_of(self, change: EntryChange, run: Timeline) -> list[Line]:
        match change.entry:
            case UserMessage() as message:
                return self._message_lines(message, run) if run is self.timelines.top else []
            case End(is_of_turn=True) if self._shown_turn is not None:
                lines = change_lines(change, run, self._detail, is_below=run is not self.timelines.top)
                return [*lines, summary(self._shown_turn)]
            case _:
                return change_lines(change, run, self._detail, is_below=run is not self.timelines.top)

    def _message_lines(self, message: UserMessage, run: Timeline) -> list[Line]:
        if not run.turn or run.turn.born == run.version:
            return []  # the turn that opens shows it
        joined = message.is_in_turn
        return joined_lines([message], self._detail) if joined else [received_line(message, self._detail)]


def change_lines(change: EntryChange, run: Timeline, detail: Detail, *, is_below: bool) -> list[Line]:
    """Return the lines of a change that is not about a message of a user."""
    match change.entry, change.kind:
        case (Note() | End()) as entry, "added":
            return lines_of(entry.event) if is_drawn(entry.event, detail, is_below=is_below) else []
        case Plan(message=message), "spoken" if message:
            return spoken_lines(message)
        case Call() as call, "started":
            return _start_lines(call, detail)
        case Call(child=link), "child_started" if link:
            return [child_line(link)]
        case Call() as call, "ended" if call.result:
            first, *rest = result_lines(call.result, detail)
            head = Line(f"← {plain(call.result.name)} {end_text(call)}: {first.text}", first.style)
            return [head, *_indent(rest, INDENT)]
        case (Call() | Plan()) as entry, "retried" | "progressed":
            what = entry.call.name if isinstance(entry, Call) else "the planner"
            return [Line(f"  … {what}: {progress_text(entry, run.agent_id)}", "dim")]
        case (Call() | WaitEntry()) as entry, "asked" if entry.wait:
            view = wait_view(entry.wait, run.run_id)
            return texts_of(view).lines(view, False)
        case (Call() | WaitEntry()) as entry, "answered" if entry.decision:
            return decision_lines(entry.decision)
        case _:
            return []


def _start_lines(call: Call, detail: Detail) -> list[Line]:
    lines = [Line(f"→ {call_text(call.call)}")]
    if detail and call.call.payload:
        lines.append(Line(f"  {payload_of(call.call)}"))
    if detail and (read := read_line(call.call)):
        lines.append(Line(f"  {read}", "yellow"))
    return lines


def _indent(lines: Iterable[Line], pad: str) -> Iterator[Line]:
    return (Line(pad + line.text, line.style) for line in lines)
