"""Inbox: the messages that a conversation has accepted, and the ids by which it knows a message that is sent again.

Plain code reads them in the workflow: what is accepted must not depend on a library's version.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from sojourn.contracts.message import Message
from sojourn.core.awaits.sent import Refused, by_of
from sojourn.core.values.frozen import changed
from sojourn.core.values.text import echo, is_writable
from sojourn.core.values.unread import unread_in

__all__ = ["CLOSE", "SEND", "Accepted", "Inbox", "Mode", "Sent", "read_close", "read_send"]

SEND = "send"
CLOSE = "close"

Mode = Literal["queue", "steer"]
"""`queue`: the message opens a turn of its own; `steer`: the next plan of the present turn sees it."""

MAX_WAITING = 100
"""Most messages that wait for their turn."""

MAX_WAITING_BYTES = 1_000_000
"""Size of their texts together, in bytes of UTF-8: a conversation goes on in a new execution with all of them."""

MAX_TEXT_BYTES = 256_000
"""Longest text of a message, in bytes of UTF-8."""

MAX_KNOWN = 10_000
"""Number of the last messages whose ids are known."""

_MAX_ID_CHARS = 200
_FIELDS = ("message_id", "text", "mode", "by")


@dataclass(frozen=True)
class Sent:
    """A message to a conversation."""

    message_id: str
    text: str
    mode: Mode = "queue"
    by: str | None = None

    @property
    def message(self) -> Message:
        """The message, as the planner gets it."""
        return Message.user(self.text)


@dataclass(frozen=True)
class Accepted:
    """What the sender of a message learns."""

    message_id: str
    """The id of the message."""
    after: str
    """The event id of the run after which the events of the message come."""


@dataclass(frozen=True)
class Inbox:
    """The messages that wait, in the order of acceptance, and the ids of the last 10,000; a frozen value."""

    waiting: tuple[Sent, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict[str, str])
    """For each id, as a digest: where the events of its message begin."""
    count: int = 0
    """Number of messages accepted."""

    def where(self, message_id: str) -> str | None:
        """Where the events of a message begin that was accepted before; None for a new one."""
        return self.known.get(_digest(message_id)) if message_id else None

    def accepted(self, sent: Sent, after: str) -> tuple["Inbox", Sent]:
        """The inbox with a further message, and that message with an id."""
        sent = sent if sent.message_id else changed(sent, message_id=f"message-{self.count + 1}")
        known = {**self.known, _digest(sent.message_id): after}
        if len(known) > MAX_KNOWN:
            del known[next(iter(known))]
        return changed(self, waiting=(*self.waiting, sent), known=known, count=self.count + 1), sent

    def is_full(self, text: str) -> bool:
        """Whether a further message with this text has no room."""
        size = sum(len(sent.text.encode()) for sent in (*self.waiting, Sent("", text)))
        return len(self.waiting) >= MAX_WAITING or size > MAX_WAITING_BYTES

    def opening(self) -> tuple["Inbox", Sent]:
        """The inbox without its first message, which opens a turn, and that message."""
        return changed(self, waiting=self.waiting[1:]), self.waiting[0]

    def steering(self) -> tuple["Inbox", tuple[Sent, ...]]:
        """The inbox without the messages for the next plan, and these."""
        steers = tuple(sent for sent in self.waiting if sent.mode == "steer")
        return changed(self, waiting=tuple(s for s in self.waiting if s.mode != "steer")), steers


def read_send(values: Sequence[Any], inbox: Inbox) -> Sent | Refused:
    """Read `{"message_id", "text", "mode", "by"}`, or a text; a message that was accepted before is read too."""
    if unread := unread_in(values):
        return Refused(unread.reason)
    if len(values) != 1:
        return Refused(f"{SEND} takes one object, not {len(values)}")
    fields = _fields(values[0], "text")
    if isinstance(fields, Refused):
        return fields
    message_id, text, mode, by = (
        fields.get("message_id"),
        fields.get("text"),
        fields.get("mode"),
        by_of(fields),
    )
    if isinstance(by, Refused):
        return by
    if message_id is not None and not (
        isinstance(message_id, str) and len(message_id) <= _MAX_ID_CHARS and is_writable(message_id)
    ):
        return Refused(f"`message_id` is a text of at most {_MAX_ID_CHARS} characters")
    if not (isinstance(text, str) and text.strip() and is_writable(text)):
        return Refused("`text` is a text that is not empty")
    if len(text.encode()) > MAX_TEXT_BYTES:
        return Refused(f"`text` has at most {MAX_TEXT_BYTES:,} bytes in UTF-8")
    if mode is not None and mode not in get_args(Mode):
        return Refused(f"`mode` is one of {', '.join(get_args(Mode))}, not {echo(mode)}")
    sent = Sent(message_id or "", text, mode or "queue", by)
    if inbox.where(sent.message_id) is None and inbox.is_full(text):
        return Refused(
            f"{len(inbox.waiting)} messages wait already; send it again once a turn has ended", "SessionBusy"
        )
    return sent


def read_close(values: Sequence[Any]) -> str | Refused:
    """Read `{"reason", "by"}`, a text, or nothing at all: why the conversation ends."""
    if unread := unread_in(values):
        return Refused(unread.reason)
    fields = _fields(values[0] if values else {}, "reason", ("reason", "by"))
    if isinstance(fields, Refused):
        return fields
    reason = fields.get("reason") or ""
    if not (isinstance(reason, str) and len(reason) <= 2_000 and is_writable(reason)):
        return Refused("`reason` is a text of at most 2,000 characters")
    return reason


def _fields(value: Any, text: str, known: Sequence[str] = _FIELDS) -> dict[str, Any] | Refused:
    if not isinstance(value, dict):
        return {text: value}
    fields = cast("dict[str, Any]", value)
    unknown = [name for name in fields if name not in known]
    if unknown:
        return Refused(
            f"there is no field {echo(unknown[0])}; known are {', '.join(f'`{name}`' for name in known)}"
        )
    return fields


def _digest(message_id: str) -> str:
    return hashlib.blake2b(message_id.encode(errors="surrogatepass"), digest_size=8).hexdigest()
