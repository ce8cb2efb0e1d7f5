"""Counts of a process: how much it has answered, how fast, and how much lately."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.http.metrics import Metrics

__all__ = ["Counts", "RouteCount", "Sample", "counts_of"]

WINDOW = 60.0
"""Seconds over which a rate is taken, as far as somebody looked before."""

LEAST = 3.0
"""Fewest seconds between two looks of which a rate is made."""

MOST = 15
"""Most paths that are listed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment."""

    at: float
    """Seconds of a clock that only goes on."""
    requests: dict[tuple[str, str, int], int]
    seconds: dict[tuple[str, str], float]
    streams: int
    followers: int
    kept_bytes: int
    sent: int
    dropped: int

    @classmethod
    def of(cls, metrics: Metrics, at: float) -> "Sample":
        """The counts as they are now."""
        return cls(
            at,
            dict(metrics.requests),
            dict(metrics.seconds),
            metrics.streams,
            metrics.followers,
            metrics.kept_bytes,
            metrics.sent,
            metrics.dropped,
        )


@dataclass(frozen=True, slots=True)
class RouteCount:
    """Requests of one path."""

    method: str
    path: str
    requests: int
    refused: int
    """Answered with 400 to 499."""
    failed: int
    """Answered with 500 and above."""
    milliseconds: float
    """To the beginning of the answer, on average."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a page says of them."""

    requests: int
    failed: int
    refused: int
    a_second: float | None
    """Requests a second lately; None where nobody has looked before."""
    streams: int
    followers: int
    kept_bytes: int
    sent: int
    sent_a_second: float | None
    dropped: int
    routes: Sequence[RouteCount]
    """The busiest paths."""


def counts_of(samples: Sequence[Sample]) -> Counts:
    """The counts of the newest sample, and the rates since an older one.

    Args:
        samples: The oldest first, at least one.
    """
    now = samples[-1]
    before = next((each for each in samples if LEAST <= now.at - each.at <= WINDOW), None)
    requests = sum(now.requests.values())
    return Counts(
        requests=requests,
        failed=sum(count for (_, _, status), count in now.requests.items() if status >= 500),
        refused=sum(count for (_, _, status), count in now.requests.items() if 400 <= status < 500),
        a_second=(requests - sum(before.requests.values())) / (now.at - before.at) if before else None,
        streams=now.streams,
        followers=now.followers,
        kept_bytes=now.kept_bytes,
        sent=now.sent,
        sent_a_second=(now.sent - before.sent) / (now.at - before.at) if before else None,
        dropped=now.dropped,
        routes=_routes(now),
    )


def _routes(sample: Sample) -> list[RouteCount]:
    counts: Counter[tuple[str, str]] = Counter()
    faults: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for (method, path, status), count in sample.requests.items():
        counts[method, path] += count
        faults[method, path][status // 100] += count
    return [
        RouteCount(
            *route,
            count,
            faults[route][4],
            faults[route][5],
            1000 * sample.seconds.get(route, 0.0) / count,
        )
        for route, count in counts.most_common(MOST)
    ]
