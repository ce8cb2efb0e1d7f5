"""Format each kind of wait, in full and in a list.

The commands that answer a wait are here, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.cli.screen.text import Line, plain, shell_word, text_lines
from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    KindName,
)
from sojourn.core.awaits.clarification import wanted
from sojourn.core.awaits.confirmation import changed_since, role_options
from sojourn.core.awaits.deciding import in_words, is_restricted
from sojourn.core.awaits.disclosure import Disclosure, disclose
from sojourn.values.visible import visible

__all__ = ["TEXTS", "WaitTexts", "call_lines", "texts_of"]


@dataclass(frozen=True, slots=True)
class WaitTexts:
    """How one kind of wait is printed and answered."""

    title: str
    """The kind, for people."""
    lines: Callable[[Any, bool], list[Line]]
    """Returns the lines of a wait; the second argument is whether they show all of it, however long."""
    about: Callable[[Any], list[str]]
    """Returns the lines of a wait in a list; the first follows id and title."""
    commands: Callable[[str, Any], list[str]]
    """Returns the commands that answer a wait of a run, without `sojourn`; the usual one first, placeholders in capitals."""


def _question_lines(wait: AwaitClarification, whole: bool) -> list[Line]:
    asker = f"{plain(wait.server)} asks: " if wait.server else ""
    fields = [Line(f"  wanted: {field}", "yellow") for field in wanted(wait)]
    return [*text_lines(asker + wait.question, "bold yellow", "? ", whole=whole), *fields]


def _question_about(wait: AwaitClarification) -> list[str]:
    fields = f" (wanted: {', '.join(wanted(wait))})" if wait.missing_fields else ""
    return [plain(wait.question, 300) + fields]


def _question_commands(run_id: str, wait: AwaitClarification) -> list[str]:
    to = f"{shell_word(run_id)} {shell_word(wait.id)}"
    fields = " ".join(f"--field {shell_word(f'{name}=VALUE')}" for name in wait.missing_fields)
    answer = fields or "'YOUR ANSWER'"
    return [f"answer {to} {answer}", f"answer {to} --decline --why WHY"]


def _approval_lines(wait: AwaitConfirmation, whole: bool) -> list[Line]:
    shown, _ = call_lines(wait, whole=whole)
    first, *rest = shown if wait.prompt else ["", *shown]
    return [Line(f"? {first}", "bold yellow"), *(Line(line, "yellow") for line in rest)]


def _approval_about(wait: AwaitConfirmation) -> list[str]:
    return call_lines(wait)[0]


def _approval_commands(run_id: str, wait: AwaitConfirmation) -> list[str]:
    to = f"{shell_word(run_id)} {shell_word(wait.id)}"
    if is_restricted(wait):
        to = f"{to} --as SUBJECT {role_options(wait)}"
    return [f"approve {to}", f"deny {to} --why WHY"]


def _results_lines(wait: AwaitExternalTools, whole: bool) -> list[Line]:
    lines: list[Line] = []
    for call in wait.items:
        lines.append(Line(f"? outside: {plain(call.tool)} as {plain(call.tool_call_id)}", "yellow"))
        lines += [Line(f"    {line}", "yellow") for line in disclose(call.payload, whole=whole).lines]
    return lines


def _results_about(wait: AwaitExternalTools) -> list[str]:
    lines = [""]
    for item in wait.items:
        lines.append(f"  {plain(item.tool_call_id)}: {plain(item.tool)}")
        lines += [f"    {line}" for line in disclose(item.payload).lines]
    return lines


def _results_commands(run_id: str, wait: AwaitExternalTools) -> list[str]:
    run = shell_word(run_id)
    results = [f"provide {run} --result {_quoted(f'{item.tool_call_id}=JSON')}" for item in wait.items]
    return [f"provide {run} FILE", *results]


def _quoted(text: str) -> str:
    """Quote a text for a shell even if it needs none.

    The JSON that replaces the placeholder does need quotes.
    """
    word = shell_word(text)
    return word if word.startswith(("'", "$'")) else f"'{word}'"


TEXTS: Mapping[KindName, WaitTexts] = {
    "question": WaitTexts("a question", _question_lines, _question_about, _question_commands),
    "approval": WaitTexts("an approval", _approval_lines, _approval_about, _approval_commands),
    "tool_results": WaitTexts("results from outside", _results_lines, _results_about, _results_commands),
}


def texts_of(wait: Await) -> WaitTexts:
    """Return how a wait is printed."""
    return TEXTS[wait.kind]


def call_lines(call: AwaitConfirmation, *, whole: bool = False) -> tuple[list[str], Disclosure]:
    """Return the lines of a call, and whether they are all of it.

    They are the question, the tool and its arguments, one a line.
    """
    seen = disclose(call.payload, whole=whole)
    cut = [] if seen.is_whole else ["  the call is not shown whole; --full shows all of it"]
    asked = [visible(call.prompt)] if call.prompt else []
    changes = [f"  {line}" for line in changed_since(call)]
    if who := in_words(call):
        changes.append(f"  decided by {who}")
    return [*asked, f"  {visible(call.tool)}", *changes, *(f"    {line}" for line in seen.lines), *cut], seen
