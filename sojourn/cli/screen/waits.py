"""Format waits, with the commands that answer them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.answers import Disclosure, WaitView, disclose, disclose_changes
from sojourn.cli.screen.text import Line, plain, shell_word, text_lines
from sojourn.contracts.awaits import KindName
from sojourn.forms import field_paths
from sojourn.values.visible import visible

__all__ = ["WaitTexts", "call_lines", "edit_lines", "texts_of"]


@dataclass(frozen=True, slots=True)
class WaitTexts:
    """How a wait is printed and answered."""

    lines: Callable[[WaitView, bool], list[Line]]
    """Returns the lines of a wait; the second argument is whether they show all of it, however long."""
    about: Callable[[WaitView], list[str]]
    """Returns the lines of a wait in a list; the first follows id and title."""
    commands: Callable[[WaitView], list[str]]
    """Returns the commands that answer a wait, without `sojourn`; the usual one first, placeholders in capitals."""


def _words_lines(wait: WaitView, whole: bool) -> list[Line]:
    asker = f"{plain(wait.server)} asks: " if wait.server else ""
    fields = [Line(f"  wanted: {field}", "yellow") for field in _fields_in_words(wait)]
    return [*text_lines(asker + wait.summary, "bold yellow", "? ", whole=whole), *fields]


def _fields_in_words(wait: WaitView) -> list[str]:
    """Return the fields as `--field` takes them, those inside objects and lists too."""
    found: list[str] = []
    for path, kind, is_required in field_paths(wait.form, wait.missing_fields):
        about = ", ".join(filter(None, (kind, "" if is_required else "optional")))
        found.append(visible(path) + (f" ({visible(about)})" if about else ""))
    return found


def _words_about(wait: WaitView) -> list[str]:
    fields = f" (wanted: {', '.join(_fields_in_words(wait))})" if wait.missing_fields else ""
    return [plain(wait.summary, 300) + fields]


def _words_commands(wait: WaitView) -> list[str]:
    paths = [path for path, _, is_required in field_paths(wait.form, wait.missing_fields) if is_required]
    fields = " ".join(f"--field {shell_word(f'{path}=VALUE')}" for path in paths or wait.missing_fields)
    answer = fields or "'YOUR ANSWER'"
    decline = [f"answer {_target(wait)} --decline --why WHY"] if wait.may_be_declined else []
    if wait.sign_in:  # its link is in the question
        return decline
    return [f"answer {_target(wait)} {answer}", *decline]


def _approval_lines(wait: WaitView, whole: bool) -> list[Line]:
    shown, _ = call_lines(wait, whole=whole)
    first, *rest = shown if wait.prompt else ["", *shown]
    return [Line(f"? {first}", "bold yellow"), *(Line(line, "yellow") for line in rest)]


def _approval_about(wait: WaitView) -> list[str]:
    return call_lines(wait)[0]


def _approval_commands(wait: WaitView) -> list[str]:
    to = _target(wait)
    if wait.is_restricted:
        to = f"{to} --as SUBJECT {wait.role_options}"
    return [f"approve {to}", f"deny {to} --why WHY"]


def _results_lines(wait: WaitView, whole: bool) -> list[Line]:
    lines: list[Line] = []
    for call in wait.calls:
        lines.append(Line(f"? outside: {plain(call.tool)} as {plain(call.tool_call_id)}", "yellow"))
        lines += [Line(f"    {line}", "yellow") for line in disclose(call.payload, whole=whole).lines]
    return lines


def _results_about(wait: WaitView) -> list[str]:
    lines = [""]
    for call in wait.calls:
        lines.append(f"  {plain(call.tool_call_id)}: {plain(call.tool)}")
        lines += [f"    {line}" for line in disclose(call.payload).lines]
    return lines


def _results_commands(wait: WaitView) -> list[str]:
    run = shell_word(wait.run_id)
    results = [f"provide {run} --result {_quote(f'{call.tool_call_id}=JSON')}" for call in wait.calls]
    return [f"provide {run} FILE", *results]


def _target(wait: WaitView) -> str:
    return f"{shell_word(wait.run_id)} {shell_word(wait.await_id)}"


def _quote(text: str) -> str:
    """Quote a text even if the JSON that replaces its placeholder alone needs it."""
    word = shell_word(text)
    return word if word.startswith(("'", "$'")) else f"'{word}'"


_WORDS = WaitTexts(_words_lines, _words_about, _words_commands)
"""A question, and any kind of wait that has no texts of its own."""

_TEXTS: Mapping[KindName, WaitTexts] = {
    "approval": WaitTexts(_approval_lines, _approval_about, _approval_commands),
    "tool_results": WaitTexts(_results_lines, _results_about, _results_commands),
}


def texts_of(wait: WaitView) -> WaitTexts:
    return _TEXTS.get(wait.kind, _WORDS)


def call_lines(wait: WaitView, *, whole: bool = False) -> tuple[list[str], Disclosure]:
    """Return the lines of a call to approve, and whether they are all of it."""
    shown = disclose(wait.payload or {}, whole=whole)
    cut = [] if shown.is_whole else ["  the call is not shown whole; --full shows all of it"]
    prompt = [visible(wait.prompt)] if wait.prompt else []
    changes = [f"  {line}" for line in filter(None, (*wait.changes_in_words, wait.taint_in_words))]
    if wait.deciders:
        changes.append(f"  decided by {wait.deciders}")
    changes += [f"  {each}" for each in (wait.progress, wait.escalation) if each]
    tool = f"  {visible(wait.tool or '')}"
    files = [file.line for file in wait.attachments]
    return [*prompt, tool, *changes, *(f"    {line}" for line in (*shown.lines, *files)), *cut], shown


def edit_lines(wait: WaitView, arguments: Mapping[str, Any]) -> list[str]:
    """Return how edited arguments differ from those of a call to approve."""
    changes = disclose_changes(wait.payload or {}, arguments)
    return ["  changed:", *(f"    {line}" for line in changes)] if changes else ["  nothing is changed"]
