"""Tree of a run: its calls with their results, below an agent tool's call those of the child run, and the text of drafts."""

from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

from sojourn.cli.screen.lines import called, detailed, ended, in_flight, lines_of
from sojourn.cli.screen.text import Line, plain
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    Event,
    RunFailedEvent,
    RunStartedEvent,
    TextDeltaEvent,
    ToolEndEvent,
    ToolRetryEvent,
    ToolStartEvent,
    ToolUpdateEvent,
)

__all__ = ["MAX_LINES", "Draft", "RunTree"]

MAX_LINES = 12
"""Most lines of a draft that are shown, the last ones."""

MAX_CHARS = 2_000
"""Most characters of a draft that are kept, the last ones."""

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
)
"""Types of events that end a draft: the text follows in full, or a new draft begins."""


class RunTree:
    """A tree that grows with the events of a run and its child runs.

    Args:
        title: The label of the root.
        spins: Whether calls in flight have a spinner.
        whole: Whether to show all of a wait, however long.
    """

    def __init__(self, title: str = "run", *, spins: bool = False, whole: bool = False) -> None:
        self.tree = Tree(Text(title, style="bold"), guide_style="dim")
        self._spins = spins
        self._whole = whole
        self._runs: dict[str, Tree] = {}
        self._calls: dict[tuple[str, str], tuple[Tree, str]] = {}
        self._drafts: dict[str, tuple[Tree, Tree, Draft]] = {}
        """The draft of each run: the branch that holds it, its node and its text."""

    def say(self, line: Line, run_id: str = "") -> None:
        """Add a line to the branch of a child run; of any other run, to the root."""
        self._runs.get(run_id, self.tree).add(_text(Line(line.text.lstrip(), line.style)))

    def feed(self, event: Event) -> None:
        """Draw one event."""
        if event.type in DRAFT_ENDS and event.run_id in self._drafts:
            branch, drawn, _ = self._drafts.pop(event.run_id)
            branch.children.remove(drawn)
        match event:
            case TextDeltaEvent():
                self._grow(event)
            case ToolStartEvent():
                self._begin(event)
            case ToolEndEvent():
                self._end(event)
            case ToolRetryEvent() | ToolUpdateEvent():
                self._update(event)
            case AgentRunStartedEvent():
                branch, _ = self._calls.get((event.run_id, event.tool_call_id), (self.tree, ""))
                self._runs[event.run_link.run_id] = branch
                self._add(branch, lines_of(event))
            case RunStartedEvent() if event.run_id in self._runs:
                pass  # the child run's call already shows the task
            case RunFailedEvent() if event.run_id in self._runs:
                pass  # the end of the child run's call shows the error
            case _:
                self._add(self._runs.get(event.run_id, self.tree), lines_of(event, whole=self._whole))

    def _grow(self, event: TextDeltaEvent) -> None:
        if event.run_id not in self._drafts:
            branch = self._runs.get(event.run_id, self.tree)
            self._drafts[event.run_id] = (branch, branch.add(""), Draft())
        _, drawn, draft = self._drafts[event.run_id]
        draft.add(event.text)
        drawn.label = Text("\n".join(draft.lines()), style="dim")

    def _begin(self, event: ToolStartEvent) -> None:
        text = called(event)
        branch = self._runs.get(event.run_id, self.tree).add(self._in_flight_label(text))
        self._calls[event.run_id, event.tool_call_id] = (branch, text)

    def _end(self, event: ToolEndEvent) -> None:
        known = self._calls.pop((event.run_id, event.tool_call_id), None)
        ok = event.result.ok
        label = Text(f"{'✓' if ok else '✗'} {ended(event)}", style="green" if ok else "red")
        if known is None:  # the call began in the tree before a pause
            branch = self._runs.get(event.run_id, self.tree).add(label)
        else:
            branch, text = known
            branch.label = label
            payload = text.partition(" ")[2]
            if payload not in ("", "{}"):
                branch.children.insert(0, Tree(Text(payload, style="cyan"), guide_style="dim"))
        self._add(branch, detailed(event))

    def _update(self, event: ToolRetryEvent | ToolUpdateEvent) -> None:
        known = self._calls.get((event.run_id, event.tool_call_id))
        if known is None:
            return
        branch, text = known
        branch.label = self._in_flight_label(f"{text}  {in_flight(event)}")

    def _in_flight_label(self, text: str) -> Spinner | Text:
        label = Text(text, style="cyan")
        return Spinner("dots", text=label) if self._spins else Text("… ") + label

    @staticmethod
    def _add(branch: Tree, lines: list[Line]) -> None:
        label = Text()
        for line in lines:
            if label and line.text.startswith(" "):  # belongs to the line before
                label.append("\n").append_text(_text(line))
            else:
                label = _text(line)
                branch.add(label)


class Draft:
    """The last lines of the text that a model is writing."""

    def __init__(self) -> None:
        self._end = ""
        self._is_cut = False

    def add(self, piece: str) -> None:
        """Append a piece of text."""
        grown = self._end + piece
        self._is_cut = self._is_cut or len(grown) > MAX_CHARS
        self._end = grown[-MAX_CHARS:]

    def lines(self) -> list[str]:
        """Return the last lines, safe to print; `…` stands for the text before."""
        lines = self._end.splitlines()
        cut = self._is_cut or len(lines) > MAX_LINES
        return [*(["…"] if cut else []), *(plain(line, MAX_CHARS) for line in lines[-MAX_LINES:])]


def _text(line: Line) -> Text:
    return Text(line.text, style=line.style)
