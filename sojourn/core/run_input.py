"""Is this a run's opening? Checked where it is handed in, and again by the first plan."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.core.wire import size_of

__all__ = ["MAX_OPENING_BYTES", "labels_fault", "messages_fault", "read_run_input"]

MAX_OPENING_BYTES = 1_000_000
"""The first messages together: they are one payload, and the server refuses 2 MB."""

_MAX_LABELS = 20
_MAX_LABEL_CHARS = 256
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


def labels_fault(labels: Mapping[str, str]) -> str | None:
    """Why these labels are refused, or None."""
    if len(labels) > _MAX_LABELS:
        return f"a run has at most {_MAX_LABELS} labels"
    if any(len(key) > _MAX_LABEL_CHARS or len(value) > _MAX_LABEL_CHARS for key, value in labels.items()):
        return f"a label's name and value have at most {_MAX_LABEL_CHARS} characters each"
    return None


def read_run_input(value: Any) -> RunInput | str:
    """The run's input, or why it is none: anybody with a Temporal client may have written it."""
    try:
        run = value if isinstance(value, RunInput) else RunInput.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "input"
        return f"AgentRun takes one RunInput; {place}: {first['msg']}"
    return messages_fault(run.messages) or labels_fault(run.labels) or run
