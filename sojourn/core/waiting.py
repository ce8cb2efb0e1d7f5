"""What Temporal's own screens say while a run waits for a person, and the command that answers."""

import json
import shlex
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.core.answers import kind_of
from sojourn.core.steering import RESUME

__all__ = ["command_of", "details_of"]

MAX_SHOWN = 10
"""Waits that are shown; the rest are counted."""

_MAX_PAYLOAD = 1_000


def details_of(run_id: str, waits: Mapping[str, Await], paused: str | None = None) -> str:
    """Markdown: what is waited for, fenced because it comes from outside, and the command that answers each."""
    parts: list[str] = []
    if paused is not None:
        said = [_fence(paused)] if paused else []
        parts.append("\n\n".join(["**Paused.**", *said, _command(run_id, RESUME, {"by": "YOUR NAME"})]))
    parts += [_part(run_id, wait) for wait in islice(waits.values(), MAX_SHOWN)]
    if len(waits) > MAX_SHOWN:
        parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
    return "\n\n".join(parts)


def command_of(run_id: str, wait: Await) -> str:
    """The `temporal` command line that answers a wait; what is in capitals is to be replaced."""
    return _line(run_id, kind_of(wait), _answer(wait))


def _part(run_id: str, wait: Await) -> str:
    title, said = _said(wait)
    return f"**{title}**\n\n{_fence(said)}\n\n{_command(run_id, kind_of(wait), _answer(wait))}"


def _said(wait: Await) -> tuple[str, str]:
    if isinstance(wait, AwaitClarification):
        wanted = [f"Wanted: {', '.join(wait.missing_fields)}"] if wait.missing_fields else []
        asker = [f"Asked by {wait.server}"] if wait.server else []
        return "Waiting for an answer:", _lines([wait.question, *wanted, *asker])
    if isinstance(wait, AwaitConfirmation):
        payload = json.dumps(wait.payload, ensure_ascii=False)
        return "Waiting for approval:", _lines([wait.prompt, f"{wait.tool} {_clipped(payload)}"])
    calls = [f"{item.tool_call_id}: {item.tool} {_clipped(json.dumps(item.payload))}" for item in wait.items]
    return "Waiting for results from outside:", _lines(calls[:MAX_SHOWN])


def _answer(wait: Await) -> dict[str, Any]:
    if isinstance(wait, AwaitClarification):
        return {"id": wait.id, "answer": "YOUR ANSWER"}
    if isinstance(wait, AwaitConfirmation):
        return {"id": wait.id, "approved": True, "by": "YOUR NAME"}
    return {"id": wait.id, "results": [_result(wait)]}


def _result(wait: AwaitExternalTools) -> dict[str, Any]:
    return {"tool_call_id": wait.items[0].tool_call_id if wait.items else "", "result": "THE RESULT"}


def _command(run_id: str, name: str, answer: dict[str, Any]) -> str:
    if not run_id.isprintable():
        return f"Answer by the signal `{name}`; no command can be shown for this run's id."
    return _fence(_line(run_id, name, answer))


def _line(run_id: str, name: str, answer: dict[str, Any]) -> str:
    return (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name {name} --input {shlex.quote(json.dumps(answer))}"
    )


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_PAYLOAD else text[:_MAX_PAYLOAD] + "…"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(line for line in lines if line)


def _fence(text: str) -> str:
    """The text as a code block that it cannot leave, less what is not printable."""
    printable = "".join(c for c in text if c.isprintable() or c == "\n")
    fence = "```"
    while fence in printable:
        fence += "`"
    return f"{fence}\n{printable}\n{fence}"
