"""Rows of the inbox: who is asked what by which run, in two lines."""

from dataclasses import dataclass
from datetime import datetime

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, expires_at
from sojourn.core.values.visible import one_line
from sojourn.reader import FoundWait

__all__ = ["KINDS", "InboxRow", "kind_of", "row_of", "title_of", "tools_of"]

KINDS = {"approval": "Approval", "question": "Question", "tool_results": "Result from outside"}
"""The kinds of waits, in a word or two."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A row of the inbox."""

    run_id: str
    await_id: str
    kind: str
    word: str
    title: str
    """What is asked."""
    asked: str
    """What the run was asked."""
    agent_id: str
    since: datetime | None
    expires_at: datetime | None
    is_destructive: bool
    is_paused: bool

    @property
    def key(self) -> str:
        """Of its place in the page."""
        return f"{self.run_id} {self.await_id}"


def kind_of(wait: Await) -> str:
    """The kind, as the API names it."""
    if isinstance(wait, AwaitClarification):
        return "question"
    return "approval" if isinstance(wait, AwaitConfirmation) else "tool_results"


def tools_of(wait: Await) -> list[str]:
    """The tools that a wait is about."""
    if isinstance(wait, AwaitClarification):
        return [wait.restrict_to_tool] if wait.restrict_to_tool else []
    if isinstance(wait, AwaitConfirmation):
        return [wait.tool]
    return list(dict.fromkeys(item.tool for item in wait.items))


def row_of(found: FoundWait) -> InboxRow:
    """The row of an open wait."""
    wait, status, since = found.opened.wait, found.waiting.status, found.opened.since
    kind = kind_of(wait)
    shown = wait.shown if isinstance(wait, AwaitConfirmation) else None
    return InboxRow(
        run_id=status.run_id,
        await_id=wait.id,
        kind=kind,
        word=KINDS[kind],
        title=title_of(wait),
        asked=one_line(found.waiting.asked, 160),
        agent_id=status.agent_id,
        since=since,
        expires_at=expires_at(wait, since),
        is_destructive=bool(shown and shown.annotations.destructive),
        is_paused=status.paused is not None,
    )


def title_of(wait: Await) -> str:
    """What is asked, in a line."""
    if isinstance(wait, AwaitClarification):
        return one_line(wait.question, 160)
    if isinstance(wait, AwaitConfirmation):
        return one_line(wait.prompt or wait.title or wait.tool, 160)
    tools = ", ".join(one_line(tool, 80) for tool in tools_of(wait)[:3])
    count = len(wait.items)
    return f"{count} results of {tools}" if count > 1 else f"Result of {tools}"
