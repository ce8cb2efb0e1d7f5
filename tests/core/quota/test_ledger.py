"""The ledger of a tenant: who has a place, who waits, and what workers are to do."""

from collections import deque
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic import ValidationError

from sojourn.contracts.quota import (
    Ask,
    Exchange,
    ExchangeReply,
    Holder,
    LedgerRecord,
    PlaceRef,
    QuotaRecord,
    TenantQuota,
)
from sojourn.core.quota.ledger import (
    CALLED_AGAIN_AFTER,
    CHECKED_EVERY,
    COUNTED_ALONE_FOR,
    IN_FRONT,
    LONGEST_RETRY,
    LONGEST_RETRY_IN_FRONT,
    Ledger,
)

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def ref(run_id: str, place: int = 1) -> PlaceRef:
    return PlaceRef(run_id=run_id, place=place)


class Tenant:
    """A ledger, and a worker that asks it."""

    def __init__(self, **quota: object) -> None:
        self.quota, self.ledger = TenantQuota(**quota).recorded(), Ledger(LedgerRecord())  # type: ignore[arg-type]

    def say(self, seconds: float, *asks: str, starts: bool = True, worker: str = "w1", **fields: object):
        wants = [Ask(run_id=run_id, place=1, starts=starts) for run_id in asks]
        request = Exchange(worker=worker, quota=self.quota, asks=wants, **fields)  # type: ignore[arg-type]
        return self.ledger.exchange(request, at(seconds))

    def admitted(self, reply: ExchangeReply) -> list[str]:
        return sorted(run_id for run_id, each in reply.admissions.items() if each.admitted)


def test_places_go_to_those_who_asked_first():
    """A run that ends gives its place to the first that waits, and a worker is to call it."""
    acme = Tenant(runs=2)
    reply = acme.say(0, "a", "b", "c", "d")
    assert acme.admitted(reply) == ["a", "b"]
    assert [(reply.admissions[each].position, reply.admissions[each].limit) for each in "cd"] == [
        (1, 2),
        (2, 2),
    ]
    reply = acme.say(1, released=[ref("b")])
    assert [each.run_id for each in reply.call] == ["c"]
    assert acme.admitted(acme.say(1.1, "c")) == ["c"], "it asks once it is called"
    assert acme.ledger.use(at(2)).model_dump(include={"runs", "waiting", "starts"}) == {
        "runs": 2,
        "waiting": 1,
        "starts": 3,
    }


def test_a_message_that_comes_twice_or_late_changes_nothing():
    """A run has one place, and only the place that it names is given up."""
    acme = Tenant(runs=1)
    for _ in range(3):
        assert acme.admitted(acme.say(0, "a")) == ["a"]
    assert acme.ledger.use(at(0)).starts == 1
    acme.say(1, released=[ref("a", 7), ref("unknown")])
    assert acme.ledger.use(at(1)).runs == 1
    again = Exchange(worker="w2", quota=acme.quota, asks=[Ask(run_id="a", place=4, starts=True)])
    assert acme.ledger.exchange(again, at(2)).admissions["a"].admitted, (
        "the worker that was to release it is lost"
    )
    acme.say(3, released=[ref("a", 1)])
    assert acme.ledger.use(at(3)).runs == 1, "a late release of an earlier place"


def test_a_call_that_was_lost_is_made_by_another_worker():
    """A run that got a place and does not ask is called again, until a worker says that it was called."""
    acme = Tenant(runs=1)
    acme.say(0, "a", "b")
    reply = acme.say(1, released=[ref("a")])
    assert (reply.call, reply.visit_after) == ([ref("b")], CALLED_AGAIN_AFTER)
    assert acme.say(2, worker="w2").call == []
    later = 1 + CALLED_AGAIN_AFTER.total_seconds()
    assert acme.say(later, worker="w2").call == [ref("b")]
    assert acme.say(later + 1, worker="w2", called=[ref("b")]).call == []
    assert acme.say(3 * later, worker="w2").call == []


def test_runs_that_vanished_are_looked_for_while_others_wait():
    """A run that has had a place for long is checked, and its place goes on once it is found closed."""
    acme = Tenant(runs=1)
    acme.say(0, "a")
    late = CHECKED_EVERY.total_seconds()
    idle = acme.say(late)
    assert (idle.check, idle.visit_after) == ([], None), "nobody waits"
    busy = acme.say(late, "b")
    assert (busy.check, busy.visit_after) == ([ref("a")], CHECKED_EVERY)
    assert acme.say(late + 1).check == []
    assert acme.say(late + 2, released=[ref("a")]).call == [ref("b")]


def test_a_run_that_may_not_wait_is_refused():
    """It is refused by a quota that says so, and by a list that is full, and takes no room in the list."""
    strict = Tenant(runs=1, when_full="refuse")
    reply = strict.say(0, "a", "b")
    assert (reply.admissions["b"].refused, strict.ledger.use(at(0)).waiting) == (True, 0)
    full = Tenant(runs=1, max_waiting=2)
    reply = full.say(0, "a", "b", "c", "d")
    assert [reply.admissions[each].refused for each in "bcd"] == [False, False, True]
    assert full.ledger.use(at(0)).waiting == 2


def test_starts_that_are_held_back_do_not_hold_back_runs_at_work():
    """A run that had a place before passes those that only the limit of starts holds back, and those that wait for a place."""
    acme = Tenant(runs=3, starts_per_minute=1)
    reply = acme.say(0, "a", "b")
    assert (acme.admitted(reply), reply.admissions["b"].kind) == (["a"], "starts_per_minute")
    assert acme.admitted(acme.say(1, "c", starts=False)) == ["c"]
    full = Tenant(runs=1)
    full.say(0, "a", "b")
    assert full.say(1, "c", starts=False).admissions["c"].position == 1
    assert full.say(2, released=[ref("a")]).call == [ref("c")]
    assert full.say(3, released=[ref("c")]).call == [ref("b")]


def test_a_run_in_the_middle_of_its_work_is_never_refused():
    """It waits where starts are refused, and takes no start's room in the list."""
    strict = Tenant(runs=1, when_full="refuse")
    strict.say(0, "a")
    assert not strict.say(1, "b", starts=False).admissions["b"].refused
    full = Tenant(runs=1, max_waiting=1)
    full.say(0, "a")
    full.say(1, "b", starts=False)
    assert not full.say(2, "c").admissions["c"].refused
    assert full.say(3, "d").admissions["d"].refused
    assert not full.say(4, "e", starts=False).admissions["e"].refused


def test_without_a_limit_of_runs_no_run_is_kept_for_long():
    """A run that asks again at once is the same start, and one whose release is lost goes by itself."""
    acme = Tenant(starts_per_minute=1_000)
    acme.say(0, *(f"r{number}" for number in range(20)))
    assert acme.ledger.use(at(1)).runs == 20
    acme.say(2, "r1")
    assert acme.ledger.use(at(2)).starts == 20
    acme.say(3 + COUNTED_ALONE_FOR.total_seconds())
    assert acme.ledger.use(at(70)).runs == 0


def test_a_record_stays_far_below_what_temporal_takes():
    """A list of long ids is full early: starts are refused, and runs at work ask again."""
    acme = Tenant(runs=1, max_waiting=5_000)
    acme.say(0, "a")
    reply = acme.say(1, *(f"{number:0900}" for number in range(4_000)))
    refused = [each for each in reply.admissions.values() if each.refused]
    assert 0 < len(refused) < 4_000
    assert len(reply.admissions) == 4_000
    later = acme.say(2, "x" * 900, starts=False).admissions["x" * 900]
    assert (later.admitted, later.refused, later.retry_after is None) == (False, False, False)
    assert 1_000_000 < len(acme.ledger.record().model_dump_json(exclude_defaults=True)) < 1_600_000


def test_the_longest_lists_that_a_quota_allows_fit():
    """With ids of usual length none of them is cut short."""
    acme = Tenant(runs=5_000, max_waiting=5_000)
    reply = acme.say(0, *(f"acme=agent-{number:032}" for number in range(10_000)))
    assert not any(each.refused for each in reply.admissions.values())
    assert len(acme.ledger.record().model_dump_json(exclude_defaults=True)) < 1_600_000


def test_a_record_that_anyone_may_have_written_is_read_with_care():
    """Seconds that are no seconds are left out, a time without a zone is refused, and what is new is ignored."""
    Ledger(LedgerRecord(starts={"9" * 5_000: 1, "x": 1})).use(T0)
    with pytest.raises(ValidationError):
        Holder(place=1, checked_at=datetime(2026, 3, 1))  # noqa: DTZ001
    newer = {"quota": {"runs": 9_000, "when_full": "ask", "burst": 3}, "more": 1}
    assert LedgerRecord.model_validate(newer).quota == QuotaRecord(runs=9_000, when_full="ask")


def test_starts_ask_again_when_the_minute_lets_them():
    """The time of each is that at which the window has room for it, in the order in which they wait."""
    acme = Tenant(starts_per_minute=10)
    waits = acme.say(0, *(f"r{k:02}" for k in range(35))).admissions
    delays = sorted(each.retry_after for each in waits.values() if each.retry_after)
    assert [len(delays), delays[0], delays[9], delays[10], delays[24]] == [
        25,
        timedelta(seconds=61),
        timedelta(seconds=61),
        timedelta(seconds=122),
        timedelta(seconds=183),
    ]
    assert acme.admitted(acme.say(60.5, "r10")) == []
    assert acme.admitted(acme.say(61, "r10")) == ["r10"]


def test_a_run_that_waits_for_long_asks_ever_more_rarely():
    """So its history does not grow with the time that it waits. The first ones ask every five minutes."""
    acme = Tenant(runs=1)
    acme.say(0, "a", "first", *(f"r{number}" for number in range(IN_FRONT)))
    now, asked = 0.0, 0
    while now < 24 * 3600:
        delay = acme.say(now, "b").admissions["b"].retry_after
        assert delay is not None
        assert delay <= LONGEST_RETRY
        now, asked = now + delay.total_seconds(), asked + 1
    assert asked < 40
    assert acme.say(now, "first").admissions["first"].retry_after == LONGEST_RETRY_IN_FRONT


def test_a_fleet_exchanges_twenty_times_a_second():
    """Each worker waits in proportion to the number of workers, and those that are gone do not count."""
    acme = Tenant(runs=1)
    paces = [acme.say(k / 100, worker=f"w{k}").again_after for k in range(50)]
    assert (paces[0], paces[-1]) == (timedelta(milliseconds=50), timedelta(seconds=2.5))
    assert acme.say(1.6).again_after == timedelta(milliseconds=50)


def test_a_ledger_continues_with_all_that_it_knows():
    """Its record, read back from JSON, decides as the ledger itself does."""
    acme = Tenant(runs=2, starts_per_minute=3)
    acme.say(0, "a", "b", "c", "d")
    acme.say(1, "e", starts=False)
    read = LedgerRecord.model_validate_json(acme.ledger.record().model_dump_json(exclude_defaults=True))
    replies = [
        ledger.exchange(Exchange(worker="w", quota=acme.quota, released=[ref("a"), ref("b")]), at(5))
        for ledger in (acme.ledger, Ledger(read))
    ]
    assert replies[0].call == replies[1].call == [ref("e"), ref("c")]
    assert Ledger(read).record() == read


class AnyFleet(RuleBasedStateMachine):
    """Workers whose messages are late, lost and repeated, and runs that vanish."""

    @initialize(runs=st.integers(1, 4), starts=st.one_of(st.none(), st.integers(1, 5)))
    def begin(self, runs: int, starts: int | None) -> None:
        self.quota = TenantQuota(runs=runs, starts_per_minute=starts, max_waiting=100).recorded()
        self.ledger, self.now, self.number = Ledger(LedgerRecord()), 0.0, 0
        self.working: dict[str, PlaceRef] = {}
        self.asking: dict[str, Ask] = {}
        self.vanished: set[str] = set()
        self.begun: deque[float] = deque()
        self.sent: list[Exchange] = []

    def send(self, request: Exchange, *, counts: bool = True) -> None:
        reply = self.ledger.exchange(request, at(self.now))
        if not counts:  # the worker is gone that would carry out the reply
            return
        errands = [each for each in reply.check if each.run_id not in self.working]
        for each in reply.call:
            if each.run_id in self.vanished:
                errands.append(each)
            elif each.run_id in self.asking:
                self.send(Exchange(worker="w", quota=self.quota, asks=[self.asking[each.run_id]]))
        for run_id, admission in reply.admissions.items():
            ask = self.asking.get(run_id)
            if admission.admitted and ask is not None:
                del self.asking[run_id]
                self.working[run_id] = PlaceRef(run_id=run_id, place=ask.place)
                if ask.starts:
                    self.begun.append(self.now)
        if errands:
            self.send(Exchange(worker="w", quota=self.quota, released=errands))

    @rule(starts=st.booleans(), is_heard=st.booleans())
    def ask(self, starts: bool, is_heard: bool) -> None:
        self.number += 1
        ask = Ask(run_id=f"r{self.number}", place=1, starts=starts)
        self.asking[ask.run_id] = ask
        request = Exchange(worker="w", quota=self.quota, asks=[ask])
        self.sent.append(request)
        self.send(request, counts=is_heard)

    @rule(pick=st.integers(0, 20), is_told=st.booleans())
    def end(self, pick: int, is_told: bool) -> None:
        for run_id in islice(list(self.working), pick, pick + 1):
            place = self.working.pop(run_id)
            if is_told:
                self.send(Exchange(worker="w", quota=self.quota, released=[place]))

    @rule(pick=st.integers(0, 20))
    def vanish(self, pick: int) -> None:
        for run_id in islice(list(self.asking), pick, pick + 1):
            del self.asking[run_id]
            self.vanished.add(run_id)

    @rule(pick=st.integers(0, 20))
    def repeat(self, pick: int) -> None:
        for request in islice(self.sent, pick, pick + 1):
            if all(ask.run_id in self.asking for ask in request.asks):
                self.send(request)

    @rule(seconds=st.floats(0.1, 90))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def the_quota_holds(self) -> None:
        if not hasattr(self, "ledger"):
            return
        assert len(self.working) <= self.ledger.use(at(self.now)).runs <= (self.quota.runs or 0)
        times = list(self.begun)
        limit = self.quota.starts_per_minute
        if limit is not None and len(times) > limit:
            assert all(after - before >= 60 for before, after in zip(times, times[limit:], strict=False))

    def teardown(self) -> None:
        """Every run that waits gets a place, however many vanished, once those at work end."""
        if not hasattr(self, "ledger"):
            return
        for _ in range(20 * (self.number + 1)):
            if not self.asking:
                break
            self.now += 61
            for run_id in list(self.working):
                place = self.working.pop(run_id)
                self.send(Exchange(worker="w", quota=self.quota, released=[place]))
            for ask in list(self.asking.values()):
                if ask.run_id in self.asking:
                    self.send(Exchange(worker="w", quota=self.quota, asks=[ask]))
        assert not self.asking


TestAnyFleet = AnyFleet.TestCase
TestAnyFleet.settings = settings(max_examples=60, stateful_step_count=40)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9)), max_size=40), st.integers(1, 30))
def test_no_sixty_seconds_have_more_starts_than_the_limit(bursts: list[tuple[int, int]], limit: int):
    """Whatever comes when: the window slides, and does not begin anew with each minute."""
    acme, starts, number = Tenant(starts_per_minute=limit, when_full="refuse"), [], 0
    for tenths, count in sorted(bursts):
        names = [f"r{number + k}" for k in range(count)]
        number += count
        starts += [tenths / 10 * 7] * len(acme.admitted(acme.say(tenths / 10 * 7, *names)))
    assert all(after - before >= 60 for before, after in zip(starts, starts[limit:], strict=False))
