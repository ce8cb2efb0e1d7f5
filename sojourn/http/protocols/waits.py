"""The open waits of a conversation and its child runs, each with the id by which a protocol's client answers it.

The id says all that an answer is bound to: the wait, of a child run also the run, of an approval also the arguments that were shown, and
of a call outside the call. So an answer to something that has changed fits no open wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sojourn.answers import wait_view
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, ExternalCall
from sojourn.contracts.run import RunStatus
from sojourn.core.values.numbers import exact
from sojourn.core.values.visible import inert
from sojourn.http.protocols.markup import unmarked

__all__ = ["OpenWait", "is_blocked", "open_waits", "waits_of"]

_SETTLED = ("done", "failed", "denied", "not_executed")


@dataclass(frozen=True, slots=True)
class OpenWait:
    """One thing that somebody is asked for."""

    id: str
    """By which it is answered, unique in the conversation."""
    run_id: str
    wait: Await
    call: ExternalCall | None = None
    """The call whose result is asked for."""
    shown_call: str | None = None
    """The conversation's own call that it belongs to, of a child run the one that the child run answers."""

    @property
    def kind(self) -> str:
        """`question`, `approval` or `tool_result`."""
        if isinstance(self.wait, AwaitClarification):
            return "question"
        return "approval" if isinstance(self.wait, AwaitConfirmation) else "tool_result"

    @property
    def prompt(self) -> str:
        """What a person is asked."""
        if self.call:
            return f"Result of {self.call.tool}"
        if isinstance(self.wait, AwaitConfirmation):  # a page may read it as Markdown
            return inert(self.wait.prompt)
        return unmarked(wait_view(self.wait, self.run_id).prompt)

    @property
    def about(self) -> dict[str, Any]:
        """What a user interface may show of it."""
        view = wait_view(self.wait, self.run_id).model_dump(mode="json", exclude_defaults=True)
        asked = {"tool": self.call.tool, "payload": self.call.payload} if self.call else view
        about = {**asked, "kind": self.kind, "run_id": self.run_id, "await_id": self.wait.id}
        left_out = ("prompt", "tool_call_id", "payload_text")
        if self.kind == "approval":
            about["title"] = inert(str(about["title"]))
        if "payload" in about:
            about["payload"] = exact(about["payload"])
        return {
            name: value
            for name, value in about.items()
            if name not in left_out and value not in (None, "", [])
        }


def waits_of(root: str, run_id: str, wait: Await) -> Iterator[OpenWait]:
    """What somebody is asked for by a wait.

    Args:
        root: The conversation's run.
        run_id: The run that waits.
        wait: The wait.
    """
    below = run_id.removeprefix(root)
    of = f"{wait.id}@{below}" if below else wait.id
    parent = below.strip("/").partition("/")[0] if below else None
    if isinstance(wait, AwaitConfirmation):
        yield OpenWait(f"{of}#{wait.payload_digest}", run_id, wait, None, parent or wait.tool_call_id)
    elif isinstance(wait, AwaitClarification):
        yield OpenWait(of, run_id, wait, None, parent or wait.tool_call_id)
    else:
        for call in wait.items:
            yield OpenWait(f"{of}#{call.tool_call_id}", run_id, wait, call, parent or call.tool_call_id)


def open_waits(status: RunStatus) -> list[OpenWait]:
    """What a conversation and its child runs wait for, oldest first, less the calls whose result is there."""
    settled = {call.tool_call_id for call in status.calls if call.state in _SETTLED}
    own = [
        each
        for wait in status.awaits
        for each in waits_of(status.run_id, status.run_id, wait)
        if not (each.call and each.call.tool_call_id in settled)
    ]
    below = [
        each
        for run_id, waits in status.child_awaits.items()
        for wait in waits
        for each in waits_of(status.run_id, run_id, wait)
    ]
    return own + below


def is_blocked(status: RunStatus) -> bool:
    """Whether a conversation waits for people only: nothing else goes on that would bring it forward."""
    waits = open_waits(status)
    if not waits or status.phase in ("planning", "finalizing"):
        return False
    waiting = {each.shown_call for each in waits}
    return all(call.state != "running" or call.tool_call_id in waiting for call in status.calls)
