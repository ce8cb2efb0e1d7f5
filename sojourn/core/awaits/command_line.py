"""The command lines of Temporal's CLI that answer a run, as its own screens show them."""

import json
import shlex
from collections.abc import Iterable
from typing import Any

from sojourn.contracts.awaits import Await
from sojourn.core.awaits.disclosure import Disclosure
from sojourn.core.values.visible import fence, visible

__all__ = ["APPROVAL", "expiry", "fenced_query", "fenced_signal", "indented", "lines", "signal_line"]

APPROVAL = "approval"
"""The query that tells a call that waits for approval whole."""


def fenced_signal(run_id: str, name: str, answer: dict[str, Any]) -> str:
    """The signal, fenced for Markdown; an id that no screen shows as it is stands in no command."""
    if visible(run_id) != run_id:
        return f"Answer by the signal `{name}`; no command can be shown for this run's id."
    return fence(signal_line(run_id, name, answer))


def signal_line(run_id: str, name: str, answer: dict[str, Any]) -> str:
    """The `temporal` command that sends an answer; what is in capitals is to be replaced."""
    return (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name {name} --input {shlex.quote(json.dumps(answer))}"
    )


def fenced_query(run_id: str, await_id: str) -> str:
    """The query that tells a call whole, fenced for Markdown."""
    if visible(run_id) != run_id:
        return "The query `approval`; no command can be shown for this run's id."
    name = shlex.quote(json.dumps(await_id))
    return fence(
        f"temporal workflow query --workflow-id {shlex.quote(run_id)} --type {APPROVAL} --input {name}"
    )


def indented(seen: Disclosure) -> list[str]:
    """A payload's lines, below what it belongs to."""
    return [f"  {line}" for line in seen.lines]


def expiry(wait: Await) -> str:
    """When a wait ends by itself, in a sentence; empty where it does not."""
    return f"Expires {wait.expires_after} after it was asked." if wait.expires_after else ""


def lines(texts: Iterable[str]) -> str:
    """Texts below one another, empty ones left out."""
    return "\n".join(line for line in texts if line)
