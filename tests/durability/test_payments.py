"""Payments at a bank that refuses, loses answers and hangs, while workers are killed and frozen and versions change.

`SOJOURN_CASES=1000 pytest -s tests/durability/test_payments.py --timeout 3600` makes 1,000 payments and prints the figures.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sojourn import Run, RunFailed, RunNotFound
from sojourn.client import SessionTurn
from sojourn.errors import RunCanceled, RunError
from tests.bank import read_ledger

from .sojourn_process import SojournProcess
from .stage import Stage

CASES = int(os.environ.get("SOJOURN_CASES", "10"))
IS_QUICK = CASES <= 10
"""Whether only workers are killed, and nothing takes long."""

AT_ONCE = 10 if IS_QUICK else 40
AGENTS = ("named", "unnamed", "careful", "code", "model", "failing")
ANYWHERE = ("named", "careful", "code", "model")
"""Agents that are forked at any point: the version that comes to the payment may have reworded it, and then a step needs a name."""
INTERRUPTED = ("code", "model", "failing")
"""Agents of conversations whose turns are interrupted; the next turn asks for the same payment, which no version rewords."""
MOST_RETRIES = 20
FORK_POINTS = ("run_started", "plan_started", "tool_start", "tool_end")


@pytest.fixture
async def bank(tmp_path):
    """A bank as a process of its own; its address, and its ledger."""
    ledger = tmp_path / "ledger.jsonl"
    words = ("-m", "tests.bank", "--ledger", str(ledger), "--seed", str(CASES))
    words += ("--quick",) if IS_QUICK else ()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert process.stdout
    yield (await process.stdout.readline()).decode().strip(), ledger
    process.kill()
    await process.wait()


class Payments:
    """The payments of a campaign, and what became of them."""

    def __init__(self, stage: Stage, url: str) -> None:
        self.stage, self.url = stage, url
        self.answers: dict[str, list[str]] = {}
        self.most: dict[str, int] = {}
        """The most payments of a conversation, if it may have made more than one."""
        self.figures: Counter[str] = Counter()
        self.is_over = False
        self.serving: list[SojournProcess] = []
        self._version = 1
        self._dice = random.Random(CASES)

    async def open(self) -> None:
        """Start the workers."""
        self.serving += await asyncio.gather(*(self.worker() for _ in range(3)))

    async def worker(self) -> SojournProcess:
        """Start a worker of the present version."""
        name = {"BANK_URL": self.url, "PAYMENTS_VERSION": str(self._version), "NO_PROXY": "127.0.0.1"}
        root = str(Path(__file__).parents[2])
        return await self.stage.worker("payments_app:app", PYTHONPATH=root, **name)

    async def disturb(self) -> None:
        """Kill and freeze workers, and deploy the other version now and then, until all payments have ended."""
        dice, serving, number = self._dice, self.serving, 0
        while not self.is_over:
            await asyncio.sleep(dice.uniform(0, 1) if IS_QUICK else dice.uniform(1, 4))
            number += 1
            if number % 4 == 2:
                self._version = 3 - self._version
                self.figures["deploys"] += 1
            worker = serving.pop(0)
            if number % 3 == 0 and not IS_QUICK:
                worker.signal(signal.SIGSTOP)
                await asyncio.sleep(dice.uniform(5, 20))
                worker.signal(signal.SIGCONT)
                serving.append(worker)
                self.figures["freezes"] += 1
            else:
                worker.kill()
                serving.append(await self.worker())
                self.figures["kills"] += 1

    async def pay(self, numbers: "asyncio.Queue[int]") -> None:
        """Make payments one after the other."""
        with contextlib.suppress(asyncio.QueueEmpty):
            while True:
                await self._pay(numbers.get_nowait())

    async def _pay(self, number: int) -> None:
        agent = AGENTS[number % len(AGENTS)]
        dice, payment = random.Random(number), f"{agent}-{number}"
        answers = self.answers[payment] = []
        if agent in INTERRUPTED and dice.random() < 0.2:
            await self._interrupted(agent, payment, dice, answers)
            return
        run = await self._patiently(lambda: self.stage.client.start(f"campaign.{agent}", payment))
        if agent in ANYWHERE and dice.random() < 0.2:
            await self._canceled(run, dice, answers)
            return
        answers.append(await self._end_of(run))
        last = run
        while answers[-1].startswith("run failed") and len(answers) <= MOST_RETRIES:
            self.figures["retries"] += 1
            await asyncio.sleep(1)  # until a worker of the other version is there
            failed = last
            last = await self._patiently(lambda: self.stage.client.retry(failed.id))  # noqa: B023 - awaited here
            answers.append(await self._end_of(last))
        if dice.random() < 0.2:
            events = [event async for event in run.events() if event.type in FORK_POINTS]
            ends = [event for event in events if event.type == "tool_end"]
            at = dice.choice(events if agent in ANYWHERE else ends[-1:]).event_id
            self.figures["forks"] += 1
            fork = await self._patiently(lambda: self.stage.client.fork(run.id, at=at))
            answers.append(await self._end_of(fork))

    async def _interrupted(self, agent: str, payment: str, dice: random.Random, answers: list[str]) -> None:
        """Ask for a payment in a conversation, interrupt the turn, and ask for it again."""
        session = self.stage.client.session(f"campaign.{agent}", payment)
        first = await self._patiently(lambda: session.send(payment, message_id="first"))
        await asyncio.sleep(dice.uniform(0, 1.5))
        second = await self._patiently(lambda: session.send(payment, mode="interrupt", message_id="second"))
        ends = [await self._end_of(turn) for turn in (first, second)]
        self.figures["interruptions"] += any("interrupted" in end for end in ends)
        answers += [end for end in ends if "the turn was interrupted" not in end]
        calls = [event.result async for event in session.run.events(follow=False) if event.type == "tool_end"]
        # A turn that has paid before it was interrupted has its payment; a flow's next turn makes one of its own.
        self.most[payment] = max(1, sum(result.ok for result in calls if result.name.endswith(".pay")))
        open_calls = [result for result in calls if result.error and result.error.code == "canceled"]
        self.figures["calls cut off"] += sum(result.error.outcome_unknown for result in open_calls)
        self.figures["calls cut off before they began"] += sum(
            result.error.without_effect for result in open_calls
        )

    async def _canceled(self, run: Run, dice: random.Random, answers: list[str]) -> None:
        """Cancel a run, and take it up again in a fork of any point."""
        await asyncio.sleep(dice.uniform(0, 1.5))
        with contextlib.suppress(RunNotFound):
            await self._patiently(run.cancel)
        end = await self._end_of(run)
        if end != "run canceled":
            answers.append(end)
            return
        self.figures["cancellations"] += 1
        events = [event async for event in run.events() if event.type in FORK_POINTS]
        at = dice.choice(events).event_id
        fork = await self._patiently(lambda: self.stage.client.fork(run.id, at=at))
        answers.append(await self._end_of(fork))

    async def _end_of(self, run: Run | SessionTurn) -> str:
        try:
            async with asyncio.timeout(600):
                return (await self._patiently(run.result)).text
        except RunCanceled:
            return "run canceled"
        except RunFailed as error:
            return f"run failed: {error}"

    async def _patiently(self, request):
        while True:
            try:
                return await request()
            except (RunFailed, RunCanceled):
                raise
            except RunError as error:
                if type(error).__name__ not in ("NoWorker", "ServerUnavailable"):
                    raise
                await asyncio.sleep(0.5)


async def test_every_payment_is_made_once_or_its_outcome_is_unknown(stages, bank, capsys):
    """No payment is made twice; what is said to be paid is paid, and what is said to have failed is not."""
    url, ledger = bank
    stage = await stages()
    payments, began = Payments(stage, url), time.monotonic()
    numbers: asyncio.Queue[int] = asyncio.Queue()
    for number in range(CASES):
        numbers.put_nowait(number)
    await payments.open()
    disturbing = asyncio.create_task(payments.disturb())
    await asyncio.gather(*(payments.pay(numbers) for _ in range(AT_ONCE)))
    payments.is_over = True
    await disturbing
    paid = Counter(payment for payment, _ in read_ledger(ledger))
    figures, wrong = payments.figures, []
    for payment, answers in payments.answers.items():
        count = paid[payment]
        figures[f"paid {count} times"] += 1
        figures.update(answer.split(":")[0] for answer in answers)
        figures["failed, retried and paid"] += (
            len(answers) > 1 and answers[0].startswith("run failed") and answers[-1] == "paid"
        )
        said_paid = any(answer == "paid" for answer in answers)
        said_failed = bool(answers) and all(answer.startswith("failed") for answer in answers)
        most = payments.most.get(payment, 1)
        if count > most or (said_paid and not count) or (said_failed and count):
            wrong.append((payment, count, answers))
    with capsys.disabled():
        print(f"\n{json.dumps(figures)} in {time.monotonic() - began:.0f} s")
    assert wrong == []
    assert sum(paid.values()) - len(paid) <= sum(most - 1 for most in payments.most.values())
    assert len(payments.answers) == CASES
    assert figures["kills"]
