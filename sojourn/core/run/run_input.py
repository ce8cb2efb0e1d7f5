"""Check a run's input, decide who may see the run, and summarize it for lists.

Who may see a run is recorded for lists, as marks of subjects: a search attribute is never encrypted,
and holds 2 KB at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from sojourn.contracts.ids import AGENT_ID, SESSION_ID
from sojourn.contracts.message import Message
from sojourn.contracts.principal import MARK_CHARS, OPERATOR, Principal, mark_of, principal_fault
from sojourn.contracts.run import RunInput
from sojourn.contracts.wire_names import FORKED_FROM, MESSAGE, STARTED_BY, TENANT, TIME_ZONE, VISIBLE_TO
from sojourn.values.text import CUT, clip
from sojourn.values.timers import duration_fault
from sojourn.values.visible import code, fence, visible
from sojourn.values.wire import size_of

__all__ = [
    "MAX_OPENING_BYTES",
    "MAX_VIEWERS",
    "NOBODY",
    "RunSummary",
    "add_labels",
    "is_visible_to",
    "labels_fault",
    "messages_fault",
    "opening_fault",
    "read_run_input",
    "summarize",
    "turn_start_of",
    "viewers_of",
]

MAX_OPENING_BYTES = 1_000_000
"""Largest size of the first messages together: they are one payload, and the server refuses 2 MB."""

_MAX_LABELS = 20
_MAX_LABEL_CHARS = 256
_MAX_TURN_ID_CHARS = 64
_MAX_ID_CHARS = 300
"""Longest id of another run or call: a child's id consists of its parent's, at most 200, and a call's, at most 64."""
_MAX_CALLERS = 100

MAX_POLICY_BYTES = 64_000
"""Largest size of a run's own limits as JSON, with names of tools and tags: every plan and child run gets them."""

MAX_ANSWER_SCHEMA_BYTES = 400_000
"""Largest schema of a typed answer; every plan gets it."""

MAX_CHANGES_BYTES = 16_000

_ROLES = ("system", "user", "assistant", "tool")


def messages_fault(messages: Sequence[Message]) -> str | None:
    if not messages:
        return "a run starts with at least one message"
    for message in messages:
        if message.role not in _ROLES:
            return f"a message's role is one of {', '.join(_ROLES)}, not {message.role[:40]!r}"
        if not message.parts:
            return "a message has at least one part"
    size = sum(size_of(message) for message in messages)
    if size > MAX_OPENING_BYTES:
        return f"the first messages are {size:,} bytes together, at most {MAX_OPENING_BYTES:,} can be carried"
    return None


def turn_start_of(messages: Sequence[Message]) -> int:
    """Return the index of the first user message that the opening does not answer.

    Earlier talk ends there. It is 0 if there is no such message.
    """
    answered = max(
        (place for place, each in enumerate(messages) if each.role in ("assistant", "tool")), default=-1
    )
    people = (place for place in range(answered + 1, len(messages)) if messages[place].role == "user")
    return next(people, 0) if answered >= 0 else 0


def labels_fault(labels: Mapping[str, str]) -> str | None:
    if len(labels) > _MAX_LABELS:
        return f"a run has at most {_MAX_LABELS} labels"
    if any(len(key) > _MAX_LABEL_CHARS or len(value) > _MAX_LABEL_CHARS for key, value in labels.items()):
        return f"a label's name and value have at most {_MAX_LABEL_CHARS} characters each"
    return None


def add_labels(labels: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return a run's labels with those that a policy engine adds.

    Labels over the limit are left out.
    """
    both = {**labels, **more}
    return dict(list(both.items())[:_MAX_LABELS])


def opening_fault(run: RunInput) -> str | None:
    """Return why this opening is refused, or None.

    The same rules apply to clients and to runs started with Temporal's own tools.
    """
    if not AGENT_ID.match(run.agent_id):
        return f"agent_id {run.agent_id[:80]!r} is not an agent id; it has the form <service>.<agent>"
    longest = (
        _MAX_TURN_ID_CHARS if run.parent is None else _MAX_ID_CHARS
    )  # a child's turn id contains those of the runs above it
    if not SESSION_ID.match(run.session_id) or len(run.turn_id) > longest:
        return (
            "session_id holds no quotes, backslashes or control characters and is at most 200 characters long, "
            f"turn_id at most {_MAX_TURN_ID_CHARS}"
        )
    if run.conversation and (run.parent or run.answer is not None):
        return "a child run is no conversation"
    return _policy_fault(run) or _parent_fault(run) or principal_fault(run.principal)


def _policy_fault(run: RunInput) -> str | None:
    fields = run.policy.set_fields() if run.policy else {}
    durations = {name: value for name, value in fields.items() if isinstance(value, timedelta)}
    for name, duration in durations.items():
        if fault := duration_fault(f"policy.{name}", duration):
            return fault
    if run.policy and size_of(run.policy) > MAX_POLICY_BYTES:
        return f"a policy, with the tools and tags that it names, has at most {MAX_POLICY_BYTES:,} bytes"
    return None


def _parent_fault(run: RunInput) -> str | None:
    link = run.parent
    ids = [link.run_id, link.agent_id, link.parent_run_id, link.parent_tool_call_id] if link else []
    if fork := run.forked_from:
        ids += [fork.run_id, fork.event_id, fork.execution, fork.at, fork.by or ""]
        if fork.changes and size_of(fork.changes) > MAX_CHANGES_BYTES:
            return f"what forked_from says of changes has at most {MAX_CHANGES_BYTES:,} bytes"
    ids.append(run.key_run_id)
    if any(len(id) > _MAX_ID_CHARS for id in [*ids, *run.callers]) or len(run.callers) > _MAX_CALLERS:
        return f"parent, callers and forked_from name at most {_MAX_CALLERS} runs and agents, by at most {_MAX_ID_CHARS} characters each"
    if run.answer is not None and size_of(run.answer) > MAX_ANSWER_SCHEMA_BYTES:
        return f"the schema of the answer has at most {MAX_ANSWER_SCHEMA_BYTES:,} bytes"
    return None


def read_run_input(value: Any) -> RunInput | str:
    """Return the run's input, or why it is invalid.

    Any program with a Temporal client may have written it.
    """
    try:
        run = value if isinstance(value, RunInput) else RunInput.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "input"
        return f"AgentRun takes one RunInput; {place}: {first['msg']}"
    may_be_empty = run.conversation and not run.messages
    return (None if may_be_empty else messages_fault(run.messages)) or labels_fault(run.labels) or run


MAX_VIEWERS = 40
"""Maximum number of a run's marks: a conversation's first senders. Their list stays below the server's limit."""

NOBODY = "-"
"""The mark of a run that was started without a principal."""


def viewers_of(run: RunInput, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the marks of the principals who may see a run, beside operators.

    It is empty if the run's whole tenant may see it.
    """
    if run.visibility != "subject":
        return ()
    starter = mark_of(run.principal) if run.principal else NOBODY
    marks = (each for each in (starter, *run.visible_to, *more) if len(each) <= MARK_CHARS)
    return tuple(dict.fromkeys(marks))[:MAX_VIEWERS]


def is_visible_to(viewers: Sequence[str], principal: Principal | None) -> bool:
    """Return whether a principal of the run's tenant may see and write to the run.

    Args:
        viewers: The marks of those who may see the run; empty if its whole tenant may.
        principal: The caller; None for a program that acts for no principal, and sees every run.
    """
    if not viewers or principal is None or OPERATOR in principal.roles:
        return True
    return mark_of(principal) in viewers


_MAX_MEMO = 200
_MAX_SUMMARY_BYTES = 160
"""Temporal limits a summary to 400 bytes in all, with the agent's id and the overhead of encryption."""

_MAX_DETAILS = 1_000


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Memo, summary and details of a run, which are set at the start."""

    memo: dict[str, Any]
    """For lists of runs: `message`, the beginning of the user's message.

    A fork also has `forked_from`, the origin's id. The run of a principal with a tenant has `tenant`, and
    `visible_to` if not all of the tenant may see it.
    """
    summary: str
    """One line of Markdown: the agent, and the user's message or, for a child run, the tool that was called."""
    details: str | None
    """Markdown: the user's message and the labels, both fenced, because they come from outside."""


def summarize(run: RunInput, tool: str | None = None, message: str = "") -> RunSummary:
    """Summarize a run.

    For a child run, `tool` is the tool whose call it answers. For a run without a message, `message` is the
    one with which it begins.
    """
    message = visible((_last_user_message(run.messages) or message)[: 2 * _MAX_DETAILS], keep="\n")
    what = tool or code(_cut_to_bytes(" ".join(message.split()), _MAX_SUMMARY_BYTES))
    origin = run.forked_from
    fork = [f"**Forked from** {code(origin.run_id)} at event {code(origin.event_id)}"] if origin else []
    asked = [f"**Asked:**\n\n{fence(clip(message, _MAX_DETAILS))}"] if message else []
    parts = [*fork, *asked]
    if run.labels:
        labels = "\n".join(f"{name}: {value}" for name, value in run.labels.items())
        parts.append(f"**Labels:**\n\n{fence(clip(labels, _MAX_DETAILS))}")
    return RunSummary(
        memo={
            **({MESSAGE: clip(message, _MAX_MEMO)} if message else {}),
            **({FORKED_FROM: origin.run_id} if origin else {}),
            **({TENANT: run.tenant} if run.tenant else {}),
            **({STARTED_BY: run.principal.subject} if run.principal else {}),
            **({TIME_ZONE: run.time_zone} if run.time_zone else {}),
            **({VISIBLE_TO: list(viewers)} if (viewers := viewers_of(run)) else {}),
        },
        summary=f"{run.agent_id}: {what}" if what else run.agent_id,
        details="\n\n".join(parts) or None,
    )


def _last_user_message(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user"), "")


def _cut_to_bytes(text: str, most: int) -> str:
    # Quotes and backslashes count twice.
    size = 0
    for index, character in enumerate(text):
        size += 2 if character in '"\\' else len(character.encode(errors="replace"))
        if size > most:
            return text[:index] + CUT
    return text
