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

    def _retries_stopped(self, event: Event) -> None:
        for number, line in enumerate(event.limit.message.splitlines() if event.limit else []):
            self.say(f"{'  ' if number else '! '}{plain(line, 300)}", "yellow")

    def _policy_decision(self, event: Event) -> None:
        if event.decision:
            said = event.decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
            why = f"{plain(event.decision.reason)}: " if event.decision.reason else ""
            self.say(f"§ policy: {why}{plain(said)}", "dim")

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
            asker = f"{plain(event.question.server)} asks: " if event.question.server else ""
            self.say(f"? {asker}{plain(event.question.question, 1000)}", "bold yellow")

    def _await_confirmation(self, event: Event) -> None:
        call = event.confirmation
        if call:
            self.say(f"? {plain(call.prompt, 1000)}", "bold yellow")
            self.say(f"  {plain(call.tool)} {plain(call.payload, 4000)}", "yellow")

    def _await_external_tools(self, event: Event) -> None:
        for call in event.external.items if event.external else []:
            self.say(
                f"? outside: {plain(call.tool)} {plain(call.payload)} as {plain(call.tool_call_id)}", "yellow"
            )

    def _await_answered(self, event: Event) -> None:
        done = {True: "approved", False: "denied", None: "answered"}[event.approved]
        if event.code == "expired":
            self.say("! nobody answered in time", "yellow")
        else:
            self.say(f"! {done}{_by(event)}{_said(event)}", "red" if done == "denied" else "yellow")

    def _run_paused(self, event: Event) -> None:
        self.say(f"‖ paused{_by(event)}{_said(event)}", "bold yellow")

    def _run_resumed(self, event: Event) -> None:
        self.say(f"▶ resumed{_by(event)}{_said(event)}", "bold yellow")

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


def _by(event: Event) -> str:
    """Who it was: as they say, else as Temporal knows them."""
    who = event.by or event.identity
    return f" by {plain(who)}" if who else ""


def _said(event: Event) -> str:
    return f": {plain(event.text)}" if event.text else ""


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
