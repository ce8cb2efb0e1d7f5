"""Tree of a run: its calls with their results, below an agent tool's call those of the child run, and what its planner does."""

from functools import partial

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sojourn.cli.screen.answer import Answer
from sojourn.cli.screen.calls import (
    Detail,
    arguments,
    called,
    detailed,
    ended,
    in_flight,
    payload_of,
    pending,
    read_line,
)
from sojourn.cli.screen.decisions import Decisions
from sojourn.cli.screen.draft import Draft
from sojourn.cli.screen.lines import is_drawn, lines_of
from sojourn.cli.screen.one_line import CallLine, Working
from sojourn.cli.screen.text import Line, plain, text_lines
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    Event,
    PlannerNoteEvent,
    PlanStartedEvent,
    RunCompletedEvent,
    TextDeltaEvent,
    ToolEndEvent,
    ToolRetryEvent,
    ToolStartEvent,
    ToolUpdateEvent,
    TurnCompletedEvent,
)

__all__ = ["RunTree"]

DRAFT_ENDS = (
    "assistant_message",
    "await_clarification",
    "plan_started",
    "run_canceled",
    "run_completed",
    "run_failed",
    "run_terminated",
    "run_timed_out",
    "stream_restarted",
    "turn_failed",
)
"""Types of events that end a draft: the text follows in full, or a new draft begins."""


class RunTree:
    """A tree that grows with the events of a run and its child runs; what is below is indented.

    Args:
        spins: Whether work in progress has a spinner.
        whole: Whether to show all of a wait and of an answer, however long.
        detail: How much of a call is shown.
        decisions: Who denied calls before this tree began; by default nobody did.
        before: The tree that this one goes on from, whose calls may end here.
    """

    def __init__(
        self,
        *,
        spins: bool = False,
        whole: bool = False,
        detail: Detail = Detail.BRIEF,
        decisions: Decisions | None = None,
        before: "RunTree | None" = None,
    ) -> None:
        self.tree: Tree = _Indented("", hide_root=True)
        self._spins, self._whole, self._detail = spins, whole, detail
        self._decisions = decisions or Decisions()
        self._runs: dict[str, Tree] = {}
        self._calls: dict[tuple[str, str], tuple[Tree, ToolStartEvent]] = {}
        self.begun: dict[tuple[str, str], ToolStartEvent] = before.begun if before else {}
        """The calls in progress, also those that began in the tree before."""
        self.above: dict[str, tuple[str, str]] = before.above if before else {}
        """The run and the call above each child run, also of those in the tree before."""
        self._drafts: dict[str, tuple[Tree, Tree, Draft]] = {}
        """The draft of each run: the branch that holds it, its node and its text."""
        self._plans: dict[str, tuple[Tree, Tree, PlanStartedEvent]] = {}
        """The plan in progress of each run: the branch that holds it, its node and its start."""
        self._notes: dict[str, list[Tree]] = {}
        """The notes of each run's plan, until its first call takes them."""

    def say(self, line: Line, run_id: str = "") -> None:
        """Add a line to the branch of a child run; of any other run, to the root."""
        self._branch(run_id).add(_text(Line(line.text.lstrip(), line.style)))

    def draw(self, lines: list[Line]) -> None:
        """Add lines to the root; an indented line belongs to the line before."""
        _add(self.tree, lines)

    def keep(self, last: int) -> int:
        """Keep only the last lines and calls of the root, with what is below each; return how many calls are left out."""
        left_out = self.tree.children[:-last]
        del self.tree.children[:-last]
        return sum(isinstance(node.label, CallLine) for node in left_out)

    def feed(self, event: Event) -> None:
        """Draw one event."""
        self._decisions.feed(event)
        self._clear(event)
        if not is_drawn(event, self._detail, is_below=event.run_id in self.above):
            return
        branch = self._branch(event.run_id)
        match event:
            case TextDeltaEvent():
                self._grow(event)
            case PlanStartedEvent():
                node = branch.add(Working(partial(pending, event.time), spins=self._spins))
                self._plans[event.run_id] = (branch, node, event)
                self._notes[event.run_id] = []
            case PlannerNoteEvent():
                self._notes.setdefault(event.run_id, []).extend(_add(branch, lines_of(event)))
            case ToolStartEvent():
                self._begin(event)
            case ToolEndEvent():
                self._end(event)
            case ToolRetryEvent() | ToolUpdateEvent():
                self._update(event)
            case AgentRunStartedEvent():
                child_run_id = event.run_link.run_id
                self.above[child_run_id] = (event.run_id, event.tool_call_id)
                _add(self._branch(child_run_id), lines_of(event))
            case RunCompletedEvent() | TurnCompletedEvent():
                self._complete(event)
            case _:
                _add(branch, lines_of(event, whole=self._whole))

    def _branch(self, run_id: str) -> Tree:
        """The node of the call above a run, drawn once more where it began in the tree before; the root of any other run."""
        above = self.above.get(run_id)
        if above and run_id not in self._runs and (begun := self.begun.get(above)):
            self._runs[run_id] = self._calls[above][0] if above in self._calls else self._draw(begun)
        return self._runs.get(run_id, self.tree)

    def _clear(self, event: Event) -> None:
        """Take away what was drawn of a plan in progress, and of its text, once the event says more."""
        if event.type in DRAFT_ENDS:
            _drop(self._drafts.pop(event.run_id, None))
        if event.event_id and not isinstance(event, PlannerNoteEvent):
            _drop(self._plans.pop(event.run_id, None))

    def _grow(self, event: TextDeltaEvent) -> None:
        if event.run_id not in self._drafts:
            branch = self._branch(event.run_id)
            self._drafts[event.run_id] = (branch, branch.add(""), Draft())
        _, drawn, draft = self._drafts[event.run_id]
        draft.add(event.text)
        drawn.label = Text("\n".join(draft.lines()), style="dim")

    def _begin(self, event: ToolStartEvent) -> None:
        """Draw a call; below the first call of a step stand the notes of its plan."""
        self.begun[event.run_id, event.tool_call_id] = event
        branch, node = self._branch(event.run_id), self._draw(event)
        for note in self._notes.pop(event.run_id, []):
            branch.children.remove(note)
            node.children.append(note)

    def _draw(self, event: ToolStartEvent) -> Tree:
        node = self._branch(event.run_id).add(Working(partial(called, event), spins=self._spins))
        self._calls[event.run_id, event.tool_call_id] = (node, event)
        return node

    def _end(self, event: ToolEndEvent) -> None:
        node, _ = self._calls.pop((event.run_id, event.tool_call_id), (None, None))
        begun = self.begun.pop((event.run_id, event.tool_call_id), None)
        node = node or self._branch(event.run_id).add("")  # the call began in the tree before a pause
        mark, style = ("✓", "green") if event.result.ok else ("✗", "red")
        tail = f" {ended(event, self._decisions.denied_by(event))}"
        head = f"{mark} {plain(event.result.name)}"
        if begun is None:
            node.label = CallLine(head, "", tail, style)
        else:
            node.label = CallLine(f"{head}(", arguments(begun.call), f"){tail}", style)
            if self._detail and begun.call.payload:
                node.children.insert(0, Tree(Text(payload_of(begun.call), style="cyan")))
            if self._detail and (read := read_line(begun.call)):
                node.children.insert(0, Tree(Text(read, style="yellow")))
        brief = self._detail == Detail.BRIEF
        _add(node, detailed(event, self._detail), on_one_line=brief and event.result.ok)

    def _update(self, event: ToolRetryEvent | ToolUpdateEvent) -> None:
        if not event.tool_call_id and event.run_id in self._plans:
            _, node, begun = self._plans[event.run_id]
            node.label = Working(partial(pending, begun.time, event), spins=self._spins)
        elif known := self._calls.get((event.run_id, event.tool_call_id)):
            node, start = known
            node.label = Working(
                lambda: f"{called(start)}  {in_flight(event)}",
                spins=self._spins,
            )

    def _complete(self, event: RunCompletedEvent | TurnCompletedEvent) -> None:
        """Draw the answer, that of the run itself, or of its turn, as Markdown."""
        output = event.output
        if output is None or event.run_id in self.above or output.reason != "answered":
            _add(self._branch(event.run_id), lines_of(event, whole=self._whole))
            return
        lines = [line.text for line in text_lines(output.text, whole=self._whole or bool(self._detail))]
        answer = Table.grid(padding=(0, 1, 0, 0))
        answer.add_row(Text("=", style="bold green"), Answer(lines))
        self.tree.add(answer)


class _Indented(Tree):
    """A tree that indents by two spaces, and draws no lines: what is copied from it is text."""

    ASCII_GUIDES = ("  ",) * 4  # pyright: ignore[reportAssignmentType]
    TREE_GUIDES = [("  ",) * 4] * 3  # pyright: ignore[reportAssignmentType]


def _drop(drawn: tuple[Tree, Tree, object] | None) -> None:
    if drawn:
        branch, node, _ = drawn
        branch.children.remove(node)


def _add(branch: Tree, lines: list[Line], *, on_one_line: bool = False) -> list[Tree]:
    """Add lines to a branch, and return their nodes; an indented line belongs to the line before."""
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
