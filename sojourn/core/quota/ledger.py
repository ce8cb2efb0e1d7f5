"""Decide which of a tenant's runs have a place.

The ledger keeps the runs themselves, not their number. So a message that comes twice, or late, changes nothing: a run
has one place, and only the place that it names is given up.

A run that waits is called by a worker once it has a place. If that worker is lost, the next exchange of any worker names
the run again. A run that vanished without a word, as when it is terminated, is found by a worker while others wait.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

from sojourn.contracts.quota import (
    Admission,
    Ask,
    Exchange,
    ExchangeReply,
    Holder,
    LedgerRecord,
    PlaceRef,
    QuotaKind,
    QuotaUse,
    Waiting,
)

__all__ = ["Ledger"]

WINDOW = 60
"""Seconds in which starts are counted. A token bucket of a minute would let twice the limit through in some minutes."""

CALLED_AGAIN_AFTER = timedelta(seconds=5)
"""When a run that got a place, and has not asked since, is called again."""

CHECKED_EVERY = timedelta(seconds=30)
"""How often a run that has a place is checked while others wait."""

COUNTED_ALONE_FOR = timedelta(minutes=1)
"""How long a run counts that only a limit of starts has admitted: so long its request may come again."""

MAX_BYTES = 1_500_000
"""Most bytes of a ledger's record. Temporal takes 2 MB."""

ENTRY_BYTES = 100
"""Bytes of a run in the record, without its id."""

MAX_DIGITS = 12
"""Most digits of a second in a record."""

MAX_CALLS = 200
"""Most runs that one reply asks to call."""

MAX_CHECKS = 20
"""Most runs that one reply asks to check."""

PER_WORKER = timedelta(milliseconds=50)
"""Time between two exchanges of one worker, for each worker of the last second: some 20 to 30 exchanges a second in all."""

PRESENT_FOR = timedelta(seconds=1)
"""How long a worker counts after an exchange. Most workers have nothing to say most of the time."""

SHORTEST_RETRY = timedelta(minutes=1)
LONGEST_RETRY = timedelta(hours=1)
LONGEST_RETRY_IN_FRONT = timedelta(minutes=5)
"""For the first runs that wait, whose turn may have come without a call that reached them."""

IN_FRONT = 100
"""Number of these."""

SPREAD = timedelta(milliseconds=100)
"""Added to a retry for each position, so that runs that wait do not all ask at once."""


class Ledger:
    """The runs of one tenant that have a place, and those that wait for one."""

    def __init__(self, record: LedgerRecord) -> None:
        self._quota = record.quota
        self._holders = dict(record.holders)
        self._waiting = dict(record.waiting)
        self._starts = {int(second): count for second, count in record.starts.items() if _is_second(second)}
        self._resuming = sum(not each.starts for each in self._waiting.values())
        """Number of waiting runs that are no starts."""
        self._seen: dict[str, datetime] = {}
        """The last exchange of each worker."""

    def record(self) -> LedgerRecord:
        starts = {str(second): count for second, count in self._starts.items()}
        return LedgerRecord(quota=self._quota, holders=self._holders, waiting=self._waiting, starts=starts)

    def use(self, now: datetime) -> QuotaUse:
        """Return how much of its quota the tenant uses."""
        return QuotaUse(
            quota=self._quota,
            runs=len(self._holders),
            waiting=len(self._waiting),
            waiting_starts=len(self._waiting) - self._resuming,
            starts=sum(count for second, count in self._starts.items() if _is_recent(second, now)),
        )

    def exchange(self, request: Exchange, now: datetime) -> ExchangeReply:
        """Take what a worker tells, and decide about what its runs ask."""
        self._quota = request.quota
        self._starts = {second: count for second, count in self._starts.items() if _is_recent(second, now)}
        for ref in request.released:
            self._release(ref)
        for ref in request.called:
            self._mark_called(ref)
        self._forget(now)
        asked = {ask.run_id for ask in request.asks}
        turned_away = self._take_all(request.asks, now)
        self._grant(asked, now)
        return ExchangeReply(
            admissions=self._admissions(asked, now) | turned_away,
            call=self._calls(now),
            check=self._checks(now),
            again_after=self._pace(request.worker, now),
            visit_after=self._visit_after(),
        )

    # Take.

    def _release(self, ref: PlaceRef) -> None:
        holder, waiting = self._holders.get(ref.run_id), self._waiting.get(ref.run_id)
        if holder is not None and holder.place == ref.place:
            del self._holders[ref.run_id]
        elif waiting is not None and waiting.place == ref.place:
            self._drop(ref.run_id)

    def _drop(self, run_id: str) -> None:
        self._resuming -= not self._waiting.pop(run_id).starts

    def _mark_called(self, ref: PlaceRef) -> None:
        holder = self._holders.get(ref.run_id)
        if holder is not None and holder.place == ref.place:
            self._holders[ref.run_id] = holder.model_copy(update={"is_called": True})

    def _forget(self, now: datetime) -> None:
        # Without a limit of runs at work no place is missing, so nothing would ever look for those that have vanished.
        if self._quota.runs is not None:
            return
        longest = COUNTED_ALONE_FOR if self._size() < MAX_BYTES // 2 else timedelta(0)
        self._holders = {
            run_id: holder
            for run_id, holder in self._holders.items()
            if not holder.is_called or now - holder.checked_at < longest
        }

    def _size(self) -> int:
        return sum(map(_bytes_of, self._holders)) + sum(map(_bytes_of, self._waiting))

    def _take_all(self, asks: Iterable[Ask], now: datetime) -> dict[str, Admission]:
        """Take what runs ask, and turn away those for which there is no room."""
        turned_away, size = dict[str, Admission](), None
        for ask in asks:
            if ask.run_id not in self._holders and ask.run_id not in self._waiting:
                size = (self._size() if size is None else size) + _bytes_of(ask.run_id)
                if size > MAX_BYTES:
                    size -= _bytes_of(ask.run_id)
                    turned_away[ask.run_id] = self._turn_away(ask)
                    continue
            self._take(ask, now)
        return turned_away

    def _turn_away(self, ask: Ask) -> Admission:
        kind: QuotaKind = "starts_per_minute" if self._quota.runs is None else "runs"
        limit = self._quota.runs or self._quota.starts_per_minute or 0
        if ask.starts:
            return Admission(admitted=False, refused=True, kind=kind, limit=limit)
        position = len(self._waiting) + 1
        return Admission(
            admitted=False, kind=kind, limit=limit, position=position, retry_after=SHORTEST_RETRY
        )

    def _take(self, ask: Ask, now: datetime) -> None:
        holder, waiting = self._holders.get(ask.run_id), self._waiting.get(ask.run_id)
        if holder is not None and holder.place == ask.place:
            self._holders[ask.run_id] = holder.model_copy(update={"is_called": True, "checked_at": now})
            return
        if waiting is not None and waiting.place == ask.place:
            return
        # A run that asks with another number has given up what it had, and the worker that was to say so is lost.
        self._holders.pop(ask.run_id, None)
        if waiting is not None:
            self._drop(ask.run_id)
        self._waiting[ask.run_id] = Waiting(place=ask.place, starts=ask.starts, since=now)
        self._resuming += not ask.starts

    # Grant.

    @property
    def _has_place(self) -> bool:
        return self._quota.runs is None or len(self._holders) < self._quota.runs

    def _starts_left(self) -> int | None:
        limit = self._quota.starts_per_minute
        return None if limit is None else limit - sum(self._starts.values())

    def _in_order(self) -> list[tuple[str, Waiting]]:
        """Return those that wait: runs that were at work before, then starts."""
        waiting = list(self._waiting.items())
        if not 0 < self._resuming < len(waiting):
            return waiting
        return sorted(waiting, key=lambda each: each[1].starts)

    def _grant(self, asked: Iterable[str], now: datetime) -> None:
        left = self._starts_left()
        for run_id, waiting in self._in_order() if self._has_place else ():
            if not self._has_place or (waiting.starts and left is not None and left <= 0):
                return
            self._drop(run_id)
            self._holders[run_id] = Holder(
                place=waiting.place, is_called=run_id in asked, called_at=None, checked_at=now
            )
            if waiting.starts:
                second = int(now.timestamp())
                self._starts[second] = self._starts.get(second, 0) + 1
                left = None if left is None else left - 1

    # Reply.

    def _admissions(self, asked: set[str], now: datetime) -> dict[str, Admission]:
        found = {run_id: Admission() for run_id in asked if run_id in self._holders}
        waits = asked - found.keys()
        if not waits:
            return found
        left, starting, has_place = self._starts_left(), 0, self._has_place
        for position, (run_id, waiting) in enumerate(self._in_order(), 1):
            starting += waiting.starts
            if run_id not in waits:
                continue
            is_start = waiting.starts and left is not None and starting > left and has_place
            kind: QuotaKind = "starts_per_minute" if is_start else "runs"
            limit = self._quota.starts_per_minute if is_start else self._quota.runs
            may_wait = self._quota.when_full != "refuse" and starting <= self._quota.max_waiting
            if waiting.starts and not may_wait:
                self._drop(run_id)
                found[run_id] = Admission(admitted=False, refused=True, kind=kind, limit=limit or 0)
                continue
            retry = self._until_start(starting, now) if is_start else _retry(position, now - waiting.since)
            found[run_id] = Admission(
                admitted=False, kind=kind, limit=limit or 0, position=position, retry_after=retry
            )
        return found

    def _until_start(self, number: int, now: datetime) -> timedelta:
        """Return when the limit lets so many further starts through."""
        limit = self._quota.starts_per_minute or 1
        minutes, rest = divmod(number - 1 - max(limit - sum(self._starts.values()), 0), limit)
        freed = 0
        for second, count in sorted(self._starts.items()):
            freed += count
            if freed > rest:
                left = second + WINDOW + 1 - now.timestamp()
                return timedelta(seconds=max(left, 0) + minutes * (WINDOW + 1))
        return timedelta(minutes=1 + minutes)

    def _calls(self, now: datetime) -> list[PlaceRef]:
        due = [
            (run_id, holder)
            for run_id, holder in self._holders.items()
            if not holder.is_called
            and (holder.called_at is None or now - holder.called_at >= CALLED_AGAIN_AFTER)
        ][:MAX_CALLS]
        self._holders.update({run_id: holder.model_copy(update={"called_at": now}) for run_id, holder in due})
        return [PlaceRef(run_id=run_id, place=holder.place) for run_id, holder in due]

    def _visit_after(self) -> timedelta | None:
        if not all(holder.is_called for holder in self._holders.values()):
            return CALLED_AGAIN_AFTER
        return CHECKED_EVERY if self._waiting else None

    def _checks(self, now: datetime) -> list[PlaceRef]:
        if not self._waiting or self._has_place:
            return []
        due = (each for each in self._holders.items() if now - each[1].checked_at >= CHECKED_EVERY)
        found = list(islice(due, MAX_CHECKS))
        self._holders.update(
            {run_id: holder.model_copy(update={"checked_at": now}) for run_id, holder in found}
        )
        return [PlaceRef(run_id=run_id, place=holder.place) for run_id, holder in found]

    def _pace(self, worker: str, now: datetime) -> timedelta:
        self._seen[worker] = now
        self._seen = {name: at for name, at in self._seen.items() if now - at < PRESENT_FOR}
        return PER_WORKER * len(self._seen)


def _is_recent(second: int, now: datetime) -> bool:
    # A second counts as long as any part of it is within the window.
    return second + 1 + WINDOW > now.timestamp()


def _retry(position: int, waited: timedelta) -> timedelta:
    # Workers call the run before. It asks by itself in case that the call is lost, ever more rarely.
    longest = LONGEST_RETRY_IN_FRONT if position <= IN_FRONT else LONGEST_RETRY
    return min(SHORTEST_RETRY + SPREAD * position + waited / 2, longest)


def _is_second(text: str) -> bool:
    return len(text) <= MAX_DIGITS and text.isdecimal()


def _bytes_of(run_id: str) -> int:
    return ENTRY_BYTES + len(run_id.encode())
