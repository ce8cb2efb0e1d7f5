"""Parts common to all messages to a run: sender, channel, update id, refusal."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sojourn.values.text import clip, is_writable
from sojourn.values.visible import visible

__all__ = [
    "GIVEN_BEFORE",
    "JUDGED",
    "NOT_VISIBLE",
    "ONCE",
    "Channel",
    "Rejection",
    "answer_digest",
    "message_id_of",
    "read_sender",
    "read_text",
    "update_id_of",
    "write_json",
]

Channel = Literal["update", "signal", "accepted"]
"""The channel: an update that is still to be judged, a signal, or an update that was accepted before.

Only a new update is held to every current rule: the other messages are in histories, which a new rule must
not change.
"""

NOT_VISIBLE = "NotVisible"
"""The error type of a refused message whose principal may not see the run."""

_MAX_BY_CHARS = 200
_MAX_REASON_CHARS = 2_000
_MAX_REFUSAL_CHARS = 480


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a message is refused, for its sender."""

    reason: str
    """One printable line, shortened: it may repeat what was sent."""
    kind: str = "InvalidAnswer"
    """`InvalidAnswer`, `AwaitClosed` (answered before), `AwaitNotOpen` (unknown, perhaps not open yet), `NotBound`
    (a decision without the digest of the arguments), `NotApprover` (the sender may not make this decision), `NotSender` (another principal sent the message) or
    `NotVisible` (a message of a principal that may not see the run).
    """
    faults: tuple[Mapping[str, str], ...] = ()
    """The fields of edited arguments that cannot be used: each with its `field` and a `message`."""

    def __post_init__(self) -> None:
        shown = visible(self.reason[: _MAX_REFUSAL_CHARS + 1])
        object.__setattr__(self, "reason", clip(shown, _MAX_REFUSAL_CHARS))


def read_sender(fields: dict[str, Any]) -> str | Rejection | None:
    """Return the sender's name, by its own account."""
    by = fields.get("by")
    if by is not None and (not isinstance(by, str) or len(by) > _MAX_BY_CHARS or not is_writable(by)):
        return Rejection(f"`by` is a name of at most {_MAX_BY_CHARS} characters")
    return by or None


def read_text(fields: dict[str, Any], name: str) -> str | Rejection:
    text = fields.get(name)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > _MAX_REASON_CHARS or not is_writable(text):
        return Rejection(f"`{name}` is a text of at most {_MAX_REASON_CHARS:,} characters")
    return text


def answer_digest(answer: Any) -> str:
    """Return a digest that is equal for a repetition of an answer."""
    return hashlib.sha256(write_json(answer).encode(errors="surrogatepass")).hexdigest()[:16]


def write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


ONCE = "once:"
"""Beginning of the id of an update whose sender wants to know of a repetition, by a refusal.

Without it a repeated answer is accepted like the first, as senders of earlier versions expect.
"""

GIVEN_BEFORE = "repeated"
"""The detail of that refusal."""

JUDGED = "judged"
"""The detail of that refusal that says whether the check of the approval is over. Until then the approval may prove void."""

_PREFIX = "message:"


def update_id_of(message_id: str | None) -> str | None:
    """Return the id of the update that delivers a message.

    None for a message without an id: Temporal's client then makes an update id.
    """
    return _PREFIX + message_id if message_id else None


def message_id_of(update_id: str) -> str:
    """Return the id of the message that an update delivers."""
    return update_id.removeprefix(_PREFIX) if update_id.startswith(_PREFIX) else ""
