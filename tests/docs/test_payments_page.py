"""docs/payments.md: its module pays once at a bank that refuses, loses answers and hangs."""

import asyncio
from datetime import timedelta

from sojourn import RunOutput
from sojourn.core.run import retry
from sojourn.network import client as network_client
from sojourn.network.client import Timeouts
from tests.bank import Bank

PAID, UNKNOWN = "Paid {}: receipt-", "Not known whether {} was paid: ask the bank."
DECLINED = "{} was not paid: not enough money."
AT_ONCE = 5
"""More runs at once could keep the event loop of a busy machine from the bank for as long as a silent bank is given."""

ROWS = [
    ([], PAID, 1),
    (["429", "503"], PAID, 3),
    (["lost"], PAID, 2),
    (["hangs", "504"], PAID, 3),
    (["lost", "503:2"], PAID, 3),
    (["lost"] * 3, UNKNOWN, 3),
    (["rude"] * 3, UNKNOWN, 3),
    (["html"], PAID, 2),
    (["other"], PAID, 2),
    (["paid-409", "paid-302"], PAID, 3),
    (["html", "other", "paid-302"], UNKNOWN, 3),
    (["paid-409"] * 3, UNKNOWN, 3),
    (["rude", "402"], DECLINED, 2),
    (["402"], DECLINED, 1),
    (["503"] * 3, "{} was not paid: desk.bank.pay is unavailable: ", 3),
]
"""What becomes of the requests about a payment, how the answer begins, and how many requests the bank got."""


async def test_the_page_pays_once(serve, status_when, module_of, monkeypatch, subtests):
    """Whatever the bank does, it pays at most once, under one key, and the flow says what it knows."""
    monkeypatch.setattr(
        retry, "LONGEST_INTERVAL", timedelta(seconds=1)
    )  # two seconds of `Retry-After` are long
    monkeypatch.setitem(network_client.PROVIDER_TIMEOUTS, "default", Timeouts(connect=20, read=2, write=20))
    payments = {f"p-{number}": row for number, row in enumerate(ROWS)}
    async with Bank.of(**{payment: mishaps for payment, (mishaps, *_) in payments.items()}) as bank:
        monkeypatch.setenv("BANK_URL", bank.url)
        client, slots = await serve(module_of("payments.md", "paydesk").app), asyncio.Semaphore(AT_ONCE)

        async def pay(payment: str) -> RunOutput:
            async with slots:
                run = await client.start("desk.pay", f"{payment} 30")
                asked: set[str] = set()
                while len(asked) < 2:
                    status = await status_when(run, lambda s: not s.phase or {w.id for w in s.awaits} - asked)
                    if not status.awaits:
                        break
                    (wait,) = status.awaits
                    assert wait.outcome_unknown is bool(asked)
                    asked.add(wait.id)
                    await run.approve(wait.id)
                return await run.result()

        outputs = dict(zip(payments, await asyncio.gather(*map(pay, payments)), strict=True))
        for payment, (mishaps, answer, requests) in payments.items():
            with subtests.test(mishaps=mishaps):
                assert outputs[payment].text.startswith(answer.format(payment))
                assert len(bank.requests[payment]) == requests
                assert len(set(bank.requests[payment])) == 1
                assert bank.counts[payment] <= 1
