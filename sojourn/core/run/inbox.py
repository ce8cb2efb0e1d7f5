"""The messages that a conversation has accepted, and their known ids.

Continue-as-new takes the ids along, packed in 9 bytes each.
"""

import hashlib
import re
import zlib
from base64 import b64decode, b85decode, b85encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, cast, get_args

from pydantic import BeforeValidator, PlainSerializer, ValidationError
from typing_extensions import TypeIs

from sojourn.contracts.attachment import MAX_ATTACHMENTS, attachment_fault
from sojourn.contracts.ids import MAX_MESSAGE_ID, place_in
from sojourn.contracts.message import USER_PARTS, Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.wire_names import SEND, WITHDRAW
from sojourn.core.awaits.envelope import Rejection, read_sender
from sojourn.core.awaits.principals import PRINCIPAL, is_same, principal_of
from sojourn.values.frozen import copy_with
from sojourn.values.text import echo, is_writable
from sojourn.values.undecodable import first_undecodable, inflate
from sojourn.values.wire import size_of

__all__ = [
    "ADMIT",
    "ANSWER",
    "AS_OPERATOR",
    "NOT_SENDER",
    "NO_CONVERSATION",
    "Closing",
    "Inbox",
    "Interruption",
    "Mode",
    "SentMessage",
    "Withdrawal",
    "digest_of",
    "is_message_id",
    "pack",
    "read_close",
    "read_interrupt",
    "read_remember",
    "read_send",
    "read_withdraw",
    "unpack",
]

DIGEST_BYTES = 6

ANSWER: Final = "+"
"""Behind the place of a message that was an answer."""

MOST_BYTES = 1_000_000
"""Most bytes of all places together, as a guard against a forged state."""

_PLACE = re.compile(r"([0-9]{1,18})-([0-9]{6,18})-([0-9]{5,18})(\+?)")
_EARLIER_BYTES = 8
"""Bytes of a digest as earlier versions wrote it; the first `DIGEST_BYTES` are the same."""


def digest_of(message_id: str) -> str:
    hashed = hashlib.blake2b(message_id.encode(errors="surrogatepass"), digest_size=_EARLIER_BYTES)
    return hashed.digest()[:DIGEST_BYTES].hex()


def pack(known: Mapping[str, str]) -> list[str]:
    """Return the digests and the places in Base85, behind the number of this form.

    The places are stored as increases, compressed.
    """
    digests, rises = bytes.fromhex("".join(known)), zlib.compress(_write_rises(known.values()).encode(), 9)
    return ["2", b85encode(digests).decode(), b85encode(rises).decode()]


def unpack(value: Any) -> Any:
    """Return the place of each digest, from the output of `pack` of any version.

    Any other value is returned as it is.
    """
    if _is_texts(value, 3) and value[0] == "2":
        places = list(_places(_inflate(b85decode(value[2]))))
        return _of(b85decode(value[1]), DIGEST_BYTES, places)
    if _is_texts(value, 2):
        digests, places = (b64decode(text, validate=True) for text in value)
        return _of(digests, _EARLIER_BYTES, _inflate(places).split())
    if isinstance(value, dict):
        known = cast("dict[str, str]", value)
        return _of(bytes.fromhex("".join(known)), _EARLIER_BYTES, list(known.values()))
    return value


def _write_rises(places: Iterable[str]) -> str:
    # Executions and records are stored as increases. The columns follow one another.
    columns: tuple[list[int], ...] = ([], [], [])
    executions = record = 0
    for place in places:
        now, at, k, answer = _numbers(place)
        rise = now - executions, at - (record if now == executions else 0), 2 * k + answer
        for column, number in zip(columns, rise, strict=True):
            column.append(number)
        executions, record = now, at
    return " ".join(str(number) for column in columns for number in column)


def _places(rises: str) -> Iterable[str]:
    numbers = [int(number) for number in rises.split()]
    count = len(numbers) // 3
    executions = record = 0
    for rise, of_record, k in zip(
        numbers[:count], numbers[count : 2 * count], numbers[2 * count :], strict=True
    ):
        executions, record = executions + rise, of_record + (0 if rise else record)
        yield place_in(executions, record, k // 2) + ANSWER * (k % 2)


def _numbers(place: Any) -> tuple[int, int, int, bool]:
    found = _PLACE.fullmatch(place) if isinstance(place, str) else None
    if found is None:
        raise ValueError("known messages are digests and places")
    executions, record, k, answer = found.groups()
    return int(executions), int(record), int(k), bool(answer)


def _inflate(data: bytes) -> str:
    return inflate(data, MOST_BYTES).decode()


def _of(digests: bytes, size: int, places: Sequence[str]) -> dict[str, str]:
    if len(digests) != size * len(places):
        raise ValueError("known messages have as many places as digests")
    for place in places:
        _numbers(place)
    starts = range(0, len(digests), size)
    return {
        digests[start : start + DIGEST_BYTES].hex(): place
        for start, place in zip(starts, places, strict=True)
    }


def _is_texts(value: Any, count: int) -> TypeIs[list[str]]:
    return isinstance(value, list) and [type(each) for each in cast("list[Any]", value)] == [str] * count


NO_CONVERSATION = "the run is no conversation; pause it, and resume it with messages"

Mode = Literal["queue", "steer", "interrupt"]
"""`queue`: the message opens a turn of its own; `steer`: the next plan of the present turn sees it; `interrupt`: the
present turn ends, and the next one begins with the message."""

MAX_WAITING = 100

MAX_WAITING_BYTES = 1_000_000
"""Total size of the waiting messages, in bytes of JSON.

A conversation takes all of them along when it continues as new.
"""

MAX_MESSAGE_BYTES = 256_000

MAX_KNOWN = 10_000
"""Number of the last messages whose ids are known."""

MAX_WITHDRAWN = 1_000
"""Number of the last withdrawn messages that can be withdrawn again without an error."""

NOT_SENDER = "NotSender"
"""The error type of a withdrawal by a principal that did not send the message."""

AS_OPERATOR = "as_operator"
"""The field of a withdrawal whose sender operates the conversation, and may withdraw any message."""

_NO_ID = Rejection(f"`message_id` is a text of at most {MAX_MESSAGE_ID} characters")
ADMIT = "admit"
"""The field of a message whose sender joins a conversation that it could not see."""
_FIELDS = ("message_id", "text", "parts", "mode", "by", PRINCIPAL, ADMIT)
_MAX_REASON_CHARS = 2_000


@dataclass(frozen=True)
class SentMessage:
    message_id: str
    message: Message
    mode: Mode = "queue"
    by: str | None = None
    size: int = 0
    """Size of the message and its sender, in bytes of JSON."""
    principal: Principal | None = None
    """The sender, as established by the sending program.

    None for the principal that began the conversation.
    """
    admits: bool = False
    """Whether the sending program lets its sender take part in a conversation that only its people see."""
    asked_by: Principal | None = None
    """In a fork: who sent the original, without roles."""


@dataclass(frozen=True)
class Withdrawal:
    """A request to take back a message that no turn has taken."""

    message_id: str
    by: str | None = None
    principal: Principal | None = None
    """Who withdraws, as established by the sending program; None for the program itself."""
    as_operator: bool = False
    """Whether the principal may withdraw the messages of others."""


@dataclass(frozen=True)
class Interruption:
    """A request to end the present turn."""

    reason: str = ""
    by: str | None = None
    turn_id: str = ""
    """The turn that is meant; empty for whichever is under way."""


@dataclass(frozen=True)
class BranchRequest:
    """A request to go on from an earlier point of the conversation."""

    at: str
    """The event at which the point is."""
    message_id: str = ""
    """The message that goes on from there, or empty."""


@dataclass(frozen=True)
class Closing:
    """A request to end the conversation once no message waits."""

    reason: str = ""
    by: str | None = None


@dataclass(frozen=True)
class Inbox:
    """The messages that wait, in the order of acceptance, and the last 10,000 ids."""

    waiting: tuple[SentMessage, ...] = ()
    known: Annotated[Mapping[str, str], BeforeValidator(unpack), PlainSerializer(pack)] = field(
        default_factory=dict[str, str]
    )
    """By id, as a digest: the place at which the events of its message begin."""
    count: int = 0
    withdrawn: tuple[str, ...] = ()
    """Digests of the last messages that were withdrawn."""

    def where(self, message_id: str) -> str | None:
        """Return the place of the first event of an accepted message."""
        known = self.known.get(digest_of(message_id)) if message_id else None
        return known and known.removesuffix(ANSWER)

    def is_answer(self, message_id: str) -> bool:
        return bool(message_id) and self.known.get(digest_of(message_id), "").endswith(ANSWER)

    def answered(self, message_id: str, after: str) -> "Inbox":
        """Return the inbox that knows the id of a message that was an answer.

        The inbox stays the same if the message has no id, or is known.
        """
        if not message_id or self.where(message_id) is not None:
            return self
        return copy_with(self, known=self._knowing(message_id, after + ANSWER))

    def accepted(self, sent: SentMessage, after: str) -> tuple["Inbox", SentMessage]:
        sent = sent if sent.message_id else copy_with(sent, message_id=f"message-{self.count + 1}")
        known = self._knowing(sent.message_id, after)
        first = self._interrupts if sent.mode == "interrupt" else len(self.waiting)
        waiting = (*self.waiting[:first], sent, *self.waiting[first:])
        return copy_with(self, waiting=waiting, known=known, count=self.count + 1), sent

    def _knowing(self, message_id: str, place: str) -> dict[str, str]:
        known = {**self.known, digest_of(message_id): place}
        if len(known) > MAX_KNOWN:
            del known[next(iter(known))]
        return known

    def is_full(self, size: int) -> bool:
        together = size + sum(sent.size for sent in self.waiting)
        return len(self.waiting) >= MAX_WAITING or together > MAX_WAITING_BYTES

    def opening(self) -> tuple["Inbox", tuple[SentMessage, ...]]:
        """Return the inbox without the messages that open a turn, and these messages.

        They are the first message alone, or, if it interrupts, the first messages that interrupt and have
        its sender.
        """
        count = 1
        while count < self._interrupts and is_same(self.waiting[count].principal, self.waiting[0].principal):
            count += 1
        return copy_with(self, waiting=self.waiting[count:]), self.waiting[:count]

    def taking(self, message_ids: Sequence[str]) -> tuple["Inbox", tuple[SentMessage, ...]]:
        """Return the inbox without these messages, and those of them that waited.

        The messages come in the order given.
        """
        found = {sent.message_id: sent for sent in self.waiting if sent.message_id in message_ids}
        rest = tuple(sent for sent in self.waiting if sent.message_id not in found)
        return copy_with(self, waiting=rest), tuple(found[id] for id in message_ids if id in found)

    def withdrawing(self, message_id: str) -> "Inbox":
        """Return the inbox without a waiting message, or the same inbox without one."""
        rest = tuple(sent for sent in self.waiting if sent.message_id != message_id)
        if len(rest) == len(self.waiting):
            return self
        withdrawn = (*self.withdrawn, digest_of(message_id))[-MAX_WITHDRAWN:]
        return copy_with(self, waiting=rest, withdrawn=withdrawn)

    def forgetting(self, message_id: str) -> "Inbox":
        """Return the inbox to which the id of a message is new again."""
        digest = digest_of(message_id)
        known = {each: place for each, place in self.known.items() if each != digest}
        return copy_with(
            self, known=known, withdrawn=tuple(each for each in self.withdrawn if each != digest)
        )

    def withdrawal_fault(self, request: Withdrawal, starter: Principal | None) -> Rejection | None:
        """Return why a message cannot be withdrawn, or None.

        Args:
            request: What to withdraw.
            starter: The sender of messages without a principal.
        """
        if self.where(request.message_id) is None:
            return Rejection(f"there is no message {echo(request.message_id)}", "InvalidAnswer")
        if digest_of(request.message_id) in self.withdrawn:
            return None
        sent = next((each for each in self.waiting if each.message_id == request.message_id), None)
        if sent is None and self.is_answer(request.message_id):
            return Rejection("the message was an answer, and has been read", "AwaitClosed")
        if sent is None:
            return Rejection("its turn has begun; stop the turn instead", "AwaitClosed")
        is_theirs = request.principal is None or is_same(sent.principal or starter, request.principal)
        if not (is_theirs or request.as_operator):
            return Rejection("only the sender of the message, or an operator, may withdraw it", NOT_SENDER)
        return None

    @property
    def _interrupts(self) -> int:
        """Number of messages that interrupt, which come before all others."""
        return sum(sent.mode == "interrupt" for sent in self.waiting)

    def steering(self, joins: Callable[[SentMessage], bool]) -> tuple["Inbox", tuple[SentMessage, ...]]:
        """Return the inbox without the messages for the next plan, and these.

        `joins`: a message that steers may join the present turn; it opens one of its own otherwise.
        """
        steers = tuple(sent for sent in self.waiting if sent.mode == "steer" and joins(sent))
        return copy_with(self, waiting=tuple(sent for sent in self.waiting if sent not in steers)), steers


def read_send(values: Sequence[Any], inbox: Inbox, tenant: str | None = None) -> SentMessage | Rejection:
    """Read a message to a conversation, even if it was accepted before.

    It is `{"message_id", "text", "parts", "mode", "by", "principal", "admit"}`, or a text.
    """
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    if len(values) != 1:
        return Rejection(f"{SEND} takes one object, not {len(values)}")
    fields = _fields(values[0], "text")
    if isinstance(fields, Rejection):
        return fields
    message_id, mode, by, message = (
        fields.get("message_id"),
        fields.get("mode"),
        read_sender(fields),
        _message(fields.get("text"), fields.get("parts")),
    )
    if isinstance(by, Rejection):
        return by
    if message_id is not None and not is_message_id(message_id):
        return _NO_ID
    if isinstance(message, Rejection):
        return message
    principal = principal_of(fields, tenant)
    if isinstance(principal, Rejection):
        return principal
    size = size_of(message)
    if size > MAX_MESSAGE_BYTES:
        return Rejection(f"the message is {size:,} bytes of JSON, and has at most {MAX_MESSAGE_BYTES:,}")
    if fault := _option_fault(mode, fields.get(ADMIT)):
        return fault
    size += size_of(principal) if principal else 0
    sent = SentMessage(
        message_id or "", message, mode or "queue", by, size, principal, fields.get(ADMIT) is True
    )
    return _refuse_without_room(sent, inbox)


def _option_fault(mode: Any, admit: Any) -> Rejection | None:
    if mode is not None and mode not in get_args(Mode):
        return Rejection(f"`mode` is one of {', '.join(get_args(Mode))}, not {echo(mode)}")
    if admit is not None and not isinstance(admit, bool):
        return Rejection(f"`{ADMIT}` is true or false")
    return None


def _refuse_without_room(sent: SentMessage, inbox: Inbox) -> SentMessage | Rejection:
    if inbox.where(sent.message_id) is None and inbox.is_full(sent.size):
        return Rejection(
            f"{len(inbox.waiting)} messages wait already; send it again once a turn has ended", "SessionBusy"
        )
    return sent


def read_remember(values: Sequence[Any]) -> str | Rejection:
    """Read `{"message_id"}`, or the id alone."""
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    fields = _fields(values[0] if values else {}, "message_id", ("message_id",))
    if isinstance(fields, Rejection):
        return fields
    message_id = fields.get("message_id")
    return message_id if message_id and is_message_id(message_id) else _NO_ID


def is_message_id(value: Any) -> TypeIs[str]:
    return isinstance(value, str) and len(value) <= MAX_MESSAGE_ID and is_writable(value)


def _message(text: Any, parts: Any) -> Message | Rejection:
    if text is not None and not (isinstance(text, str) and is_writable(text)):
        return Rejection("`text` is a text")
    if parts is not None and not isinstance(parts, list):
        return Rejection("`parts` is an array of images and documents")
    texts = [{"type": "text", "text": text}] if text and text.strip() else []
    try:
        message = Message.model_validate({"role": "user", "parts": [*texts, *(parts or ())]})
    except (ValidationError, RecursionError):
        return Rejection(
            '`parts` has objects such as {"type": "image", "media_type": "image/png", "data": ...}'
        )
    if not message.parts:
        return Rejection("`text` is a text that is not empty")
    if not all(isinstance(part, USER_PARTS) for part in message.parts):
        return Rejection("`parts` has texts, images and documents only")
    if len(message.attachments) > MAX_ATTACHMENTS:
        return Rejection(f"a message has at most {MAX_ATTACHMENTS} attachments")
    fault = next((fault for each in message.attachments if (fault := attachment_fault(each))), None)
    return Rejection(fault) if fault else message


def read_withdraw(values: Sequence[Any], tenant: str | None = None) -> Withdrawal | Rejection:
    """Read `{"message_id", "by", "principal", "as_operator"}`, or the id alone."""
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    if len(values) != 1:
        return Rejection(f"{WITHDRAW} takes one object, not {len(values)}")
    fields = _fields(values[0], "message_id", ("message_id", "by", PRINCIPAL, AS_OPERATOR))
    if isinstance(fields, Rejection):
        return fields
    message_id, by, principal = fields.get("message_id"), read_sender(fields), principal_of(fields, tenant)
    if not message_id or not is_message_id(message_id):
        return _NO_ID
    if isinstance(by, Rejection):
        return by
    if isinstance(principal, Rejection):
        return principal
    as_operator = fields.get(AS_OPERATOR)
    if as_operator is not None and not isinstance(as_operator, bool):
        return Rejection(f"`{AS_OPERATOR}` is true or false")
    return Withdrawal(message_id, by, principal, as_operator is True)


def read_interrupt(values: Sequence[Any]) -> Interruption | Rejection:
    """Read why the present turn, or a named turn, ends.

    It is `{"reason", "by", "turn_id"}`, a text, or nothing at all.
    """
    read = _reason_and_by(values, "turn_id")
    if isinstance(read, Rejection):
        return read
    turn_id = _field(values, "turn_id")
    if turn_id is not None and not (isinstance(turn_id, str) and 0 < len(turn_id) <= MAX_MESSAGE_ID):
        return Rejection(f"`turn_id` is a text of 1 to {MAX_MESSAGE_ID} characters")
    return Interruption(*read, turn_id or "")


def read_close(values: Sequence[Any]) -> Closing | Rejection:
    """Read `{"reason", "by"}`, a text, or nothing at all: why the conversation ends."""
    read = _reason_and_by(values)
    return read if isinstance(read, Rejection) else Closing(*read)


def _reason_and_by(values: Sequence[Any], *more: str) -> tuple[str, str | None] | Rejection:
    if unread := first_undecodable(values):
        return Rejection(unread.reason)
    fields = _fields(values[0] if values else {}, "reason", ("reason", "by", *more))
    if isinstance(fields, Rejection):
        return fields
    reason, by = fields.get("reason") or "", read_sender(fields)
    if isinstance(by, Rejection):
        return by
    if not (isinstance(reason, str) and len(reason) <= _MAX_REASON_CHARS and is_writable(reason)):
        return Rejection(f"`reason` is a text of at most {_MAX_REASON_CHARS:,} characters")
    return reason, by


def _fields(value: Any, text: str, known: Sequence[str] = _FIELDS) -> dict[str, Any] | Rejection:
    if not isinstance(value, dict):
        return {text: value}
    fields = cast("dict[str, Any]", value)
    unknown = [name for name in fields if name not in known]
    if unknown:
        return Rejection(
            f"there is no field {echo(unknown[0])}; known are {', '.join(f'`{name}`' for name in known)}"
        )
    return fields


def _field(values: Sequence[Any], name: str) -> Any:
    return cast("dict[str, Any]", values[0]).get(name) if values and isinstance(values[0], dict) else None
