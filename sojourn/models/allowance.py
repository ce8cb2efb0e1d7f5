"""Allowance: an estimate of how many tokens a minute a provider accepts from this worker (AIMD, token bucket).

The bucket holds at most the tokens of a minute. A refusal halves the rate, and a success adds 5 % of the full
rate; the rate stays between 10 % and 100 % of it. When no rate is set, there is no limit before the first
refusal. Then the full rate is what was sent in the last minute, and when it is reached again, the limit ends.

Without a clock: every method takes the time, in seconds of any clock.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["Allowance"]

BACK_OFF: Final = 0.5
RECOVERY: Final = 0.05
LOWEST: Final = 0.1

LEAST_KNOWN: Final = 60_000.0
"""Least full rate assumed at the first refusal, in tokens a minute: other programs may use the same account."""

_MINUTE = 60.0

_INSTANT = 0.001
"""Seconds below which a wait counts as none, because of rounding errors."""


@dataclass(slots=True)
class Allowance:
    """How many tokens may be sent to one provider, and when."""

    set_rate: float | None = None
    """Tokens a minute that a user set, by `limit`."""
    rate: float | None = None
    """The current tokens a minute; None while there is no limit."""
    full_rate: float = 0.0
    """Tokens a minute up to which the rate recovers."""
    closed_until: float = 0.0
    """The time before which the provider accepts nothing."""
    _level: float = 0.0
    """Tokens in the bucket; negative when more was used than estimated."""
    _at: float | None = None
    """The time of `_level` and `_recent`."""
    _backed_off: float | None = None
    """The time of the last halving."""
    _recent: float = 0.0
    """Tokens sent in about the last minute, as a decaying sum."""

    def limit(self, rate: float) -> None:
        """Set the rate, in tokens a minute, unless a stricter rate is set."""
        if self.set_rate is not None and rate >= self.set_rate:
            return
        self._level = rate if self.rate is None else min(self._level, rate)
        self.rate = min(self.rate or rate, rate)
        self.set_rate = self.full_rate = rate

    def wait(self, tokens: float, now: float, ahead: float = 0.0) -> float:
        """Return the seconds until a request may be sent; 0 when it may be sent now.

        Args:
            tokens: Estimated tokens of the request. A request larger than the bucket waits for a full bucket.
            now: The time.
            ahead: Tokens of the requests that are sent before it.
        """
        self._advance(now)
        wait = self.closed_until - now
        if self.rate is not None:
            missing = ahead + min(tokens, self.rate) - self._level
            wait = max(wait, missing / self.rate * _MINUTE)
        return wait if wait > _INSTANT else 0.0

    def take(self, tokens: float, now: float) -> None:
        """Take tokens out of the bucket; a negative number puts back what was estimated too much."""
        self._advance(now)
        self._recent += tokens
        if self.rate is not None:
            self._level -= tokens

    def refused(self, now: float, *, sent: float, retry_after: float | None) -> None:
        """Lower the rate, since the provider refused a request for its rate limit.

        Args:
            now: The time.
            sent: When the request was sent; the refusal of a request from before the last halving does not halve again.
            retry_after: Seconds for which the provider accepts nothing, if it says so.
        """
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

    def succeeded(self) -> None:
        """Raise the rate, since the provider answered."""
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
