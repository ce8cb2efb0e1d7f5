"""The rate of requests to a provider, which adapts to its refusals.

The bucket holds at most the tokens of a minute. A refusal halves the rate, and a success adds 5 % of the
full rate; the rate stays between 10 % and 100 % of it. When no rate is set, there is no limit before the
first refusal. Then the full rate is what was sent in the last minute, and when it is reached again, the
limit ends. Methods take the time, in seconds of any clock.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

__all__ = ["LEAST_KNOWN", "Allowance"]

BACK_OFF: Final = 0.5
RECOVERY: Final = 0.05
LOWEST: Final = 0.1

LEAST_KNOWN: Final = 60_000.0
"""Least full rate assumed at the first refusal, in tokens a minute: other programs may use the same account."""

_MINUTE = 60.0

_INSTANT = 0.001


@dataclass(slots=True)
class Allowance:
    set_rate: float | None = None
    rate: float | None = None
    """Tokens a minute; None while there is no limit."""
    full_rate: float = 0.0
    closed_until: float = 0.0
    _level: float = 0.0
    """Tokens in the bucket; negative when more was used than estimated."""
    _at: float | None = None
    _backed_off: float | None = None
    _recent: float = 0.0
    """Tokens sent in about the last minute, as a decaying sum."""

    def limit(self, rate: float) -> None:
        if self.set_rate is not None and rate >= self.set_rate:
            return
        self._level = rate if self.rate is None else min(self._level, rate)
        self.rate = min(self.rate or rate, rate)
        self.set_rate = self.full_rate = rate

    def set_to(self, rate: float | None) -> None:
        """Set the rate, also to a higher one, which successes then reach."""
        if rate != self.set_rate:
            self.set_rate = None
            if rate is not None:
                self.limit(rate)

    def moved_by(self, seconds: float) -> "Allowance":
        """Return the same allowance by a clock that shows so much more."""
        return replace(
            self,
            closed_until=self.closed_until + seconds,
            _at=None if self._at is None else self._at + seconds,
            _backed_off=None if self._backed_off is None else self._backed_off + seconds,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def wait(self, tokens: float, now: float, ahead: float = 0.0) -> float:
        """Return the seconds until a request may be sent after those `ahead`.

        A request larger than the bucket waits for a full bucket.
        """
        self._advance(now)
        wait = self.closed_until - now
        if self.rate is not None:
            missing = ahead + min(tokens, self.rate) - self._level
            wait = max(wait, missing / self.rate * _MINUTE)
        return wait if wait > _INSTANT else 0.0

    def take(self, tokens: float, now: float) -> None:
        """Take tokens out of the bucket, or put back an overestimate."""
        self._advance(now)
        self._recent += tokens
        if self.rate is not None:
            self._level -= tokens

    def count_refusal(self, now: float, *, sent: float, retry_after: float | None) -> None:
        """Lower the rate, unless the refused request was sent before the last halving."""
        self._advance(now)
        self.closed_until = max(self.closed_until, now + (retry_after or 0.0))
        if self._backed_off is not None and sent <= self._backed_off:
            return
        if self.rate is None:
            self.rate = self.full_rate = max(self._recent, LEAST_KNOWN)
            self._level = 0.0
        self.rate = max(self.rate * BACK_OFF, self.full_rate * LOWEST)
        self._level = min(self._level, 0.0)
        self._backed_off = now

    def count_success(self) -> None:
        if self.rate is None:
            return
        self.rate = min(self.rate + self.full_rate * RECOVERY, self.full_rate)
        if self.set_rate is None and self.rate >= self.full_rate:
            self.rate = None

    def _advance(self, now: float) -> None:
        passed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        self._recent *= max(1.0 - passed / _MINUTE, 0.0)
        if self.rate is not None:
            self._level = min(self._level + passed / _MINUTE * self.rate, self.rate)
