"""What one tenant's ledger bears: `python -m bench.ledger --workers 50 --waiting 1000`.

Each of the workers has exchanges as a real one has, paced by the ledger, about runs that are only numbers here: they ask, wait until they
are called, work for a moment, and give their place back. So only the ledger, its worker and the server are measured.
"""

import argparse
import asyncio
import itertools
import json
import time
import uuid
from statistics import quantiles

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sojourn import TenantQuota, data_converter
from sojourn.contracts.quota import Ask, Exchange, ExchangeReply, PlaceRef
from sojourn.contracts.tenant_ids import ledger_id
from sojourn.contracts.wire_names import EXCHANGE, TENANT_LEDGER
from sojourn.server import Server
from workflows.tenant_ledger import TenantLedger

QUEUE = "ledgers"


class Fleet:
    """Workers whose runs are numbers."""

    def __init__(self, client: Client, quota: TenantQuota, work: float) -> None:
        self.client, self.quota, self.work = client, quota, work
        self.id = ledger_id("bench", uuid.uuid4().hex)
        self.asked: dict[str, float] = {}
        self.waits: list[float] = []
        self.exchanges: list[float] = []
        self.working, self.most, self.area, self.seen = 0, 0, 0.0, time.monotonic()
        self.called: asyncio.Queue[PlaceRef] = asyncio.Queue()

    def count(self, change: int) -> None:
        """Note that so many more runs work."""
        now = time.monotonic()
        self.area, self.seen = self.area + self.working * (now - self.seen), now
        self.working += change
        self.most = max(self.most, self.working)

    async def exchange(self, request: Exchange) -> ExchangeReply:
        """One exchange, and how long it took."""
        began, handle = time.monotonic(), self.client.get_workflow_handle(self.id)
        reply = await handle.execute_update(EXCHANGE, request, result_type=ExchangeReply)  # pyright: ignore[reportUnknownMemberType]
        self.exchanges.append(time.monotonic() - began)
        return reply

    async def serve(self, number: int, runs: int, until: float) -> None:
        """One worker with so many runs at a time, each of which another one follows."""
        names, ending = (f"w{number}-{run}" for run in itertools.count(1)), list[tuple[float, PlaceRef]]()
        asks, released, called = list[Ask](), list[PlaceRef](), list[PlaceRef]()

        def start() -> None:
            asks.append(Ask(run_id=next(names), place=1, starts=True))
            self.asked[asks[-1].run_id] = time.monotonic()

        for _ in range(runs):
            start()
        while time.monotonic() < until:
            now = time.monotonic()
            for due, ref in [each for each in ending if each[0] <= now]:
                ending.remove((due, ref))
                self.count(-1)
                released.append(ref)
                start()
            request = Exchange(
                worker=f"w{number}",
                quota=self.quota.recorded(),
                asks=asks,
                released=released,
                called=called,
            )
            asks, released, called = list[Ask](), list[PlaceRef](), list[PlaceRef]()
            if not (request.asks or request.released or request.called):
                await asyncio.sleep(0.02)
                continue
            reply = await self.exchange(request)
            for run_id, admission in reply.admissions.items():
                if admission.admitted:
                    self.waits.append(time.monotonic() - self.asked.pop(run_id))
                    self.count(1)
                    ending.append((time.monotonic() + self.work, PlaceRef(run_id=run_id, place=1)))
            for ref in reply.call:  # the run asks its own worker again, which any worker may be
                called.append(ref)
                asks.append(Ask(run_id=ref.run_id, place=1, starts=True))
            await asyncio.sleep(reply.again_after.total_seconds())


async def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--waiting", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=100, help="the tenant's quota")
    parser.add_argument("--work", type=float, default=10.0, help="seconds that a run works")
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    async with Server(port=0, ui=False, attach=False) as server:
        client = await Client.connect(server.address, data_converter=data_converter)
        fleet = Fleet(client, TenantQuota(runs=given.runs, max_waiting=5_000), given.work)
        async with Worker(
            client, task_queue=QUEUE, workflows=[TenantLedger], workflow_runner=UnsandboxedWorkflowRunner()
        ):
            await client.start_workflow(TENANT_LEDGER, id=fleet.id, task_queue=QUEUE)
            began, each = time.monotonic(), (given.waiting + given.runs) // given.workers
            work = (fleet.serve(k, each, began + given.seconds) for k in range(given.workers))
            await asyncio.gather(*work)
        fleet.count(0)
        took = time.monotonic() - began
        cuts = quantiles(fleet.exchanges, n=20)
        print(
            json.dumps(
                {
                    "workers": given.workers,
                    "exchanges_per_second": round(len(fleet.exchanges) / took, 1),
                    "exchange_p50_ms": round(1_000 * cuts[9]),
                    "exchange_p95_ms": round(1_000 * cuts[18]),
                    "admitted": len(fleet.waits),
                    "most_at_work": fleet.most,
                    "mean_at_work": round(fleet.area / took, 1),
                    "quota": given.runs,
                }
            )
        )


if __name__ == "__main__":
    asyncio.run(main())
