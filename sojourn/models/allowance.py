"""Allowance: how many tokens a minute a provider takes from us, as far as we know (AIMD).

A bucket holds up to a minute's worth. A refusal halves the rate, a success gives back 5 % of the full
one, never below 10 % or above it. Where no rate is set there is no limit before the first refusal; then
the full rate is what was sent in the minute before, and once it is reached again the limit goes.

Pure: every method takes the time, in seconds of any clock.
"""

from dataclasses import dataclass
from typing import Final

__all__ = ["Allowance"]

BACK_OFF: Final = 0.5
RECOVERY: Final = 0.05
LOWEST: Final = 0.1

LEAST_KNOWN: Final = 60_000.0
"""Tokens a minute taken for the full rate when less was sent before the first refusal: others may use the account."""

_MINUTE = 60.0

_INSTANT = 0.001
"""A wait of less is none: sums of fractions never quite meet."""


@dataclass(slots=True)
class Allowance:
    """What may be sent to one provider, and when."""

    set_rate: float | None = None
    """Tokens a minute that a user set, by `limit`."""
    rate: float | None = None
    """Tokens a minute now; None while there is no limit."""
    full_rate: float = 0.0
    """What the rate recovers to."""
    closed_until: float = 0.0
    """The moment that the provider named; nothing is sent before."""
    _level: float = 0.0
    """Tokens in the bucket; below 0 when more was used than estimated."""
    _at: float | None = None
    _backed_off: float | None = None
    _recent: float = 0.0
    """Tokens sent of late, those of a minute ago no more."""

    def limit(self, rate: float) -> None:
        """Set the rate, unless a stricter one is set."""
        if self.set_rate is not None and rate >= self.set_rate:
            return
        self._level = rate if self.rate is None else min(self._level, rate)
        self.rate = min(self.rate or rate, rate)
        self.set_rate = self.full_rate = rate

    def wait(self, tokens: float, now: float, ahead: float = 0.0) -> float:
        """Seconds until a request may be sent; 0 when it may be now.

        Args:
            tokens: Its estimate. One larger than the bucket waits for a full one.
            now: The time.
            ahead: Tokens of the requests that go before it.
        """
        self._advance(now)
        wait = self.closed_until - now
        if self.rate is not None:
            missing = ahead + min(tokens, self.rate) - self._level
            wait = max(wait, missing / self.rate * _MINUTE)
        return wait if wait > _INSTANT else 0.0

    def take(self, tokens: float, now: float) -> None:
        """Note that tokens are sent; below 0, that fewer were used than had been taken."""
        self._advance(now)
        self._recent += tokens
        if self.rate is not None:
            self._level -= tokens

    def refused(self, now: float, *, sent: float, retry_after: float | None) -> None:
        """Note that the provider refused a request for its rate.

        Args:
            now: The time.
            sent: When the request went out; one from before the last halving does not halve again.
            retry_after: Seconds that the provider named.
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
        """Note that the provider answered."""
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
