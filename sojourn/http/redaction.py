"""Redact details that are for operators only from all HTTP responses.

An HTTP client may be a stranger. It does not see the file and line of an author's code, or the identity
of a Temporal client, which by default is a process id and a host. Operators find both in Temporal's own
history and at the command line.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from sojourn.contracts.event import BaseEvent
from sojourn.contracts.run import CallStatus, RunStatus
from sojourn.contracts.tool_error import ToolError

__all__ = ["redact", "redact_text"]

T = TypeVar("T")

_PLACE = re.compile(r" \([^()\s:/\\]{1,100}\.pyw?:[0-9]{1,9}\)(?![\w(])")
"""File and line at the end of an exception's text, or before its cause."""

_SENDER = re.compile(r" by (?:[0-9]{1,10}|temporal-cli:[^\s@]{1,100})@[\w.@-]{1,300}")
"""Identity of a Temporal client, as error texts name it after `by`."""

_TEXTS: Mapping[type[BaseModel], tuple[str, ...]] = {
    CallStatus: ("error",),
    RunStatus: ("failure", "hints"),
    ToolError: ("message",),
}
"""Fields with error texts, from which both are redacted."""

_TEXTS_OF_EVENTS: Mapping[str, tuple[str, ...]] = {
    "run_canceled": ("text",),
    "run_failed": ("text",),
    "run_terminated": ("text",),
    "tool_retry": ("error",),
}
"""Fields with error texts, by the type of the event."""


def redact_text(text: str) -> str:
    """Redact places in code and names of Temporal's clients from an error text."""
    return _SENDER.sub("", _PLACE.sub("", text))


def redact(value: T) -> T:
    """Return a value redacted, or the value itself if there is nothing to redact."""
    return cast("T", _redact(value))


def _redact(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _redact_record(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        redacted = [_redact(item) for item in items] if items and _is_read(items[0]) else items
        return redacted if any(new is not old for new, old in zip(redacted, items, strict=True)) else items
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        is_read = any(_is_read(item) for item in fields.values())
        return {name: _redact(item) for name, item in fields.items()} if is_read else fields
    return value


def _is_read(value: Any) -> bool:
    """Return whether a value can contain records. Plain JSON is sent unchanged."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return bool(items) and _is_read(items[0])
    return isinstance(value, BaseModel)


def _redact_record(record: BaseModel) -> BaseModel:
    changes: dict[str, Any] = {}
    for name in type(record).model_fields:
        before = getattr(record, name)
        after = _redact(before)
        if after is not before:
            changes[name] = after
    for name in _texts_of(record):
        about = getattr(record, name)
        if about:
            changes[name] = (
                redact_text(about) if isinstance(about, str) else [redact_text(each) for each in about]
            )
    hidden = "place" if isinstance(record, ToolError) else "identity" if isinstance(record, BaseEvent) else ""
    if hidden and getattr(record, hidden, None) is not None:
        changes[hidden] = None
    return record.model_copy(update=changes) if changes else record


def _texts_of(record: BaseModel) -> tuple[str, ...]:
    found = next((_TEXTS[kind] for kind in type(record).__mro__ if kind in _TEXTS), None)
    return found or _TEXTS_OF_EVENTS.get(str(getattr(record, "type", "")), ())
