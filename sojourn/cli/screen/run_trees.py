"""Draw the tree of a run on a terminal.

It has the run's calls with their results, and below a call its child run. A conversation is drawn
by its turns, each below a heading. The older ones are drawn on a line each.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sojourn.answers import wait_view
from sojourn.cli.screen.calls import (
    Detail,
    argument_text,
    child_line,
    end_text,
    payload_of,
    pending_text,
    read_line,
    result_lines,
    running_text,
)
from sojourn.cli.screen.lines import decision_lines, edited_lines, is_drawn, lines_of, spoken_lines
from sojourn.cli.screen.text import Line, draft_lines, plain, text_lines
from sojourn.cli.screen.turn_lines import (
    AnswerMarkdown,
    CallLine,
    TurnLine,
    Working,
    heading,
    joined_lines,
    opening_lines,
    received_line,
    summary,
    waiting_lines,
)
from sojourn.cli.screen.waits import texts_of
from sojourn.contracts.awaits import Await
from sojourn.contracts.event import Event, PlannerNoteEvent
from sojourn.contracts.ids import place_of
from sojourn.timeline import (
    Call,
    End,
    Entry,
    Note,
    Plan,
    Timeline,
    TimelineTree,
    UserMessage,
    UserTurn,
    WaitEnd,
    WaitEntry,
)
from sojourn.values.text import count_noun

__all__ = ["INDENT", "LINES", "MOST_ENTRIES", "RunTrees"]

INDENT = "  "

LINES = 20
"""Maximum number of turns with one line each, before those that are drawn whole."""

MOST_WAITING = 10
"""Maximum number of messages without a turn, the first ones."""

MOST_ENTRIES = 100_000
"""Most entries of a run that are drawn."""


class RunTrees:
    """A drawing of a run and its child runs from their events so far."""

    def __init__(
        self,
        run_id: str,
        *,
        spins: bool = False,
        whole: bool = False,
        detail: Detail = Detail.BRIEF,
        last: int | None = None,
        only: str | None = None,
        is_conversation: bool = False,
    ) -> None:
        self._spins, self._whole, self._detail = spins, whole, detail
        self._last, self._only = last, only
        self._all_waiting = last is None and not spins
        self.timelines = TimelineTree(run_id, MOST_ENTRIES, most_records=0, is_conversation=is_conversation)
        self._said: dict[tuple[str, str], list[Line]] = defaultdict(list)
        """Lines that are no event's, by the run and the entry that they follow."""
        self._path, self._path_at = set[str](), -1
        """The keys of the turns of the present branch, and the timeline's version that has them."""
        self._keep: int | None = None
        self._printed = 0
        """Parts that are on the screen for good: the beginning, and then each turn and what follows it."""
        self._begun: UserTurn | None = None
        """The turn whose beginning is on the screen for good."""
        self._after: dict[str, str] = {}
        """By run, the last event that is on the screen for good."""
        self._ended: dict[tuple[str, str], tuple[int, Tree]] = {}
        """The drawings of calls that have ended, by run and call, with their versions."""

    @property
    def last_turn_id(self) -> str:
        return self._turns[-1].id if self._turns else ""

    @property
    def has_drawn(self) -> bool:
        return any(self._is_wanted(turn) for turn in self._turns)

    @property
    def _turns(self) -> Sequence[UserTurn]:
        return self.timelines.top.turns

    def feed(self, event: Event) -> None:
        self.timelines.feed(event)

    def say(self, line: Line, run_id: str = "") -> None:
        """Add a line below the latest entry of a run, by default the one at the top."""
        run = self.timelines.runs.get(run_id) or self.timelines.top
        key = run.run_id, run.entries[-1].key if run.entries else ""
        self._said[key].append(Line(line.text.lstrip(), line.style))

    def go_on(self) -> None:
        """Start a new tree below the one on the screen, in which open turns may end."""
        self._after = {run.run_id: run.last_event_id for run in self.timelines.runs.values()}
        self._printed, self._begun = self._open_part, self.timelines.top.turn
        self._last = None
        self._said.clear()
        self._ended.clear()

    def take_final_parts(self) -> list[RenderableType]:
        """Remove and return the parts that are final: all before the current turn."""
        end = self._open_part
        if end <= self._printed:
            return []
        drawn = [*self._draw_parts(end)]
        self._printed, self._last = end, None
        return drawn

    def keep(self, last: int) -> int:
        """Keep the last lines of each part, and return how many calls are left out."""
        count = 0
        for part in range(self._printed, self._open_part + 1):
            gone = self._tree(part).children[:-last]
            count += sum(isinstance(node.label, CallLine) for node in gone)
        self._keep = last
        return count

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._only is not None:
            for number, turn in enumerate(self._turns):
                if self._is_wanted(turn):
                    yield from self._part(2 * number + 1, so_far=True)
            return
        yield from self._draw_parts(self._open_part + 1)
        top = self.timelines.top
        waiting = [*top.queued.values()]
        most = len(waiting) if self._all_waiting else MOST_WAITING
        for line in waiting_lines(waiting, most, self._detail, is_over=top.is_over):
            text = _text(line)
            text.no_wrap, text.overflow = True, "ellipsis"
            yield text
        if self._spins and top.is_conversation and not (top.turn or waiting or top.is_over):
            yield Text("… idle, waits for a message", "dim")

    # Part 0 comes before the first turn, part 2n - 1 is the nth turn, and part 2n follows that turn.

    @property
    def _open_part(self) -> int:
        turn = self._turns[-1] if self._turns else None
        is_open = turn is not None and not turn.is_over
        return 2 * len(self._turns) - is_open

    def _is_wanted(self, turn: UserTurn) -> bool:
        return self._only is None or self._only in turn.ids

    def _is_left(self, turn: UserTurn) -> bool:
        """Return whether the conversation is in another branch than a turn."""
        top = self.timelines.top
        if self._path_at != top.version:
            self._path, self._path_at = {each.key for each in top.path}, top.version
        return turn.key not in self._path

    def _draw_parts(self, end: int) -> Iterator[RenderableType]:
        begin = self._printed
        if begin == 0:
            yield from self._part(0, so_far=False)
            begin = 1
        if self._last is not None and len(self._turns) > self._last:
            earlier = self._turns[: -self._last]
            if left_out := max(0, len(earlier) - LINES):
                is_are = "is" if left_out == 1 else "are"
                text = f"{count_noun(left_out, 'turn')} before {is_are} left out"
                yield Text(text if self._spins else f"{text}; --last N and --all draw more", "dim")
            yield from (TurnLine(turn, is_left=self._is_left(turn)) for turn in earlier[-LINES:])
            begin = max(begin, 2 * len(earlier) + 1)
        for part in range(begin, end):
            yield from self._part(part, so_far=not self._spins)

    def _part(self, number: int, *, so_far: bool) -> Iterator[RenderableType]:
        tree = self._tree(number)
        if self._keep is not None:
            del tree.children[: -self._keep]
        if number % 2 == 0:
            yield from [tree] if tree.children else []
            return
        turn = self._turns[number // 2]
        if turn is not self._begun:
            yield _text(heading(turn, self._detail, is_left=self._is_left(turn)))
            yield from (_Indented(_text(line)) for line in opening_lines(turn, self._detail))
        if tree.children:
            yield _Indented(tree)
        if turn.end is not None or so_far:
            yield _Indented(_text(summary(turn)))

    def _tree(self, number: int) -> Tree:
        tree: Tree = _PlainTree("", hide_root=True)
        top = self.timelines.top
        if number == 0:
            started = top.started
            if started and self._is_new(top, started.event_id):
                _add(tree, lines_of(started))
            _add(tree, self._said[top.run_id, ""])
            self._draw(tree, top, [each for each in top.entries if _is_before_turns(each, top)])
        elif number % 2:
            self._draw(tree, top, _in_turn(self._turns[number // 2], top))
        else:
            turn = self._turns[number // 2 - 1]
            entries = _after_turn(turn)
            if turn is self._turns[-1] and top.end is not None and top.end.turn is None:
                entries.append(top.end)
            self._draw(tree, top, entries)
        return tree

    # Entries.

    def _is_new(self, run: Timeline, event_id: str) -> bool:
        return place_of(event_id) > place_of(self._after.get(run.run_id, "")) or not event_id

    def _draw(self, branch: Tree, run: Timeline, entries: Sequence[Entry]) -> None:
        """Draw entries, with the notes of a plan below the first call of its step."""
        notes: list[Tree] = []
        for entry in _by_question(entries):
            if isinstance(entry, Call):
                if node := self._call(branch, run, entry):
                    branch.children[:] = [each for each in branch.children if each not in notes]
                    node.children[:0] = notes
                    notes = []
            elif isinstance(entry, Note) and isinstance(entry.event, PlannerNoteEvent):
                notes += self._note(branch, run, entry)
            else:
                notes = [] if isinstance(entry, Plan) else notes
                self._entry(branch, run, entry)
            _add(branch, self._said.get((run.run_id, entry.key), []))

    def _entry(self, branch: Tree, run: Timeline, entry: Entry) -> None:
        match entry:
            case Plan():
                self._plan(branch, run, entry)
            case UserMessage() if self._is_new(run, entry.event_id) and run.is_conversation:
                is_taken = entry.is_in_turn and entry.mode != "interrupt"
                lines = (
                    joined_lines([entry], self._detail) if is_taken else [received_line(entry, self._detail)]
                )
                _add(branch, lines)
            case WaitEntry(wait=wait):
                self._wait(branch, run, wait, entry.event_id, entry.decision)
            case Note():
                self._note(branch, run, entry)
            case End() if self._is_new(run, entry.event_id):
                self._end(branch, run, entry)
            case _:
                pass

    def _is_below(self, run: Timeline) -> bool:
        return run is not self.timelines.top

    def _note(self, branch: Tree, run: Timeline, note: Note) -> list[Tree]:
        if not self._is_new(run, note.event_id) or note.event is run.started:
            return []
        is_shown = is_drawn(note.event, self._detail, is_below=self._is_below(run))
        return _add(branch, lines_of(note.event, whole=self._whole)) if is_shown else []

    def _plan(self, branch: Tree, run: Timeline, plan: Plan) -> None:
        if plan.message and self._is_new(run, plan.message_event_id):
            _add(branch, spoken_lines(plan.message, is_partial=plan.is_partial))
        if not plan.is_open or run.end is not None:
            return
        branch.add(Working(partial(pending_text, plan, run.agent_id), spins=self._spins))
        if plan.draft.text:
            branch.add(Text("\n".join(draft_lines(plan.draft.text)), style="dim"))

    def _wait(
        self, branch: Tree, run: Timeline, wait: Await, event_id: str, decision: WaitEnd | None
    ) -> None:
        if self._is_new(run, event_id):
            view = wait_view(wait, run.run_id)
            _add(branch, texts_of(view).lines(view, self._whole))
        if decision and self._is_new(run, decision.event.event_id):
            _add(branch, decision_lines(decision))

    def _call(self, branch: Tree, run: Timeline, call: Call) -> Tree | None:
        if call.opened:
            self._wait(branch, run, call.opened.wait, call.opened.event_id, call.decision)
            if call.decision is None and self._is_new(run, call.opened.event_id):
                _add(branch, edited_lines(call.opened))
        below = self.timelines.runs.get(call.child.run_id) if call.child else None
        is_new = below is not None and self._is_new(below, below.last_event_id)
        if call.duration is not None:
            if not (is_new or self._is_new(run, call.end_event_id)):
                return None
            known = self._ended.get((run.run_id, call.id))
            node = known[1] if known and known[0] == call.version else self._draw_ended_call(call)
            self._ended[run.run_id, call.id] = call.version, node
            node = _copy(node)
        elif call.started_at and run.end is None:
            node = _PlainTree(Working(partial(running_text, call), spins=self._spins))
        else:
            return None
        branch.children.append(node)
        if call.child:
            results, node.children[:] = list(node.children), []
            _add(node, [child_line(call.child)])
            if below:
                _add(node, self._said.get((below.run_id, ""), []))
                self._draw(node, below, below.entries)
            node.children += results
        return node

    def _draw_ended_call(self, call: Call) -> Tree:
        assert call.result is not None
        mark, style = ("✓", "green") if call.result.ok else ("✗", "red")
        head, tail = f"{mark} {plain(call.result.name)}", f" {end_text(call)}"
        if call.started_at is None:
            node: Tree = _PlainTree(CallLine(head, "", tail, style))
        else:
            node = _PlainTree(CallLine(f"{head}(", argument_text(call.call), f"){tail}", style))
            if self._detail and (read := read_line(call.call)):
                node.add(Text(read, style="yellow"))
            if self._detail and call.call.payload:
                node.add(Text(payload_of(call.call), style="cyan"))
        brief = self._detail == Detail.BRIEF
        _add(node, result_lines(call.result, self._detail), on_one_line=brief and call.result.ok)
        return node

    def _end(self, branch: Tree, run: Timeline, end: End) -> None:
        is_below, output = self._is_below(run), end.output
        if not is_drawn(end.event, self._detail, is_below=is_below):
            return
        if output is None or is_below or output.reason != "answered":
            _add(branch, lines_of(end.event, whole=self._whole))
            return
        lines = [line.text for line in text_lines(output.text, whole=self._whole or bool(self._detail))]
        answer = Table.grid(padding=(0, 1, 0, 0))
        answer.add_row(Text("=", style="bold green"), AnswerMarkdown(lines))
        branch.add(answer)


def _by_question(entries: Sequence[Entry]) -> list[Entry]:
    """Move each call that waits for a decision to its question."""
    ordered = [*entries]
    for call in entries:
        if isinstance(call, Call) and call.opened is not None and call.decision is None:
            asked, at = place_of(call.opened.event_id), ordered.index(call)
            earlier = [
                each for each in ordered[at + 1 :] if each.event_id and place_of(each.event_id) < asked
            ]
            if earlier:
                ordered.remove(call)
                ordered.insert(ordered.index(earlier[-1]) + 1, call)
    return ordered


def _is_before_turns(entry: Entry, run: Timeline) -> bool:
    if isinstance(entry, UserMessage):
        return False  # the start of a run has its message
    return entry.turn is None and not (run.turns and entry is run.end)


def _in_turn(turn: UserTurn, run: Timeline) -> list[Entry]:
    """Return the entries of a turn until its end, with messages that interrupt it."""
    own = [entry for entry in turn.entries if entry not in turn.messages]
    end = next((place for place, entry in enumerate(own) if isinstance(entry, End)), len(own))
    first = place_of(turn.key)
    last = place_of(own[end].event_id) if end < len(own) else None
    interrupts = [
        entry
        for entry in run.entries
        if isinstance(entry, UserMessage)
        and entry.mode == "interrupt"
        and entry.turn is not turn
        and place_of(entry.event_id) > first
        and (last is None or place_of(entry.event_id) < last)
    ]
    if not interrupts:
        return own[: end + 1]
    return sorted(chain(own[: end + 1], interrupts), key=lambda entry: place_of(entry.event_id))


def _after_turn(turn: UserTurn) -> list[Entry]:
    end = next((place for place, entry in enumerate(turn.entries) if isinstance(entry, End)), None)
    return [] if end is None else turn.entries[end + 1 :]


class _PlainTree(Tree):
    """A tree without guide lines, so that the user can copy text from it."""

    ASCII_GUIDES = ("  ",) * 4  # pyright: ignore[reportAssignmentType]
    TREE_GUIDES = [("  ",) * 4] * 3  # pyright: ignore[reportAssignmentType]


class _Indented:
    """Indented content without spaces at the ends of its lines."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update(width=max(options.max_width - len(INDENT), 1))
        for line in console.render_lines(self._drawn, inner, pad=False):
            yield Segment(INDENT)
            yield from line
            yield Segment.line()


def _copy(node: Tree) -> Tree:
    copy = _PlainTree(node.label)
    copy.children[:] = node.children
    return copy


def _add(branch: Tree, lines: Sequence[Line], *, on_one_line: bool = False) -> list[Tree]:
    """Add lines to a branch. An indented line belongs to the node before it."""
    nodes: list[Tree] = []
    label = Text()
    for line in lines:
        if label and line.text.startswith(" "):
            label.append("\n").append_text(_text(line))
        else:
            label = _text(line)
            if on_one_line:
                label.no_wrap, label.overflow = True, "ellipsis"
            shown: RenderableType = label
            nodes.append(branch.add(shown))
    return nodes


def _text(line: Line) -> Text:
    return Text(line.text, style=line.style)
