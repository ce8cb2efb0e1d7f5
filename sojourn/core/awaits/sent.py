"""What everything sent to a run has in common: who sent it, how it came, and why it is refused.

A signal from Temporal's CLI or UI carries whatever somebody typed, so that nothing here may raise, and
what is accepted must not depend on a library's version: all of it is read by hand.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from sojourn.core.values.text import clip
from sojourn.core.values.visible import visible

__all__ = ["Door", "Refused", "as_json", "by_of", "digest", "is_writable", "text_of"]

Door = Literal["update", "signal", "accepted"]
"""How it came: by an update that is still to be judged, by a signal, by an update that was accepted before.

Only the first is held to every rule of today: the others are in histories that a rule must not change.
"""

_MAX_BY_CHARS = 200
_MAX_REASON_CHARS = 2_000
_MAX_REFUSAL_CHARS = 480


@dataclass(frozen=True, slots=True)
class Refused:
    """Why it is no answer, for whoever sent it."""

    reason: str
    """One printable line, cut short: it may repeat what was sent."""
    kind: str = "InvalidAnswer"
    """`InvalidAnswer`, `AwaitClosed` (answered before), `AwaitNotOpen` (unknown, perhaps not asked yet) or `NotBound`
    (a decision that does not say about which arguments)."""

    def __post_init__(self) -> None:
        """Keep what was sent from doing harm where the reason is shown."""
        shown = visible(self.reason[: _MAX_REFUSAL_CHARS + 1])
        object.__setattr__(self, "reason", clip(shown, _MAX_REFUSAL_CHARS))


def by_of(fields: dict[str, Any]) -> str | Refused | None:
    """Who sent it, as they say."""
    by = fields.get("by")
    if by is not None and (not isinstance(by, str) or len(by) > _MAX_BY_CHARS or not is_writable(by)):
        return Refused(f"`by` is a name of at most {_MAX_BY_CHARS} characters")
    return by or None


def text_of(fields: dict[str, Any], name: str) -> str | Refused:
    """A short text that may be left out."""
    text = fields.get(name)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > _MAX_REASON_CHARS or not is_writable(text):
        return Refused(f"`{name}` is a text of at most {_MAX_REASON_CHARS:,} characters")
    return text


def digest(said: Any) -> str:
    """What tells an answer that is repeated from another one.

    Raises:
        ValueError, RecursionError: it cannot be written as JSON.
    """
    return hashlib.sha256(as_json(said).encode(errors="surrogatepass")).hexdigest()[:16]


def as_json(value: Any) -> str:
    """A value as JSON, in its own characters."""
    return json.dumps(value, ensure_ascii=False)


def is_writable(text: str) -> bool:
    """Whether a text is characters all through: half of a surrogate pair would fail what writes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
