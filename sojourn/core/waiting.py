"""What Temporal's own screens say while a run waits for a person, and the commands that answer."""

import json
import shlex
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.core.answers import kind_of
from sojourn.core.markdown import fence
from sojourn.core.steering import RESUME

__all__ = ["command_of", "details_of"]

MAX_SHOWN = 10
"""Waits that are shown; the rest are counted."""

_MAX_PAYLOAD = 1_000


def details_of(run_id: str, waits: Mapping[str, Await], paused: str | None = None) -> str:
    """Markdown: what is waited for, fenced because it comes from outside, and the commands that answer each."""
    parts: list[str] = []
    if paused is not None:
        said = [fence(paused)] if paused else []
        parts += ["**Paused.**", *said, _command(run_id, RESUME, {"by": "YOUR NAME"})]
    for wait in islice(waits.values(), MAX_SHOWN):
        title, said = _said(wait)
        parts += [f"**{title}**", fence(said), _command(run_id, kind_of(wait), _answer(wait))]
        if isinstance(wait, AwaitConfirmation):
            parts += ["Or, so that it does not run:", _command(run_id, kind_of(wait), _denial(wait))]
    if len(waits) > MAX_SHOWN:
        parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
    return "\n\n".join(parts)


def command_of(run_id: str, wait: Await) -> str:
    """The `temporal` command line that answers a wait; what is in capitals is to be replaced."""
    return _line(run_id, kind_of(wait), _answer(wait))


def _said(wait: Await) -> tuple[str, str]:
    if isinstance(wait, AwaitClarification):
        return "Waiting for an answer:", _lines(_question(wait))
    if isinstance(wait, AwaitConfirmation):
        return "Waiting for approval:", _lines(
            [wait.prompt, f"{wait.tool} {_clipped(wait.payload)}", _expiry(wait)]
        )
    calls = [f"{item.tool_call_id}: {item.tool} {_clipped(item.payload)}" for item in wait.items[:MAX_SHOWN]]
    more = f"... and {len(wait.items) - MAX_SHOWN} more." if len(wait.items) > MAX_SHOWN else ""
    return "Waiting for results from outside:", _lines([*calls, more, _expiry(wait)])


def _question(wait: AwaitClarification) -> list[str]:
    return [
        wait.question,
        wait.clarifying_prompt or "",
        f"Wanted: {', '.join(_typed(name, wait.form) for name in wait.missing_fields)}"
        if wait.missing_fields
        else "",
        f"Example: {_clipped(wait.example_input)}" if wait.example_input else "",
        f"Asked by {wait.server}" if wait.server else "",
        _expiry(wait),
    ]


def _typed(name: str, form: dict[str, Any] | None) -> str:
    """A wanted field with its type, where the question's form tells it."""
    fields = (form or {}).get("properties")
    field = cast("dict[str, Any]", fields).get(name) if isinstance(fields, dict) else None
    wanted = cast("dict[str, Any]", field).get("type") if isinstance(field, dict) else None
    return f"{name} ({wanted})" if isinstance(wanted, str) else name


def _expiry(wait: Await) -> str:
    return f"Expires {wait.expires_after} after it was asked." if wait.expires_after else ""


def _answer(wait: Await) -> dict[str, Any]:
    if isinstance(wait, AwaitClarification):
        return {"id": wait.id, "answer": "YOUR ANSWER"}
    if isinstance(wait, AwaitConfirmation):
        return {"id": wait.id, "approved": True, "by": "YOUR NAME"}
    return {"id": wait.id, "results": [_result(wait)]}


def _denial(wait: AwaitConfirmation) -> dict[str, Any]:
    return {"id": wait.id, "approved": False, "reason": "THE REASON", "by": "YOUR NAME"}


def _result(wait: AwaitExternalTools) -> dict[str, Any]:
    return {"tool_call_id": wait.items[0].tool_call_id if wait.items else "", "result": "THE RESULT"}


def _command(run_id: str, name: str, answer: dict[str, Any]) -> str:
    if not run_id.isprintable():
        return f"Answer by the signal `{name}`; no command can be shown for this run's id."
    return fence(_line(run_id, name, answer))


def _line(run_id: str, name: str, answer: dict[str, Any]) -> str:
    return (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name {name} --input {shlex.quote(json.dumps(answer))}"
    )


def _clipped(payload: dict[str, Any]) -> str:
    text = json.dumps(payload, ensure_ascii=False)
    return (
        text if len(text) <= _MAX_PAYLOAD else f"{text[:_MAX_PAYLOAD]}… (the query `status` tells it whole)"
    )


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(line for line in lines if line)
