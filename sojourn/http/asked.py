"""Asked: open waits as answers show them, under the names that the inbox and the bodies of answers have."""

from typing import Any, Literal

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.run import RunStatus
from sojourn.core.awaits.envelope import as_json
from sojourn.core.values.numbers import is_exact

__all__ = [
    "Asked",
    "AskedApproval",
    "AskedQuestion",
    "AskedResults",
    "ShownStatus",
    "asked_of",
    "status_of",
    "text_of_payload",
]


class AskedQuestion(AwaitClarification):
    """An open question."""

    await_id: str
    """The wait, as an answer names it; the same as `id`."""
    kind: Literal["question"] = "question"
    """It is answered at `/answers`."""


class AskedApproval(AwaitConfirmation):
    """A call to decide on."""

    await_id: str
    """The wait, as a decision names it; the same as `id`."""
    kind: Literal["approval"] = "approval"
    """It is answered at `/approvals`."""
    digest: str
    """The digest of the arguments, which an approval names; the same as `payload_digest`."""
    payload_text: str = ""
    """The arguments as JSON in a text, if they have an integer that JavaScript rounds: show this to whoever decides."""


class AskedResults(AwaitExternalTools):
    """Calls whose results are awaited."""

    await_id: str
    """The wait, as results name it; the same as `id`."""
    kind: Literal["tool_results"] = "tool_results"
    """It is answered at `/tool-results`."""


Asked = AskedQuestion | AskedApproval | AskedResults
"""Any open wait."""


class ShownStatus(RunStatus):
    """The status of a run at one moment: its phase, open waits, calls, and what is left of its limits."""

    awaits: list[Asked] = []  # noqa: RUF012  # pyright: ignore[reportIncompatibleVariableOverride] - records are frozen
    """The open waits, oldest first."""
    child_awaits: dict[str, list[Asked]] = {}  # noqa: RUF012  # pyright: ignore[reportIncompatibleVariableOverride]
    """The open waits of child runs, by the child's run id; an answer goes to the child run."""


def asked_of(wait: Await) -> Asked:
    """A wait with the names of the inbox beside its own."""
    fields: dict[str, Any] = {name: getattr(wait, name) for name in type(wait).model_fields}
    fields["await_id"] = wait.id
    if isinstance(wait, AwaitClarification):
        return AskedQuestion(**fields)
    if isinstance(wait, AwaitConfirmation):
        return AskedApproval(**fields, digest=wait.payload_digest, payload_text=text_of_payload(wait.payload))
    return AskedResults(**fields)


def text_of_payload(payload: dict[str, Any]) -> str:
    """The arguments of a call as JSON in a text, if a client in JavaScript would round one; else an empty text."""
    return "" if is_exact(payload) else as_json(payload)


def status_of(status: RunStatus) -> ShownStatus:
    """A status whose waits have the names of the inbox."""
    fields: dict[str, Any] = {name: getattr(status, name) for name in RunStatus.model_fields}
    fields["awaits"] = [asked_of(wait) for wait in status.awaits]
    fields["child_awaits"] = {
        run_id: [asked_of(wait) for wait in waits] for run_id, waits in status.child_awaits.items()
    }
    return ShownStatus(**fields)
