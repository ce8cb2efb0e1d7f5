"""Draw a run's plans, calls and waits as bars on one scale.

The scale shortens long times without work.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sojourn.console.views.waits import kind_word
from sojourn.timeline import Call, Entry, Plan, WaitEntry

__all__ = ["WIDTH", "chart_of"]

WIDTH = 1_000.0
"""Units of the scale."""

GAP = 90.0
"""Units for a long time without work."""

SHORT = timedelta(seconds=2)
"""A time without work that is never shortened."""

LEAST = 2.0
"""Units of the shortest piece, so that it is visible."""


@dataclass(frozen=True, slots=True)
class Piece:
    kind: str
    """`plan`, `wait`, or the state of a call."""
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Gap:
    """A long time without work."""

    x: float
    width: float
    lasted: timedelta


@dataclass(frozen=True, slots=True)
class Bar:
    entry: Entry
    name: str
    state: str
    call_id: str
    """The id if the bar is a call."""
    took: timedelta
    is_open: bool
    pieces: Sequence[Piece]
    waited_for: str
    """The person or the result that the run waited for."""


@dataclass(frozen=True, slots=True)
class Chart:
    bars: Sequence[Bar]
    gaps: Sequence[Gap]
    begin: datetime | None
    end: datetime | None


_Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class _Work:
    entry: Entry
    name: str
    state: str
    spans: list[tuple[str, _Span]]
    is_open: bool
    waited_for: str = ""


def chart_of(entries: Iterable[Entry], now: datetime) -> Chart:
    works = [work for entry in entries if (work := _work(entry, now))]
    if not works:
        return Chart((), (), None, None)
    all_spans = [span for work in works for _, span in work.spans]
    begin, end = min(span[0] for span in all_spans), max(span[1] for span in all_spans)
    busy = [span for work in works for kind, span in work.spans if kind != "wait"]
    scale = _Scale(begin, end, busy)
    return Chart([_bar(work, scale) for work in works], scale.gaps, begin, end)


def _work(entry: Entry, now: datetime) -> _Work | None:
    if isinstance(entry, Plan):
        span = entry.at, entry.ended_at or now
        return _Work(entry, "plan", "plan", [("plan", span)], entry.is_open)
    if isinstance(entry, WaitEntry):
        span = entry.at, _wait_end(entry, now)
        return _Work(
            entry,
            kind_word(entry.wait.noun),
            "waiting",
            [("wait", span)],
            entry.is_waiting,
            _answerer_of(entry),
        )
    return _of_call(entry, now) if isinstance(entry, Call) else None


def _of_call(call: Call, now: datetime) -> _Work:
    end = call.ended_at or now
    spans: list[tuple[str, _Span]] = []
    begin, who = call.at, ""
    since = call.opened and call.opened.since
    if since is not None:
        until = _wait_end(call, end)
        if since > begin:
            spans.append(("running", (begin, since)))
        spans.append(("wait", (since, until)))
        begin = until
        who = _answerer_of(call)
    if since is None or (call.decision and end > begin):
        spans.append((call.state, (begin, max(begin, end))))
    return _Work(call, call.call.name, call.state, spans, call.ended_at is None, who)


def _wait_end(entry: Call | WaitEntry, now: datetime) -> datetime:
    return entry.decision.at if entry.decision else entry.closed_at or now


def _answerer_of(entry: Call | WaitEntry) -> str:
    if entry.decision:
        return entry.decision.who
    return "a person" if entry.wait is None or entry.wait.is_for_people else "a program"


def _bar(work: _Work, scale: "_Scale") -> Bar:
    pieces = [Piece(kind, *scale.piece(span)) for kind, span in work.spans]
    took = work.spans[-1][1][1] - work.spans[0][1][0]
    call_id = work.entry.id if isinstance(work.entry, Call) else ""
    return Bar(work.entry, work.name, work.state, call_id, took, work.is_open, pieces, work.waited_for)


class _Scale:
    def __init__(self, begin: datetime, end: datetime, busy: Sequence[_Span]) -> None:
        idle = _idle(begin, end, busy)
        work = (end - begin) - sum((span[1] - span[0] for span in idle), timedelta(0))
        least = max(SHORT, work / 5)
        long = [span for span in idle if span[1] - span[0] > least]
        room = WIDTH - GAP * len(long) if GAP * len(long) < WIDTH / 2 else WIDTH / 2
        gap = (WIDTH - room) / len(long) if long else 0.0
        straight = (end - begin) - sum((span[1] - span[0] for span in long), timedelta(0))
        per_second = room / max(straight.total_seconds(), 0.001)
        self._points: list[tuple[datetime, float]] = [(begin, 0.0)]
        self.gaps: list[Gap] = []
        for first, last in long:
            at, x = self._points[-1]
            x += (first - at).total_seconds() * per_second
            self._points += [(first, x), (last, x + gap)]
            self.gaps.append(Gap(round(x, 1), round(gap, 1), last - first))
        at, x = self._points[-1]
        self._points.append((end, x + (end - at).total_seconds() * per_second))

    def at(self, moment: datetime) -> float:
        for (first, x), (last, after) in zip(self._points, self._points[1:], strict=False):
            if moment <= last:
                whole = (last - first).total_seconds()
                return x + (after - x) * ((moment - first).total_seconds() / whole if whole else 0.0)
        return self._points[-1][1]

    def piece(self, span: _Span) -> tuple[float, float]:
        x = self.at(span[0])
        width = max(self.at(span[1]) - x, LEAST)
        return round(min(x, WIDTH - width), 1), round(width, 1)


def _idle(begin: datetime, end: datetime, busy: Sequence[_Span]) -> list[_Span]:
    found, at = list[_Span](), begin
    for first, last in sorted(busy):
        if first > at:
            found.append((at, first))
        at = max(at, last)
    if end > at:
        found.append((at, end))
    return found
