"""What Temporal's own screens say while a run waits for a person, and the commands that answer."""

import json
import shlex
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.core.awaits.answers import kind_of
from sojourn.core.awaits.disclosure import Disclosure, disclose
from sojourn.core.awaits.steering import RESUME
from sojourn.core.values.visible import fence, visible

__all__ = ["APPROVAL", "Details", "command_of", "wanted", "whole_call"]

MAX_SHOWN = 10
"""Waits that are shown; the rest are counted."""

_MAX_WHOLE = 64_000
"""Characters of a payload that a query tells whole: it is put into words in workflow code, which has 2 s for it."""

_MAX_LINES = 1_500_000
"""Characters of all lines: a query's answer has at most 2 MB."""

APPROVAL = "approval"
"""The query that tells such a call whole."""

_UNSEEN = "THE payload_digest THAT STANDS THERE LAST"


class Details:
    """What a run's current details say, in Markdown; each wait is put into words once, however often they are told.

    Args:
        run_id: The run, which the commands name.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._told: dict[str, str] = {}

    def of(self, waits: Mapping[str, Await], paused: str | None = None) -> str:
        """What is waited for, fenced because it comes from outside, and the commands that answer each."""
        parts: list[str] = []
        if paused is not None:
            said = [fence(paused)] if paused else []
            parts += ["**Paused.**", *said, _command(self._run_id, RESUME, {"by": "YOUR NAME"})]
        shown = list(islice(waits.values(), MAX_SHOWN))
        self._told = {wait.id: self._told.get(wait.id) or _told(self._run_id, wait) for wait in shown}
        parts += self._told.values()
        if len(waits) > MAX_SHOWN:
            parts.append(f"... and {len(waits) - MAX_SHOWN} more.")
        return "\n\n".join(parts)


def command_of(run_id: str, wait: Await) -> str:
    """The `temporal` command line that answers a wait; what is in capitals is to be replaced."""
    return _line(run_id, kind_of(wait), _answer(wait))


def _told(run_id: str, wait: Await) -> str:
    if isinstance(wait, AwaitConfirmation):
        return "\n\n".join(_decision(run_id, wait))
    title, said = _said(wait)
    return "\n\n".join([f"**{title}**", fence(said), _command(run_id, kind_of(wait), _answer(wait))])


def whole_call(wait: AwaitConfirmation) -> list[str]:
    """All that a person decides on, in lines; the last names its digest, where nothing had to be left out."""
    is_small = len(json.dumps(wait.payload)) <= _MAX_WHOLE
    lines = [visible(wait.prompt), visible(wait.tool), *disclose(wait.payload, whole=is_small).lines]
    if is_small and sum(map(len, lines)) <= _MAX_LINES:
        return [*lines, f"payload_digest: {wait.payload_digest}"]
    return [*lines[:MAX_SHOWN], "too large for a query: `sojourn show --full` tells it whole"]


def _decision(run_id: str, wait: AwaitConfirmation) -> list[str]:
    """A call, and the lines that decide on it; what is not all there is not approved from here."""
    seen = disclose(wait.payload)
    shown = [visible(wait.prompt), visible(wait.tool), *_indented(seen), _expiry(wait)]
    parts = ["**Waiting for approval:**", fence(_lines(shown))]
    answer = _answer(wait)
    if not seen.is_whole:
        parts += [
            "Not all of it is shown. This tells it whole:",
            _query(run_id, wait),
            "Then, to approve it:",
        ]
        answer["payload_digest"] = _UNSEEN
    parts += [_command(run_id, kind_of(wait), answer)]
    return [*parts, "Or, so that it does not run:", _command(run_id, kind_of(wait), _denial(wait))]


def _indented(seen: Disclosure) -> list[str]:
    return [f"  {line}" for line in seen.lines]


def _said(wait: AwaitClarification | AwaitExternalTools) -> tuple[str, str]:
    if isinstance(wait, AwaitClarification):
        return "Waiting for an answer:", _lines(_question(wait))
    calls: list[str] = []
    for item in wait.items[:MAX_SHOWN]:
        calls += [f"{visible(item.tool_call_id)}: {visible(item.tool)}", *_indented(disclose(item.payload))]
    more = f"... and {len(wait.items) - MAX_SHOWN} more." if len(wait.items) > MAX_SHOWN else ""
    return "Waiting for results from outside:", _lines([*calls, more, _expiry(wait)])


def _question(wait: AwaitClarification) -> list[str]:
    return [
        visible(wait.question, keep="\n"),
        visible(wait.clarifying_prompt or "", keep="\n"),
        f"Wanted: {', '.join(wanted(wait))}" if wait.missing_fields else "",
        *(["For example:", *_indented(disclose(wait.example_input))] if wait.example_input else []),
        f"Asked by {visible(wait.server)}" if wait.server else "",
        _expiry(wait),
    ]


def wanted(wait: AwaitClarification) -> list[str]:
    """The fields that a question asks for, by the names under which they are answered, with their types."""
    return [_typed(name, wait.form) for name in wait.missing_fields]


def _typed(name: str, form: dict[str, Any] | None) -> str:
    """A wanted field with its type, where the question's form tells it."""
    fields = (form or {}).get("properties")
    field = cast("dict[str, Any]", fields).get(name) if isinstance(fields, dict) else None
    kind = cast("dict[str, Any]", field).get("type") if isinstance(field, dict) else None
    return f"{visible(name)} ({visible(kind)})" if isinstance(kind, str) else visible(name)


def _expiry(wait: Await) -> str:
    return f"Expires {wait.expires_after} after it was asked." if wait.expires_after else ""


def _answer(wait: Await) -> dict[str, Any]:
    if isinstance(wait, AwaitClarification):
        return {"id": wait.id, "answer": "YOUR ANSWER"}
    if isinstance(wait, AwaitConfirmation):
        return {"id": wait.id, "approved": True, **_bound(wait), "by": "YOUR NAME"}
    return {"id": wait.id, "results": [_result(wait)]}


def _denial(wait: AwaitConfirmation) -> dict[str, Any]:
    return {"id": wait.id, "approved": False, **_bound(wait), "reason": "THE REASON", "by": "YOUR NAME"}


def _bound(wait: AwaitConfirmation) -> dict[str, str]:
    """Which arguments it is about; a wait of long ago may not tell."""
    return {"payload_digest": wait.payload_digest} if wait.payload_digest else {}


def _result(wait: AwaitExternalTools) -> dict[str, Any]:
    return {"tool_call_id": wait.items[0].tool_call_id if wait.items else "", "result": "THE RESULT"}


def _command(run_id: str, name: str, answer: dict[str, Any]) -> str:
    if visible(run_id) != run_id:
        return f"Answer by the signal `{name}`; no command can be shown for this run's id."
    return fence(_line(run_id, name, answer))


def _line(run_id: str, name: str, answer: dict[str, Any]) -> str:
    return (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name {name} --input {shlex.quote(json.dumps(answer))}"
    )


def _query(run_id: str, wait: AwaitConfirmation) -> str:
    if visible(run_id) != run_id:
        return "The query `approval`; no command can be shown for this run's id."
    name = shlex.quote(json.dumps(wait.id))
    return fence(
        f"temporal workflow query --workflow-id {shlex.quote(run_id)} --type {APPROVAL} --input {name}"
    )


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(line for line in lines if line)
