"""The rules for a run's opening, checked by the client that starts the run, and again by the first plan."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from sojourn.contracts.ids import AGENT_ID, SESSION_ID
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.core.awaits.principals import principal_fault
from sojourn.core.values.timers import duration_fault
from sojourn.core.values.wire import size_of

__all__ = [
    "MAX_OPENING_BYTES",
    "labelled",
    "labels_fault",
    "messages_fault",
    "opening_fault",
    "read_run_input",
    "turn_start_of",
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
"""Largest size of the record of what a fork was given."""

_ROLES = ("system", "user", "assistant", "tool")


def messages_fault(messages: Sequence[Message]) -> str | None:
    """Why these messages cannot open a run, or None."""
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
    """Index of the first message of a person that the opening does not answer: where its earlier talk ends; 0 without one."""
    answered = max(
        (place for place, each in enumerate(messages) if each.role in ("assistant", "tool")), default=-1
    )
    people = (place for place in range(answered + 1, len(messages)) if messages[place].role == "user")
    return next(people, 0) if answered >= 0 else 0


def labels_fault(labels: Mapping[str, str]) -> str | None:
    """Why these labels are refused, or None."""
    if len(labels) > _MAX_LABELS:
        return f"a run has at most {_MAX_LABELS} labels"
    if any(len(key) > _MAX_LABEL_CHARS or len(value) > _MAX_LABEL_CHARS for key, value in labels.items()):
        return f"a label's name and value have at most {_MAX_LABEL_CHARS} characters each"
    return None


def labelled(labels: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """A run's labels with those that a policy engine adds; labels over the limit are left out."""
    both = {**labels, **more}
    return dict(list(both.items())[:_MAX_LABELS])


def opening_fault(run: RunInput) -> str | None:
    """Why this opening is refused, or None; the same rules apply to clients and to runs started with Temporal's own tools."""
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
    fields = run.policy.given() if run.policy else {}
    durations = {name: value for name, value in fields.items() if isinstance(value, timedelta)}
    for name, duration in durations.items():
        if fault := duration_fault(f"policy.{name}", duration):
            return fault
    if run.policy and size_of(run.policy) > MAX_POLICY_BYTES:
        return f"a policy, with the tools and tags that it names, has at most {MAX_POLICY_BYTES:,} bytes"
    return None


def _parent_fault(run: RunInput) -> str | None:
    """Why what the run inherits from its parent and passes on with every call is refused, or None."""
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
    """The run's input, or why it is invalid: anybody with a Temporal client may have written it."""
    try:
        run = value if isinstance(value, RunInput) else RunInput.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "input"
        return f"AgentRun takes one RunInput; {place}: {first['msg']}"
    may_be_empty = run.conversation and not run.messages
    return (None if may_be_empty else messages_fault(run.messages)) or labels_fault(run.labels) or run
