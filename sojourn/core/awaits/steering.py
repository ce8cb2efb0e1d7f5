"""Read an operator's messages other than answers: pause, resume, stop asking."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.principal import Principal
from sojourn.contracts.wire_names import (
    PAUSE,
    PROVIDE_CONFIRMATION,
    RESUME,
    STOP_ASKING,
)
from sojourn.core.awaits.confirmation import refuse_unknown_fields
from sojourn.core.awaits.envelope import Rejection, read_sender, read_text
from sojourn.core.awaits.kinds import KINDS_BY_NAME
from sojourn.core.awaits.principals import PRINCIPAL, principal_of
from sojourn.core.awaits.waits import Released
from sojourn.values.text import echo, is_writable
from sojourn.values.undecodable import first_undecodable
from sojourn.values.wire import MAX_ANSWER_CHARS

__all__ = [
    "NUMBER",
    "PauseRequest",
    "ResumeRequest",
    "idle_fault",
    "is_overtaken",
    "read_pause",
    "read_release",
    "read_resume",
    "refuse_ignored_fields",
]

NUMBER = "number"
"""The field with which a parent run numbers its signals to a child run, since such signals may arrive out of order."""

_FIELDS = {
    PAUSE: ("reason", "by"),
    RESUME: ("note", "by", "messages", PRINCIPAL),
    STOP_ASKING: ("tools", "tags", "reason", "by", PRINCIPAL),
}
_MAX_MESSAGES = 20
_MAX_NAMES = 100
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """A pause: the run starts nothing new."""

    reason: str
    by: str | None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """A resume: the run continues."""

    note: str
    by: str | None
    messages: tuple[str, ...]
    """Messages of a person; they begin a new user turn."""
    number: int | None = None
    principal: Principal | None = None
    """The sender of the messages, as established by the sending program.

    None for the principal that started the run.
    """


def is_overtaken(message: PauseRequest | ResumeRequest, last_steering: int) -> bool:
    """Return whether a later signal of the parent run has already been applied."""
    return message.number is not None and message.number <= last_steering


def refuse_ignored_fields(name: str, values: Sequence[Any]) -> Rejection | None:
    """Return a refusal if a message has a field that its reader ignores, or None.

    The message is an operator's or an answer. An update with an unknown field is refused. A signal is
    applied as far as it is known, unless it is a decision on a call, and a note records the rest. A signal
    has no reply, and a newer parent run may send more fields than its child run knows.
    """
    kind = KINDS_BY_NAME.get(name)
    known = kind.fields if kind else _FIELDS[name]
    value = values[0] if values else None
    if name == PROVIDE_CONFIRMATION and isinstance(value, dict):
        refused = refuse_unknown_fields(cast("dict[str, Any]", value))
        if refused:
            return refused
    unknown = (
        [field for field in cast("dict[str, Any]", value) if field not in known and (field != NUMBER or kind)]
        if isinstance(value, dict)
        else []
    )
    if unknown:
        return Rejection(
            f"{name} does not know {echo(unknown[0])}; it takes {', '.join(f'`{field_name}`' for field_name in known)}"
        )
    return Rejection(f"{name} takes one object, not {len(values)}") if len(values) > 1 else None


def read_pause(values: Sequence[Any]) -> PauseRequest | Rejection:
    """Read `{"reason", "by"}`, a text, or nothing at all."""
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    fields = _fields(values, "reason")
    by, reason = read_sender(fields), read_text(fields, "reason")
    if isinstance(by, Rejection):
        return by
    return reason if isinstance(reason, Rejection) else PauseRequest(reason, by, _number(fields))


def read_resume(
    values: Sequence[Any], *, is_paused: bool, tenant: str | None = None
) -> ResumeRequest | Rejection:
    """Read `{"note", "by", "messages", "principal"}`, a text, or nothing at all.

    A parent run's resume may arrive before its pause.
    """
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    fields = _fields(values, "note")
    number = _number(fields)
    if not is_paused and number is None:
        return Rejection("the run is not paused", "AwaitNotOpen")
    by, note = read_sender(fields), read_text(fields, "note")
    if isinstance(by, Rejection):
        return by
    if isinstance(note, Rejection):
        return note
    messages, principal = _texts(fields.get("messages")), principal_of(fields, tenant)
    if isinstance(messages, Rejection):
        return messages
    return (
        principal
        if isinstance(principal, Rejection)
        else ResumeRequest(note, by, messages, number, principal)
    )


def idle_fault(message: ResumeRequest | Rejection) -> ResumeRequest | Rejection:
    """Refuse a resume with messages between two turns of a conversation.

    There is no turn that the messages could join.
    """
    if isinstance(message, ResumeRequest) and message.messages:
        return Rejection(
            "no turn is under way that its messages could join; resume without them, and send them"
        )
    return message


def read_release(values: Sequence[Any]) -> Released | Rejection:
    """Read `{"tools", "tags", "reason", "by", "principal"}`.

    A tool is named by its id, a toolset as `ops.devices.*`, and all tools as `*`.
    """
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    fields = _fields(values, "reason")
    by, reason = read_sender(fields), read_text(fields, "reason")
    if isinstance(by, Rejection):
        return by
    if isinstance(reason, Rejection):
        return reason
    tools, tags = _names(fields.get("tools")), _names(fields.get("tags"))
    if tools is None or tags is None or not (tools or tags):
        return Rejection(f"`tools` and `tags` are lists of at most {_MAX_NAMES} names, not both empty")
    principal = principal_of(fields)
    if isinstance(principal, Rejection):
        return principal
    return Released(tools, tags, reason, by, principal=principal)


def _fields(values: Sequence[Any], text: str) -> dict[str, Any]:
    value = values[0] if values else None
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {} if value is None else {text: value}


def _number(fields: dict[str, Any]) -> int | None:
    value = fields.get(NUMBER)
    return value if type(value) is int and value > 0 else None


def _texts(value: Any) -> tuple[str, ...] | Rejection:
    items = cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [value]
    texts = tuple(item for item in items if isinstance(item, str) and item.strip() and is_writable(item))
    if len(texts) != len(items) or len(texts) > _MAX_MESSAGES:
        return Rejection(f"`messages` is a list of at most {_MAX_MESSAGES} texts")
    if sum(len(text) for text in texts) > MAX_ANSWER_CHARS:
        return Rejection(f"messages have together at most {MAX_ANSWER_CHARS:,} characters")
    return texts


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if not isinstance(value, list):
        return None
    items = cast("list[Any]", value)
    names = tuple(name for name in items if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS)
    return names if len(names) == len(items) <= _MAX_NAMES else None
