"""A run as a tree: its calls, under an agent tool's call those of the child run, what each gave, and what is being said."""

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
"""Lines that are shown."""

MAX_CHARS = 2_000
"""Characters that are kept."""

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
"""With each of these a draft no longer holds: it is told in full, or begins anew."""


class RunTree:
    """Grows by the events of a run and its child runs.

    Args:
        title: What stands at its root.
        spins: Whether calls that are not over turn.
        whole: All that a person decides on or answers, however long.
    """

    def __init__(self, title: str = "run", *, spins: bool = False, whole: bool = False) -> None:
        self.tree = Tree(Text(title, style="bold"), guide_style="dim")
        self._spins = spins
        self._whole = whole
        self._runs: dict[str, Tree] = {}
        self._calls: dict[tuple[str, str], tuple[Tree, str]] = {}
        self._drafts: dict[str, tuple[Tree, Tree, Draft]] = {}
        """What runs are saying: under which branch, drawn where, and what."""

    def say(self, line: Line, run_id: str = "") -> None:
        """A line of a run; of no run in particular, at the root."""
        self._runs.get(run_id, self.tree).add(_drawn(line))

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
                self._tell(event)
            case AgentRunStartedEvent():
                branch, _ = self._calls.get((event.run_id, event.tool_call_id), (self.tree, ""))
                self._runs[event.run_link.run_id] = branch
                self._add(branch, lines_of(event))
            case RunStartedEvent() if event.run_id in self._runs:
                pass  # its call, above, says what it is about
            case RunFailedEvent() if event.run_id in self._runs:
                pass  # the end of its call, below, says why
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
        branch = self._runs.get(event.run_id, self.tree).add(self._turning(text))
        self._calls[event.run_id, event.tool_call_id] = (branch, text)

    def _end(self, event: ToolEndEvent) -> None:
        known = self._calls.pop((event.run_id, event.tool_call_id), None)
        ok = event.result.ok
        label = Text(f"{'✓' if ok else '✗'} {ended(event)}", style="green" if ok else "red")
        if known is None:  # it began in a tree above
            branch = self._runs.get(event.run_id, self.tree).add(label)
        else:
            branch, text = known
            branch.label = label
            payload = text.partition(" ")[2]
            if payload not in ("", "{}"):
                branch.children.insert(0, Tree(Text(payload, style="cyan"), guide_style="dim"))
        self._add(branch, detailed(event))

    def _tell(self, event: ToolRetryEvent | ToolUpdateEvent) -> None:
        known = self._calls.get((event.run_id, event.tool_call_id))
        if known is None:
            return
        branch, text = known
        branch.label = self._turning(f"{text}  {in_flight(event)}")

    def _turning(self, text: str) -> Spinner | Text:
        label = Text(text, style="cyan")
        return Spinner("dots", text=label) if self._spins else Text("… ") + label

    @staticmethod
    def _add(branch: Tree, lines: list[Line]) -> None:
        for line in lines:
            branch.add(_drawn(line))


class Draft:
    """The end of what a model is saying, in a few lines: grows piece by piece."""

    def __init__(self) -> None:
        self._end = ""
        self._is_cut = False

    def add(self, piece: str) -> None:
        """Take the next piece."""
        grown = self._end + piece
        self._is_cut = self._is_cut or len(grown) > MAX_CHARS
        self._end = grown[-MAX_CHARS:]

    def lines(self) -> list[str]:
        """The last lines, harmless to print."""
        lines = self._end.splitlines()
        cut = self._is_cut or len(lines) > MAX_LINES
        return [*(["…"] if cut else []), *(plain(line, MAX_CHARS) for line in lines[-MAX_LINES:])]


def _drawn(line: Line) -> Text:
    return Text(line.text, style=line.style)
