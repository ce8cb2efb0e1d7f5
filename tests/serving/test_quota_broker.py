"""A worker's exchanges with the ledger of a tenant, when it does not answer as it should."""

import asyncio
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sojourn import TenantQuota, Tenants
from sojourn.contracts.quota import Admission, Ask, Exchange, ExchangeReply, PlaceRef
from sojourn.serving import quota_broker
from sojourn.serving.quota_broker import QuotaBroker
from sojourn.testing import ScriptedPlanner


class Answers:
    """A ledger that answers as a test says, and what it was sent."""

    def __init__(self, answer: Callable[[Exchange], ExchangeReply]) -> None:
        self.answer, self.sent, self.id = answer, list[Exchange](), "ledger"

    async def exchange(self, request: Exchange) -> ExchangeReply:
        self.sent.append(request)
        return self.answer(request)


def admit(request: Exchange) -> ExchangeReply:
    return ExchangeReply(admissions={ask.run_id: Admission() for ask in request.asks})


@pytest.fixture
async def broker(serve, monkeypatch):
    """Make a worker's broker, whose ledger answers as a test says."""
    client = await serve(planner=ScriptedPlanner([]))
    brokers = list[QuotaBroker]()

    def make(answers: Answers) -> QuotaBroker:
        monkeypatch.setattr(quota_broker, "_Ledger", lambda *_: answers)
        made = QuotaBroker(client.temporal, Tenants(default=TenantQuota(runs=1)), uuid.uuid4().hex)
        made.open()
        brokers.append(made)
        return made

    yield make
    for made in brokers:
        await made.close()


@pytest.fixture
def called(monkeypatch):
    """The runs that a broker calls, which are none of a server."""
    places = list[PlaceRef]()

    async def call(_desk: Any, ref: PlaceRef) -> None:
        places.append(ref)

    monkeypatch.setattr(quota_broker._Desk, "_call", call)
    return places


def ask(run_id: str = "r") -> Ask:
    return Ask(run_id=run_id, place=1, starts=True)


async def test_an_exchange_that_fails_in_any_way_is_made_again(broker):
    """A fault that is none of Temporal's would otherwise leave the runs that ask waiting for ever."""
    faults: list[Exception] = [ValueError("not JSON"), KeyError("x")]

    def answer(request: Exchange) -> ExchangeReply:
        if faults:
            raise faults.pop()
        return admit(request)

    ledger = Answers(answer)
    made = broker(ledger)
    made.release("acme", "gone", 3)
    assert await asyncio.wait_for(made.ask("acme", ask()), 20) == Admission()
    assert faults == []
    assert ledger.sent[-1].released == [PlaceRef(run_id="gone", place=3)]


async def test_runs_ask_ever_more_rarely_while_a_ledger_does_not_answer(broker, monkeypatch, called, until):
    """Each time is recorded in their history, so they wait for minutes and are called once the ledger answers."""
    monkeypatch.setattr(quota_broker, "PATIENCE", 0.0)
    monkeypatch.setattr(quota_broker, "ASKS_AGAIN", timedelta(milliseconds=1))
    is_away = True

    def answer(request: Exchange) -> ExchangeReply:
        if is_away:
            raise ValueError("away")
        return admit(request)

    ledger = Answers(answer)
    made = broker(ledger)
    delays = [(await made.ask("acme", ask(f"r{number}"))).retry_after for number in range(3)]
    assert delays[0] < delays[1] < delays[2]
    assert delays[2] > timedelta(seconds=1)
    monkeypatch.setattr(quota_broker, "LONGEST_ASKS_AGAIN", timedelta(seconds=1))
    monkeypatch.setattr(quota_broker, "LONGEST_BACKOFF", 0.5)
    assert (await made.ask("acme", ask("r9"))).retry_after == timedelta(seconds=1)

    await until(lambda: len(ledger.sent) > 5 and not ledger.sent[-1].asks)  # no run asks any more
    is_away = False
    await until(lambda: {ref.run_id for ref in called} == {"r0", "r1", "r2", "r9"})


async def test_runs_that_wait_outside_are_called_once_their_tenant_has_no_quota(
    broker, monkeypatch, called, until
):
    """The ledger, which does not answer, is asked no more."""
    monkeypatch.setattr(quota_broker, "PATIENCE", 0.0)
    monkeypatch.setattr(quota_broker, "LONGEST_BACKOFF", 0.1)

    def answer(_request: Exchange) -> ExchangeReply:
        raise ValueError("away")

    ledger = Answers(answer)
    made = broker(ledger)
    assert not (await made.ask("acme", ask())).admitted
    desk = made._desk("acme")
    desk._quota = lambda: None
    await until(lambda: called == [PlaceRef(run_id="r", place=1)])
    await until(desk._serving.done)


async def test_an_exchange_names_a_thousand_places_at_most(broker, until):
    """The rest goes with the next ones, and none is lost."""
    ledger = Answers(admit)
    made = broker(ledger)
    for number in range(2_500):
        made.release("acme", f"r{number}", 1)
    await until(lambda: sum(len(each.released) for each in ledger.sent) == 2_500)
    assert max(len(each.released) for each in ledger.sent) == 1_000
