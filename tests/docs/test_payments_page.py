"""docs/payments.md: its module pays once at a bank that refuses, loses answers and hangs."""

from datetime import timedelta

import pytest

from sojourn.core.run import retry
from sojourn.network import client as network_client
from sojourn.network.client import Timeouts
from tests.bank import Bank


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Let a `Retry-After` of two seconds count as long, and give up on a silent bank after one."""
    monkeypatch.setattr(retry, "LONGEST_INTERVAL", timedelta(seconds=1))
    monkeypatch.setitem(network_client.PROVIDER_TIMEOUTS, "default", Timeouts(connect=5, read=1, write=5))


@pytest.mark.parametrize(
    ("mishaps", "answer", "requests"),
    [
        ([], "Paid p: receipt-1.", 1),
        (["429", "503"], "Paid p: receipt-1.", 3),
        (["lost"], "Paid p: receipt-1.", 2),
        (["hangs", "504"], "Paid p: receipt-1.", 3),
        (["lost", "503:2"], "Paid p: receipt-1.", 3),
        (["lost"] * 3, "Not known whether p was paid: ask the bank.", 3),
        (["rude"] * 3, "Not known whether p was paid: ask the bank.", 3),
        (["html"], "Paid p: receipt-1.", 2),
        (["other"], "Paid p: receipt-1.", 2),
        (["paid-409", "paid-302"], "Paid p: receipt-1.", 3),
        (["html", "other", "paid-302"], "Not known whether p was paid: ask the bank.", 3),
        (["paid-409"] * 3, "Not known whether p was paid: ask the bank.", 3),
        (["rude", "402"], "p was not paid: not enough money.", 2),
        (["402"], "p was not paid: not enough money.", 1),
        (["503"] * 3, "p was not paid: desk.bank.pay is unavailable: ", 3),
    ],
    ids=str,
)
async def test_the_page_pays_once(serve, status_when, module_of, monkeypatch, mishaps, answer, requests):
    """Whatever the bank does, it pays at most once, under one key, and the flow says what it knows."""
    async with Bank.of(p=mishaps) as bank:
        monkeypatch.setenv("BANK_URL", bank.url)
        page = module_of("payments.md", "paydesk")
        client = await serve(page.app)
        run = await client.start("desk.pay", "p 30")
        asked: set[str] = set()
        while len(asked) < 2:
            status = await status_when(run, lambda s: not s.phase or {w.id for w in s.awaits} - asked)
            if not status.awaits:
                break
            (wait,) = status.awaits
            assert wait.outcome_unknown is bool(asked)
            asked.add(wait.id)
            await run.approve(wait.id)
        output = await run.result()
        assert output.text.startswith(answer)
        assert len(bank.requests["p"]) == requests
        assert len(set(bank.requests["p"])) == 1
        assert bank.counts["p"] <= 1
