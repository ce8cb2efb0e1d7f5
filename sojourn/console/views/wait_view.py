"""Render one wait, with its question, consequences, arguments and form."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sojourn.answers import WaitView
from sojourn.answers import wait_view as describe
from sojourn.console.views.arguments import Arguments, arguments_of
from sojourn.console.views.text import shown
from sojourn.console.views.wait_history import WaitHistory
from sojourn.console.views.waits import KINDS
from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
)
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_spec import Annotations, ShownTool, ToolSpec
from sojourn.core.run.approval import APPROVE
from sojourn.forms import FormField, form_fields, whole_field
from sojourn.timeline import verdict_of
from sojourn.values.visible import one_line, readable

__all__ = ["CallForm", "Consequence", "Ended", "Specs", "WaitForm", "wait_form", "wait_view", "without_calls"]

MAX_TEXT = 20_000
"""Longest prose, in characters."""

MOST_CHANGES = 50
"""Most changes of a tool that a form shows."""

MOST_CALLS = 20
"""Most external calls whose results one form accepts."""

_AWAITED = ("requested", "running", "waiting")
"""States of an external call that has no result yet."""

Specs = Callable[[str], ToolSpec | None]


@dataclass(frozen=True, slots=True)
class Consequence:
    """An effect of a call, as its tool declares it."""

    level: str
    """`danger`, `care`, `calm` or `unknown`."""
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a wait."""

    verdict: str
    by: str
    identity: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class CallForm:
    """An external call, and the form for its result."""

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
    """A wait as its page shows it, and the form that answers it."""

    run_id: str
    await_id: str
    kind: str
    word: str
    title: str
    prompt: str
    """The question, if the title does not have all of it."""
    detail: str
    wait: WaitView
    """The wait as every reader sees it."""
    asked: str
    for_whom: str
    said: str
    paused: str | None
    tool: str
    tool_title: str
    about_tool: str
    tags: tuple[str, ...]
    consequences: tuple[Consequence, ...]
    changes: tuple[str, ...]
    arguments: Arguments | None
    compared: str
    """The approver of the earlier call with which the arguments are compared."""
    compared_at: datetime | None
    digest: str
    fields: tuple[FormField, ...]
    """The fields of a question with a form."""
    words: FormField | None
    """The field for an answer in words to a question."""
    example: str
    calls: tuple[CallForm, ...]
    calls_left_out: int
    around: WaitHistory
    ended: Ended | None
    cut: frozenset[str] = frozenset()
    """Names of the fields that are cut to their beginning."""
    reason: str = ""
    """The reason that the visitor has typed."""
    fault: str = ""
    """Why the answer was not accepted."""
    then: str = ""
    """Advice after such a fault."""

    @property
    def key(self) -> str:
        """The same key as that of `WaitView`."""
        return f"{self.run_id} {self.await_id}"

    @property
    def anchor(self) -> str:
        """Prefix of the ids of its place in a page.

        Ids of runs and waits may contain characters that no selector takes, so this is a digest.
        """
        return f"ask-{hashlib.sha256(f'{self.run_id} {self.await_id}'.encode()).hexdigest()[:12]}"

    @property
    def mark(self) -> str:
        """Hash of the facts for a decision. It changes with each of them."""
        calls = [(call.tool_call_id, call.tool, call.arguments.whole) for call in self.calls]
        by = (
            self.anchor,
            self.digest,
            self.title,
            self.prompt,
            self.detail,
            self.changes,
            self.consequences,
            self.deciders,
            self.stop_asking,
            calls,
        )
        return hashlib.sha256(repr(by).encode()).hexdigest()[:16]

    @property
    def roles(self) -> Sequence[Sequence[str]]:
        """Role lists. A person needs one role of each to answer the wait.

        Empty if only a function of the app judges.
        """
        return self.wait.roles

    @property
    def deciders(self) -> str:
        """Principals who may decide on the call, in words.

        Empty if its tool and the rules do not say.
        """
        return self.wait.deciders

    @property
    def stop_asking(self) -> str:
        """For how long an approval may cover the tool: `turn`, `run` or `never`."""
        return self.wait.stop_asking or "never"

    @property
    def is_whole(self) -> bool:
        """Whether the page shows all that an approval covers.

        What it does not show cannot be approved there.
        """
        return self.arguments is None or self.arguments.is_whole

    def may_settle(self, asking: Principal) -> bool:
        """Check whether a principal may answer the wait in some way.

        The principal that requested a call may at least deny it.
        """
        return self.wait.may_answer(asking)

    def may_approve(self, asking: Principal) -> bool:
        """Check whether a principal may approve the call."""
        return self.wait.may_approve(asking)

    @property
    def is_refused(self) -> bool:
        """Whether this is a rejected answer, with the reasons."""
        fields = [*self.fields, *filter(None, [self.words])]
        fields += [field for call in self.calls for field in call.fields]
        return bool(self.fault) or any(field.fault for field in fields)

    @property
    def level(self) -> str:
        """The gravest of its consequences."""
        levels = [each.level for each in self.consequences]
        return next((level for level in ("danger", "care", "unknown") if level in levels), "calm")


def wait_view(
    wait: Await, status: RunStatus, around: WaitHistory, specs: Specs, *, asked: str, said: str, is_open: bool
) -> WaitForm:
    """Return the view of a wait.

    Args:
        wait: The wait.
        status: Status of its run.
        around: The steps before it, and its end.
        specs: Returns the tool of an id, or None if the app has none.
        asked: The request of the turn.
        said: The planner's last text.
        is_open: Whether it is open.
    """
    kind, since = wait.kind, around.since
    answered = None if is_open else around.answered
    view = WaitForm(
        run_id=status.run_id,
        await_id=wait.id,
        kind=kind,
        word=KINDS[kind],
        title="",
        prompt="",
        detail="",
        wait=describe(wait, status.run_id, since=since, status=status),
        asked=_prose(asked or around.asked),
        for_whom=_prose(around.for_whom),
        said=_prose(said),
        paused=status.paused,
        tool="",
        tool_title="",
        about_tool="",
        tags=(),
        consequences=(),
        changes=(),
        arguments=None,
        compared="",
        compared_at=None,
        digest="",
        fields=(),
        words=None,
        example="",
        calls=(),
        calls_left_out=0,
        around=around,
        cut=_cut(asked=asked or around.asked, for_whom=around.for_whom),
        ended=Ended(
            verdict_of(answered).replace("_", " ").capitalize(),
            answered.by or "",
            answered.identity or "",
            answered.text or "",
            answered.time,
        )
        if answered
        else None,
    )
    if isinstance(wait, AwaitConfirmation):
        return _approval(view, wait, around, specs)
    if isinstance(wait, AwaitClarification):
        return _question(view, wait, specs)
    given = {call.tool_call_id for call in status.calls if call.state not in _AWAITED}
    return without_calls(_results(view, wait, specs), given)


def without_calls(view: WaitForm, given: Collection[str]) -> WaitForm:
    """Remove the calls whose results were given from the view of a wait.

    If results of all its calls were given, return the view unchanged.

    Args:
        view: The view.
        given: Ids of the calls whose results were given.
    """
    left = tuple(call for call in view.calls if call.tool_call_id not in given)
    return replace(view, calls=left) if left else view


def wait_form(wait: Await, run_id: str, specs: Specs, status: RunStatus | None = None) -> WaitForm:
    """Return the form of an open wait, without its history, for its run's page.

    Args:
        wait: The wait.
        run_id: Its run.
        specs: Returns the tool of an id, if the app has one.
        status: The status of a run. The status of another run is ignored.
    """
    calls = status.calls if status and status.run_id == run_id else []
    of = RunStatus(run_id=run_id, calls=calls)
    return wait_view(wait, of, WaitHistory(), specs, asked="", said="", is_open=True)


def _prose(text: str) -> str:
    return readable(text[:MAX_TEXT])


def _cut(**texts: str) -> frozenset[str]:
    """Return the names of the texts that are too long."""
    return frozenset(name for name, text in texts.items() if len(text) > MAX_TEXT)


def _approval(view: WaitForm, wait: AwaitConfirmation, around: WaitHistory, specs: Specs) -> WaitForm:
    spec, before = specs(wait.tool), around.approved
    cut = _cut(prompt=wait.prompt, about_tool=spec.description if spec else "")
    if len(wait.changes) > MOST_CHANGES or any(len(change) > MAX_TEXT for change in wait.changes):
        cut |= {"changes"}
    return replace(
        view,
        title=one_line(wait.prompt or wait.title or wait.tool, 400),
        prompt=_prose(wait.prompt) if len(wait.prompt) > 400 else "",
        cut=view.cut | cut,
        tool=wait.tool,
        tool_title=one_line(wait.title, 120),
        about_tool=_prose(spec.description) if spec else "",
        tags=tuple(one_line(tag, 60) for tag in wait.tags[:12]),
        consequences=_GOES_ON
        if wait.tool == APPROVE
        else consequences(wait.shown, spec, repeats=wait.outcome_unknown),
        changes=tuple(shown(change[:MAX_TEXT]) for change in wait.changes[:MOST_CHANGES]),
        arguments=arguments_of(
            wait.payload,
            before.payload if before else None,
            about=spec.payload.field_descriptions if spec else None,
        ),
        compared=before.by if before else "",
        compared_at=before.at if before else None,
        digest=wait.payload_digest,
    )


_GOES_ON = (Consequence("care", "The flow goes on with what is approved."),)
"""Consequence of an approval that a flow requests.

The call itself changes nothing. The approval is for what the flow does next.
"""


def consequences(
    tool: ShownTool | None, spec: ToolSpec | None, *, repeats: bool = False
) -> tuple[Consequence, ...]:
    """Return the effects of a call.

    It follows what its tool declared when the call was displayed, or else what the tool declares now.

    Args:
        tool: The tool as it was displayed.
        spec: The tool as it is now.
        repeats: Whether the call repeats one that may have taken effect.
    """
    of = tool.annotations if tool else spec.annotations if spec else None
    earlier = Consequence("danger", "An earlier attempt may have taken effect; its outcome is unknown.")
    found = [earlier] if repeats else []
    if of is None:
        why = "This service does not know the tool, and cannot say what it changes."
        return (*found, Consequence("unknown", why))
    found += _declared(of, repeats=repeats)
    agent = (tool.agent_id if tool else None) or (spec.agent_id if spec else None)
    if agent:
        found.append(Consequence("care", f"Starts the agent {one_line(agent, 100)}, with calls of its own."))
    if spec is not None and not spec.trusted:
        found.append(Consequence("unknown", "Its MCP server says so itself; nobody has confirmed it."))
    return tuple(found)


def _declared(of: Annotations, *, repeats: bool) -> Iterator[Consequence]:
    if of.read_only:
        yield Consequence("calm", "Changes nothing.")
    elif of.destructive:
        yield Consequence("danger", "May destroy or overwrite.")
    elif of.destructive is None:
        yield Consequence("unknown", "Does not say whether it may destroy or overwrite.")
    else:
        yield Consequence("calm", "Adds and changes, but destroys nothing.")
    if of.idempotent and not of.read_only and repeats:
        yield Consequence("care", "Runs with the same idempotency key as the earlier attempt.")
    elif of.idempotent and not of.read_only:
        yield Consequence("calm", "Repeating it changes nothing more.")
    elif of.idempotent is False and not of.read_only:
        yield Consequence("care", "Has its effect each time it runs; it is never tried again by itself.")
    if of.open_world:
        yield Consequence("care", "Reaches systems outside the service.")


def _question(view: WaitForm, wait: AwaitClarification, specs: Specs) -> WaitForm:
    spec = specs(wait.restrict_to_tool) if wait.restrict_to_tool else None
    fields, words = _question_fields(wait)
    cut = _cut(
        prompt=wait.question,
        detail=wait.clarifying_prompt or "",
        about_tool=spec.description if spec else "",
    )
    return replace(
        view,
        cut=view.cut | cut,
        title=one_line(wait.question.strip().split("\n")[0], 300) or "A question",
        prompt=_prose(wait.question) if "\n" in wait.question.strip() or len(wait.question) > 300 else "",
        detail=_prose(wait.clarifying_prompt or ""),
        tool=wait.restrict_to_tool or wait.server or "",
        tool_title=one_line(spec.title, 120) if spec else "",
        about_tool=_prose(spec.description) if spec else "",
        fields=fields,
        words=words,
        example=shown(_json(wait.example_input)) if wait.example_input and not fields else "",
    )


def _question_fields(wait: AwaitClarification) -> tuple[tuple[FormField, ...], FormField | None]:
    """Return the fields of a question's form, and the field for a free answer.

    The second is None if the answer may not be in words.
    """
    fields = form_fields(wait.form, "field", wait.example_input) or ()
    words = FormField("answer", "answer", "Answer", "", "lines", is_required=not fields and wait.form is None)
    if wait.form is not None and not fields:
        words = replace(words, label="Answer, as JSON", kind="json", is_required=True)
    return fields, words if wait.tool_call_id is None or not fields else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)[:MAX_TEXT]


def _results(view: WaitForm, wait: AwaitExternalTools, specs: Specs) -> WaitForm:
    calls: list[CallForm] = []
    for index, item in enumerate(wait.items[:MOST_CALLS]):
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
                FormField(
                    "error", f"call{index}-error", "Or why there is none", "The planner is told.", "text"
                ),
            )
        )
    left_out = len(wait.items) - len(calls)
    tools = ", ".join(dict.fromkeys(one_line(item.tool, 80) for item in wait.items[:3]))
    return replace(
        view,
        title=f"{len(wait.items)} results of {tools}" if len(wait.items) > 1 else f"Result of {tools}",
        detail="A program outside the run carries out this call; you can give its result in its place.",
        tool=wait.items[0].tool if wait.items else "",
        calls=tuple(calls),
        calls_left_out=left_out,
    )
