"""Render a wait, with its question, consequences, arguments and form."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from sojourn.answers import WaitView, wait_view
from sojourn.console.views.text import escape_hidden
from sojourn.console.views.values import Arguments, arguments_of
from sojourn.console.views.wait_history import WaitHistory
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_spec import Annotations, ToolSpec
from sojourn.forms import FormField, edit_fields, form_fields, whole_field
from sojourn.reader import FoundWait
from sojourn.timeline import WaitEnd
from sojourn.values.visible import one_line, readable

__all__ = [
    "KINDS",
    "CallForm",
    "WaitForm",
    "form_in_place",
    "given_calls",
    "kind_word",
    "title_of",
    "verdict_word",
    "wait_form",
    "wait_line",
    "waits_below",
    "waits_of",
    "without_calls",
]

MAX_TEXT = 20_000
"""Longest prose, in characters."""

MOST_CHANGES = 50
"""Most changes of a tool that a form shows."""

MOST_CALLS = 20
"""Most external calls whose results one form accepts."""

_AWAITED = ("requested", "running", "waiting")
"""States of an external call that has no result yet."""

Specs = Callable[[str], ToolSpec | None]
"""Returns the tool of an id, or None if the app has none."""


def kind_word(noun: str) -> str:
    """Return a kind of wait without its article, such as `Approval`."""
    return noun.removeprefix("a ").removeprefix("an ").capitalize()


KINDS = {each.kind: kind_word(each.noun) for each in get_args(Await)}
"""The kinds of waits, in a word or two."""


def title_of(wait: WaitView) -> str:
    if wait.kind == "tool_results":
        count = len(wait.calls)
        return f"{f'{count} results' if count > 1 else 'Result'} from outside: {_join_tools(wait)}"
    return one_line(wait.summary, 160)


def wait_line(waits: Sequence[WaitView]) -> str:
    """Describe the first of these waits in one line, and count the others.

    Empty if there is none.
    """
    if not waits:
        return ""
    wait, more = waits[0], f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    if wait.call is not None:
        return f"Needs approval: {one_line(wait.title or wait.call.tool, 120)}{more}"
    if wait.takes_words:
        return f"{kind_word(wait.noun)}: {title_of(wait)}{more}"
    return f"Waiting for an external result: {_join_tools(wait)}{more}"


def _join_tools(wait: WaitView) -> str:
    return ", ".join(one_line(tool, 80) for tool in wait.tools[:3])


def verdict_word(decision: WaitEnd) -> str:
    """Return how a wait ended, such as `Approved` or `Expired`."""
    return decision.verdict.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Consequence:
    level: str
    """`danger`, `care`, `calm` or `unknown`."""
    text: str


@dataclass(frozen=True, slots=True)
class CallForm:
    tool_call_id: str
    tool: str
    title: str
    about: str
    arguments: Arguments
    fields: tuple[FormField, ...]
    is_flat: bool
    """Whether each value of the result has a field. Else one field has all of it."""
    schema: Mapping[str, Any] | None
    error: FormField


@dataclass(frozen=True, slots=True)
class WaitForm:
    """A wait with the facts for a decision, and the form that answers it."""

    wait: WaitView
    history: WaitHistory = field(default_factory=WaitHistory)
    found: FoundWait | None = None
    """Its entry among the open waits. None if it is not open, or was not looked for there."""
    is_only: bool = False
    """Whether its run has no other open wait."""
    is_open: bool = True
    asked: str = ""
    """The request of the turn, or the one that opened the run."""
    title: str = ""
    prompt: str = ""
    """The question, if the title does not have all of it."""
    detail: str = ""
    tool_title: str = ""
    about_tool: str = ""
    tags: tuple[str, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    changes: tuple[str, ...] = ()
    arguments: Arguments | None = None
    fields: tuple[FormField, ...] = ()
    """The fields of a question with a form, or of the arguments of a call that may be edited."""
    schema: Mapping[str, Any] | None = None
    """The schema of those arguments. None if this service does not know the tool."""
    words: FormField | None = None
    """The field for an answer in words to a question."""
    example: str = ""
    calls: tuple[CallForm, ...] = ()
    calls_left_out: int = 0
    cut: frozenset[str] = frozenset()
    """Names of the texts that are cut to their beginning."""
    reason: str = ""
    """The reason that the visitor has typed."""
    fault: str = ""
    """Why the answer was not accepted."""
    then: str = ""
    """Advice after such a fault."""
    http_status: int = 200
    """Status of the response that has the form."""
    is_edited: bool = False
    """Whether the visitor has added or removed a row, or has edited the arguments of a call."""

    @property
    def word(self) -> str:
        """The kind in a word or two."""
        return kind_word(self.wait.noun)

    @property
    def tool(self) -> str:
        """The tool, or the server that asks."""
        return self.wait.tool or self.wait.server or next(iter(self.wait.tools), "")

    @property
    def for_whom(self) -> str:
        """For a child run, the request of the root run."""
        return _prose(self.history.for_whom)

    @property
    def ended(self) -> WaitEnd | None:
        """How the wait ended. None if it is open, or was closed without an answer."""
        return None if self.is_open else self.history.decision

    @property
    def anchor(self) -> str:
        """Prefix of the ids of its place in a page.

        Ids of runs and waits may contain characters that no selector takes, so this is a digest.
        """
        return f"ask-{hashlib.sha256(self.wait.key.encode()).hexdigest()[:12]}"

    @property
    def mark(self) -> str:
        """Hash of the facts for a decision. It changes with each of them."""
        calls = [(call.tool_call_id, call.tool, call.arguments.whole) for call in self.calls]
        by = (
            self.anchor,
            self.wait.digest,
            self.title,
            self.prompt,
            self.detail,
            self.changes,
            self.consequences,
            self.wait.deciders,
            self.wait.progress,
            self.wait.escalated,
            self.wait.stop_asking,
            calls,
        )
        return hashlib.sha256(repr(by).encode()).hexdigest()[:16]

    @property
    def shape(self) -> str:
        """Hash of the schema that the fields of an edit follow."""
        return hashlib.sha256(json.dumps(self.schema, default=str).encode()).hexdigest()[:16]

    @property
    def is_whole(self) -> bool:
        """Whether the page shows all that an approval covers.

        A call that it does not show whole cannot be approved there.
        """
        return self.arguments is None or self.arguments.is_whole

    @property
    def is_refused(self) -> bool:
        fields = [*self.fields, *filter(None, [self.words])]
        fields += [each for call in self.calls for each in call.fields]
        return self.is_edited or bool(self.fault) or any(each.has_fault for each in fields)

    @property
    def level(self) -> str:
        levels = [each.level for each in self.consequences]
        return next((level for level in ("danger", "care", "unknown") if level in levels), "calm")


def wait_form(
    wait: WaitView,
    specs: Specs,
    history: WaitHistory | None = None,
    *,
    asked: str = "",
    is_open: bool = True,
    found: FoundWait | None = None,
    is_only: bool = False,
) -> WaitForm:
    """Return the form of a wait, with the request of its turn if that is known."""
    history = history or WaitHistory()
    asked = asked or history.asked
    form = WaitForm(
        wait,
        history,
        found,
        is_only,
        is_open,
        _prose(asked),
        cut=_cut(asked=asked, for_whom=history.for_whom),
    )
    if wait.call is not None:
        return _approval(form, wait.call, specs)
    return _results(form, specs) if wait.kind == "tool_results" else _in_words(form, specs)


def form_in_place(wait: WaitView, specs: Specs, status: RunStatus | None = None) -> WaitForm:
    """Return the form of an open wait, without its history, for its run's page."""
    form = wait_form(wait, specs)
    return without_calls(form, given_calls(status)) if status and status.run_id == wait.run_id else form


def waits_of(status: RunStatus) -> list[WaitView]:
    """Return the waits of a run, then those of its child runs."""
    own = [wait_view(wait, status.run_id) for wait in status.awaits]
    return [*own, *(each for waits in waits_below(status).values() for each in waits)]


def waits_below(status: RunStatus) -> dict[str, list[WaitView]]:
    """Return what the child runs of a run wait for, by child run."""
    return {
        run_id: [wait_view(wait, run_id) for wait in waits]
        for run_id, waits in status.child_awaits.items()
        if waits
    }


def given_calls(status: RunStatus) -> set[str]:
    """Return the ids of the calls of a run that have a result."""
    return {call.tool_call_id for call in status.calls if call.state not in _AWAITED}


def without_calls(form: WaitForm, given: Collection[str]) -> WaitForm:
    """Remove the calls that have results from a form, unless none would be left."""
    left = tuple(call for call in form.calls if call.tool_call_id not in given)
    return replace(form, calls=left) if left else form


def _prose(text: str) -> str:
    return readable(text[:MAX_TEXT])


def _cut(**texts: str) -> frozenset[str]:
    return frozenset(name for name, text in texts.items() if len(text) > MAX_TEXT)


def _approval(form: WaitForm, call: AwaitConfirmation, specs: Specs) -> WaitForm:
    spec, before = specs(call.tool), form.history.approved
    cut = _cut(prompt=call.prompt, about_tool=spec.description if spec else "")
    if len(call.changes) > MOST_CHANGES or any(len(change) > MAX_TEXT for change in call.changes):
        cut |= {"changes"}
    schema = spec.payload.json_schema if spec else None
    arguments = arguments_of(
        call.payload,
        before.arguments if before else None,
        about=spec.payload.field_descriptions if spec else None,
    )
    is_editable = form.is_open and call.allows_edits and arguments.is_whole
    return replace(
        form,
        fields=edit_fields(schema, call.payload, "edit") if is_editable else (),
        schema=schema,
        title=one_line(call.prompt or call.title or call.tool, 400),
        prompt=_prose(call.prompt) if len(call.prompt) > 400 else "",
        cut=form.cut | cut,
        tool_title=one_line(call.title, 120),
        about_tool=_prose(spec.description) if spec else "",
        tags=tuple(one_line(tag, 60) for tag in call.tags[:12]),
        consequences=_consequences(form.wait, spec),
        changes=tuple(escape_hidden(change[:MAX_TEXT]) for change in call.changes[:MOST_CHANGES]),
        arguments=arguments,
    )


def _consequences(wait: WaitView, spec: ToolSpec | None) -> tuple[Consequence, ...]:
    """Return the effects of a call, as its tool declared them when it was displayed."""
    if wait.is_of_flow:
        return (Consequence("care", "The flow continues with what you approve."),)
    of = wait.annotations or (spec.annotations if spec else None)
    earlier = Consequence("danger", "An earlier attempt may have taken effect; its outcome is unknown.")
    found = [earlier] if wait.outcome_unknown else []
    found += [Consequence("danger", escape_hidden(wait.taint_in_words))] if wait.taint else []
    if of is None:
        why = "This service doesn't know the tool, so its effects are unknown."
        return (*found, Consequence("unknown", why))
    found += _list_declared(of, repeats=wait.outcome_unknown)
    shown_tool = wait.call.shown if wait.call else None
    agent = (shown_tool.agent_id if shown_tool else None) or (spec.agent_id if spec else None)
    if agent:
        found.append(
            Consequence("care", f"Starts the agent {one_line(agent, 100)}, which makes its own calls.")
        )
    if spec is not None and not spec.trusted:
        found.append(Consequence("unknown", "Claimed by the MCP server; not verified."))
    return tuple(found)


def _list_declared(of: Annotations, *, repeats: bool) -> Iterator[Consequence]:
    if of.read_only:
        yield Consequence("calm", "Read-only: changes nothing.")
    elif of.destructive:
        yield Consequence("danger", "Destructive: can delete or overwrite data.")
    elif of.destructive is None:
        yield Consequence("unknown", "The tool doesn't declare whether it is destructive.")
    else:
        yield Consequence("calm", "Adds or changes data. Deletes nothing.")
    if of.idempotent and not of.read_only and repeats:
        yield Consequence("care", "Runs with the same idempotency key as the earlier attempt.")
    elif of.idempotent and not of.read_only:
        yield Consequence("calm", "Safe to repeat (idempotent).")
    elif of.idempotent is False and not of.read_only:
        yield Consequence("care", "Takes effect every time it runs. Never retried automatically.")
    if of.open_world:
        yield Consequence("care", "Reaches external systems.")


def _in_words(form: WaitForm, specs: Specs) -> WaitForm:
    """Return the form of a question.

    It is also that of any kind of wait that has no form of its own.
    """
    wait = form.wait
    spec = specs(wait.tool) if wait.tool else None
    text, detail = wait.summary, wait.detail
    fields = form_fields(wait.form, "field", wait.example) or ()
    words = FormField("answer", "answer", "Answer", "", "lines", is_required=not fields and wait.form is None)
    if wait.form is not None and not fields:
        words = replace(words, label="Answer, as JSON", kind="json", is_required=True)
    return replace(
        form,
        cut=form.cut | _cut(prompt=text, detail=detail, about_tool=spec.description if spec else ""),
        title=one_line(text.strip().split("\n")[0], 300) or wait.noun.capitalize(),
        prompt=_prose(text) if "\n" in text.strip() or len(text) > 300 else "",
        detail=_prose(detail),
        tool_title=one_line(spec.title, 120) if spec else "",
        about_tool=_prose(spec.description) if spec else "",
        fields=fields,
        words=words if wait.tool_call_id is None or not fields else None,
        example=escape_hidden(_json(wait.example)) if wait.example and not fields else "",
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)[:MAX_TEXT]


def _results(form: WaitForm, specs: Specs) -> WaitForm:
    calls: list[CallForm] = []
    items = form.wait.calls
    for index, item in enumerate(items[:MOST_CALLS]):
        spec = specs(item.tool)
        schema = spec.result.json_schema if spec else None
        flat = form_fields(schema, f"call{index}-field")
        example = spec.result.example if spec else None
        calls.append(
            CallForm(
                item.tool_call_id,
                item.tool,
                one_line(spec.title, 120) if spec else "",
                _prose(spec.description) if spec else "",
                arguments_of(item.payload, about=spec.payload.field_descriptions if spec else None),
                flat or (whole_field(schema, f"call{index}-result", "Result", example),),
                flat is not None,
                schema,
                FormField("error", f"call{index}-error", "What went wrong", "Sent to the agent.", "text"),
            )
        )
    return replace(
        form,
        title=title_of(form.wait),
        detail="An external system handles this call. You can enter the result instead.",
        calls=tuple(calls),
        calls_left_out=len(items) - len(calls),
    )
