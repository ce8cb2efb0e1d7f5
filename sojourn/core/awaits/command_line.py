"""Commands of Temporal's CLI that answer a run, for Temporal's own screens."""

import json
import shlex
from collections.abc import Iterable
from typing import Any

from sojourn.contracts.awaits import Await
from sojourn.contracts.wire_names import APPROVAL
from sojourn.core.awaits.disclosure import Disclosure
from sojourn.core.values.visible import fence, visible

__all__ = ["expiry", "fenced_query", "fenced_signal", "indented", "lines", "signal_line"]


def fenced_signal(run_id: str, name: str, answer: dict[str, Any]) -> str:
    """The signal command, fenced for Markdown; no command for a run id that a screen would alter."""
    if visible(run_id) != run_id:
        return f"Answer by the signal `{name}`; no command can be shown for this run's id."
    return fence(signal_line(run_id, name, answer))


def signal_line(run_id: str, name: str, answer: dict[str, Any]) -> str:
    """The `temporal` command that sends an answer; placeholders are in capitals."""
    return (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name {name} --input {shlex.quote(json.dumps(answer))}"
    )


def fenced_query(run_id: str, await_id: str) -> str:
    """The command of the query that returns a call in full, fenced for Markdown."""
    if visible(run_id) != run_id:
        return "The query `approval`; no command can be shown for this run's id."
    name = shlex.quote(json.dumps(await_id))
    return fence(
        f"temporal workflow query --workflow-id {shlex.quote(run_id)} --type {APPROVAL} --input {name}"
    )


def indented(seen: Disclosure) -> list[str]:
    """A payload's lines, indented."""
    return [f"  {line}" for line in seen.lines]


def expiry(wait: Await) -> str:
    """When a wait expires, in a sentence; empty where it does not."""
    return f"Expires {wait.expires_after} after it was asked." if wait.expires_after else ""


def lines(texts: Iterable[str]) -> str:
    """The texts joined by line breaks, without empty ones."""
    return "\n".join(line for line in texts if line)
