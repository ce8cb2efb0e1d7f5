"""Open waits as clients of protocols see them.

A user interface gets an id and JSON, a chat gets text. `sojourn.answers` describes the wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sojourn.answers import WaitView, disclose, open_waits
from sojourn.contracts.run import RunStatus
from sojourn.http.answering import needs_answer
from sojourn.http.protocols.reply_token import remove_marks
from sojourn.http.service import Service
from sojourn.values.numbers import write_exact
from sojourn.values.visible import fence, inert, visible

__all__ = [
    "ClientWait",
    "chat_prompt",
    "chat_text",
    "client_waits",
    "explain_external_calls",
    "is_blocked",
    "waits_of_status",
]


@dataclass(frozen=True, slots=True)
class ClientWait:
    """One answer that a conversation waits for, as a user interface shows it."""

    id: str
    """Token that a client answers with. An answer to a call that has changed since fits no open wait."""
    view: WaitView
    """The wait. A wait for results has this call only."""
    call_id: str | None = None
    """Id of the conversation's own call that it belongs to. For a child run, the call that the child run answers."""

    @property
    def prompt(self) -> str:
        """Text that a person sees for this wait. A page may render it as Markdown."""
        if self.view.calls:
            return f"Result of {self.view.calls[0].tool}"
        if self.view.call:
            return inert(" ".join(filter(None, (self.view.prompt, self.view.taint_in_words))))
        return remove_marks(self.view.prompt or self.view.summary)

    @property
    def json(self) -> dict[str, Any]:
        """The `WaitView` as JSON, with integers that JavaScript rounds as digits."""
        fields = self.view.model_dump(mode="json", exclude_defaults=True, exclude={"prompt", "payload_text"})
        if self.view.title:
            fields["title"] = inert(self.view.title)
        for call in (fields, *fields.get("calls", ())):
            if call.get("payload") is not None:
                call["payload"] = write_exact(call["payload"])
        return fields


def client_waits(view: WaitView, root: str) -> Iterator[ClientWait]:
    """Yield the answers that a wait asks a client of the run `root` for.

    There is one for each external call.
    """
    below = view.run_id.removeprefix(root).strip("/").partition("/")[0]
    for ref, call in view.refs():
        own = call.tool_call_id if call else view.tool_call_id
        of_call = view.with_calls([call]) if call else view
        yield ClientWait(ref.token(root), of_call, below or own)


def waits_of_status(status: RunStatus) -> list[ClientWait]:
    """Return the open waits of a run as a client has them."""
    views = open_waits(status)
    return [each for view in views for each in client_waits(view, status.run_id)]


def is_blocked(status: RunStatus) -> bool:
    """Return whether nothing goes on in a conversation but what it waits for."""
    if not needs_answer(status):
        return False
    waiting = {each.call_id for each in waits_of_status(status)}
    return all(call.state != "running" or call.tool_call_id in waiting for call in status.calls)


async def explain_external_calls(service: Service, run_id: str) -> str:
    """Explain which external calls a run waits for, and how to give their results.

    Return an empty text if anything else is under way.
    """
    status = await service.client.get_run(run_id).status()
    waits = [view for view in open_waits(status) if view.calls]
    if not waits or not is_blocked(status):
        return ""
    calls = [
        f"`{call.tool}` is the call `{call.tool_call_id}` of `{view.await_id}`, by `POST /v1/runs/{view.run_id}/tool-results`"
        for view in waits
        for call in view.calls
    ]
    return f"The agent waits for results from outside: {'; '.join(calls)}."


def chat_text(view: WaitView) -> str:
    """Return a wait as text for a chat.

    The text of a call begins with the tool, all arguments and the files that they name, so that the reader sees them before approving.
    """
    if view.call is None:
        fields = view.fields_in_words
        texts = [visible(each, keep="\n") for each in (view.summary, view.detail) if each]
        return remove_marks("\n\n".join([*texts, *([f"Wanted: {', '.join(fields)}"] if fields else [])]))
    files = [file.line for file in view.attachments]
    block = "\n".join([str(view.tool), *disclose(view.payload or {}, whole=True).lines, *files])
    changed = [f"Changed since it was shown: {inert(', '.join(view.changes))}"] if view.changes else []
    tainted = [inert(view.taint_in_words)] if view.taint else []
    deciders = [inert(f"It is decided by {view.deciders}.")] if view.deciders else []
    deciders += [inert(f"{each}.") for each in (view.progress, view.escalation) if each]
    prompt = inert(view.prompt or view.title or "May this call run?")
    return "\n\n".join([fence(block), *changed, *tainted, prompt, *deciders])


def chat_prompt(view: WaitView) -> str:
    code = view.ref.code
    if not code:
        return chat_text(view)
    how = (
        f"Answer `yes {code}` to run it, or `no {code}` and a reason to deny it. Without the code, `yes` runs it and anything else "
        "denies it where the client sends this text back or names this response; elsewhere this is shown again."
    )
    return f"{chat_text(view)}\n\n{how}"
