"""Notice: what a run tells functions and webhooks outside: it waits for somebody, a turn of it has ended, or all of it."""

from datetime import datetime
from typing import Literal

from sojourn.contracts.record import Record

__all__ = ["NOTICE_KINDS", "Notice", "NoticeKind"]

NoticeKind = Literal["wait", "turn", "end"]
"""`wait`: a run waits for somebody; `turn`: a turn of a conversation has ended; `end`: a run has ended."""

NOTICE_KINDS: tuple[NoticeKind, ...] = ("wait", "turn", "end")


class Notice(Record):
    """Something that a run tells once; texts are shortened to 2,000 characters, and the run has the rest."""

    id: str
    """The same each time that the notice is delivered: `<run_id>/wait/<await_id>`, `<run_id>/turn/<turn_id>` or `<run_id>/end`."""
    kind: NoticeKind
    """What happened."""
    at: datetime
    """When it happened, by the server's clock."""
    run_id: str
    """The run."""
    agent_id: str
    """Its agent."""
    session_id: str = ""
    """Its session."""
    parent_run_id: str = ""
    """Of a child run: the run above it."""
    labels: dict[str, str] = {}
    """The labels of the run."""
    turn_id: str = ""
    """The user turn."""
    message_ids: list[str] = []
    """Of a turn: the messages that it answers."""
    await_id: str = ""
    """Of a wait: its id, by which `Run.answer`, `Run.approve` and `Run.provide_tool_results` answer it."""
    await_type: str = ""
    """Of a wait: `await_clarification`, `await_confirmation` or `await_external_tools`, as its event."""
    tool: str = ""
    """Of a wait: the tool whose call it is about."""
    text: str = ""
    """The question, or the answer."""
    reason: str = ""
    """Of a turn or an end: `answered`, `closed`, or the limit that ended it, as `RunOutput.reason`; `failed`; `canceled`."""
    code: str = ""
    """Of what failed, or gave up: the error's code."""
    error: str = ""
    """Of what failed, or gave up: the error."""
