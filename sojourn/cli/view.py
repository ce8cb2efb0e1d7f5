"""Show a run as it happens: a live tree on a terminal, plain lines elsewhere.

Text from models, tools and people is printed as text: without control characters, never as markup.
"""

import json
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

from sojourn.contracts.event import Event
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = ["RunView", "plain"]

WIDTH = 160
"""Characters of a payload or result that are shown."""


def plain(value: Any, width: int = WIDTH) -> str:
    """Text from outside in one printable line of bounded width."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= width else line[: width - 1] + "…"


class RunView:
    """Shows the events of one run; a context manager.

    Args:
        console: Where to; a live tree when it is a terminal.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._tree = Tree(Text("run", style="bold"), guide_style="dim")
        self._calls: dict[str, Tree] = {}
        self._live = (
            Live(self._tree, console=self.console, refresh_per_second=8) if self.console.is_terminal else None
        )

    def __enter__(self) -> Self:
        """Start drawing."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave what was drawn on the screen."""
        if self._live:
            self._live.stop()

    def pause(self) -> None:
        """Stop drawing, so that a person can be asked; what was drawn stays."""
        if self._live:
            self._live.stop()
            self._tree = Tree(Text("run, continued", style="bold"), guide_style="dim")
            self._calls = {}

    def resume(self) -> None:
        """Go on drawing, below."""
        if self._live:
            self._live = Live(self._tree, console=self.console, refresh_per_second=8)
            self._live.start()

    def say(self, text: str, style: str = "") -> None:
        """A line of our own."""
        if self._live:
            self._tree.add(Text(text, style=style))
        else:
            self.console.print(Text(text, style=style), soft_wrap=True)

    def show(self, event: Event) -> None:
        """Draw one event."""
        draw = getattr(self, f"_{event.type}", None)
        if draw:
            draw(event)

    def _run_started(self, event: Event) -> None:
        said = plain(event.message.text) if event.message else ""
        self.say(f"{event.agent_id}  {event.run_id}", "bold")
        self.say(f"“{said}”")

    def _planner_note(self, event: Event) -> None:
        self.say(f"· {plain(event.text or '')}", "dim")

    def _limit_reached(self, event: Event) -> None:
        if event.limit:
            self.say(f"! {plain(event.limit.message)}", "yellow")

    def _tool_start(self, event: Event) -> None:
        call = event.call or ToolRequest(name="?")
        line = f"{plain(call.name)} {plain(call.raw if call.raw is not None else call.payload)}"
        if self._live:
            self._calls[call.tool_call_id] = self._tree.add(Spinner("dots", text=Text(line, style="cyan")))
        else:
            self.say(f"→ {line}")

    def _agent_run_started(self, event: Event) -> None:
        if event.run_link and event.call:
            self._under(
                event.call.tool_call_id, f"⤷ child run {event.run_link.run_id} of {event.run_link.agent_id}"
            )

    def _tool_end(self, event: Event) -> None:
        result = event.result
        if result is None:
            return
        took = f" ({event.duration.total_seconds():.2f} s{_attempts(result)})" if event.duration else ""
        branch = self._calls.get(result.tool_call_id)
        if self._live and branch:
            mark = "✓" if result.ok else "✗"
            branch.label = Text(f"{mark} {plain(result.name)}{took}", style="green" if result.ok else "red")
        lines = [_outcome(result)] if self._live else [f"← {plain(result.name)}{took}: {_outcome(result)}"]
        if result.retry_hint:
            lines.append(_repair(result.retry_hint))
        for line in lines:
            self._under(result.tool_call_id, line)

    def _await_clarification(self, event: Event) -> None:
        if event.question:
            self.say(f"? {plain(event.question.question, 1000)}", "bold yellow")

    def _await_answered(self, event: Event) -> None:
        by = f" by {plain(event.by)}" if event.by else ""
        self.say(f"! answered{by}: {plain(event.text or '')}", "yellow")

    def _run_completed(self, event: Event) -> None:
        if event.output:
            limit = "" if event.output.reason == "answered" else f" ({event.output.reason})"
            self.say(f"= {event.output.text}{limit}", "bold green")

    def _run_failed(self, event: Event) -> None:
        self.say(f"✗ {event.type.removeprefix('run_')}: {plain(event.text or '', 1000)}", "bold red")

    _run_canceled = _run_terminated = _run_timed_out = _run_failed

    def _under(self, tool_call_id: str, text: str) -> None:
        branch = self._calls.get(tool_call_id) if self._live else None
        if branch:
            branch.add(Text(text))
        else:
            self.say(f"  {text}" if text[0] in "⤷!" else text)


def _attempts(result: ToolResult) -> str:
    count = result.telemetry.attempts if result.telemetry else 1
    if result.run_link:
        return f", {result.children_count} calls in the child run"
    return f", attempt {count}" if count > 1 else ""


def _outcome(result: ToolResult) -> str:
    if result.error:
        return f"error: {plain(result.error.message, 300)}"
    bounds = result.bounds
    total = "unknown" if bounds and bounds.total is None else bounds and bounds.total
    cut = f"  [{bounds.returned} of {total}]" if bounds and bounds.truncated else ""
    return plain(result.result) + cut


def _repair(hint: RetryHint) -> str:
    said = plain(hint.message or hint.clarifying_question or "", 300)
    example = f"; for example {plain(hint.example_input)}" if hint.example_input else ""
    return f"! hint {hint.reason}: {said}{example}"
