"""Ask the ledgers of tenants for places, in batches.

A worker has one exchange with a ledger in flight, and sends with the next one what came meanwhile: so fifty workers with a
thousand runs ask a workflow twenty times a second, not a thousand times. Workers also carry out what a ledger's reply
names: they call runs that got a place while they waited, and look at runs that should be at work.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import structlog
from temporalio import workflow
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts.quota import Admission, Ask, Exchange, ExchangeReply, PlaceRef, TenantQuota
from sojourn.contracts.run import IDLE
from sojourn.contracts.tenant_ids import ledger_id
from sojourn.contracts.wire_names import ADMIT, EXCHANGE, PLACE, TENANT_LEDGER
from sojourn.converter.codec import UnreadableError
from sojourn.search_attributes import AWAITING

__all__ = ["QuotaBroker", "Quotas", "ledger_queue"]

ANSWER = timedelta(seconds=10)
"""Longest wait for a ledger's reply."""

PATIENCE = 5.0
"""Seconds without a reply after which a run waits outside of its worker, so that it takes none of its activities."""

ASKS_AGAIN = timedelta(seconds=10)
"""When such a run asks again, at first: each time is recorded in its history."""

LONGEST_ASKS_AGAIN = timedelta(minutes=5)
"""When it asks again once a ledger has not answered for so long. This worker calls it as soon as the ledger does."""

MAX_PUT_OFF = 10_000
"""Most runs that a worker calls when a ledger answers again. Others ask by themselves."""

MAX_REFS = 1_000
"""Most places that one exchange gives back, and most called runs that it names."""

MAX_REQUESTS = 20
"""Most calls and checks in flight, for each tenant."""

LONGEST_BACKOFF = 10.0
FLUSH = 3.0
"""Seconds that a worker which stops waits for its last exchanges."""

_log = structlog.get_logger("sojourn.quota")


class Quotas(Protocol):
    """The quotas of tenants, as an app declares them."""

    def quota_of(self, tenant: str) -> TenantQuota | None:
        """Return the quota of a tenant, or None."""
        ...


def ledger_queue(scope: str) -> str:
    """Return the task queue of an app's ledgers.

    It is apart from that of its runs, so that no backlog delays an admission.
    """
    return f"sojourn-ledger-{scope}"


@dataclass
class _Asking:
    ask: Ask
    since: float
    futures: list[asyncio.Future[Admission]] = field(default_factory=list[asyncio.Future[Admission]])

    def settle(self, admission: Admission) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(admission)

    @property
    def is_wanted(self) -> bool:
        return any(not future.done() for future in self.futures)


class QuotaBroker:
    """Asks for places for the runs of one worker, and gives them back."""

    def __init__(self, client: Client, quotas: Quotas, scope: str) -> None:
        self._client = client
        self._quotas = quotas
        self._scope = scope
        self._name = f"{client.identity}/{uuid.uuid4().hex[:8]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._desks: dict[str, _Desk] = {}

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Send what is left to say, for some seconds."""
        await asyncio.gather(*(desk.close() for desk in self._desks.values()))

    def has_quota(self, tenant: str) -> bool:
        """Return whether something limits the tenant."""
        return self._quotas.quota_of(tenant) is not None

    async def ask(self, tenant: str, ask: Ask) -> Admission | None:
        """Ask for a place, or return None for a tenant without a quota."""
        if not self.has_quota(tenant):
            return None
        return await self._desk(tenant).ask(ask)

    def follow(self, run_id: str, run: Any) -> None:
        """Give places back as a run gives them up, while it is in memory.

        Nothing is recorded: a place that is not given back, since the worker is lost, is found by a check.
        """
        run.current.on_release = partial(self._note_release, run_id)

    def _note_release(self, run_id: str, tenant: str, place: int) -> None:
        # A run that is only dropped from memory keeps its place, and a replay repeats what was done before.
        if workflow.in_workflow() and not workflow.unsafe.is_replaying():
            self.release(tenant, run_id, place)

    def release(self, tenant: str, run_id: str, place: int) -> None:
        """Give a place back, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._release, tenant, PlaceRef(run_id=run_id, place=place))

    def _release(self, tenant: str, ref: PlaceRef) -> None:
        if self.has_quota(tenant):
            self._desk(tenant).release([ref])

    def _desk(self, tenant: str) -> "_Desk":
        desk = self._desks.get(tenant)
        if desk is None:
            ledger = _Ledger(self._client, ledger_id(self._scope, tenant), ledger_queue(self._scope))
            quota = partial(self._quotas.quota_of, tenant)
            desk = self._desks[tenant] = _Desk(self._client, ledger, self._name, quota)
        return desk


class _Desk:
    """The exchanges of one worker with one ledger."""

    def __init__(
        self, client: Client, ledger: "_Ledger", worker: str, quota: Callable[[], TenantQuota | None]
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._worker = worker
        self._quota = quota
        self._asking: dict[str, _Asking] = {}
        self._released: list[PlaceRef] = []
        self._called: list[PlaceRef] = []
        self._due = 0.0
        self._failures = 0
        self._failing_since = 0.0
        self._put_off: dict[str, PlaceRef] = {}
        """Runs that wait outside of the worker, since the ledger does not answer."""
        self._visit: asyncio.TimerHandle | None = None
        """The next exchange even with nothing to say: while runs wait, some worker has to look for places that were lost."""
        self._is_visiting = False
        self._serving: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._requests = asyncio.Semaphore(MAX_REQUESTS)

    async def ask(self, ask: Ask) -> Admission:
        known = self._asking.get(ask.run_id)
        if known is None or known.ask != ask:
            known = self._asking[ask.run_id] = _Asking(ask, time.monotonic())
        future: asyncio.Future[Admission] = asyncio.get_running_loop().create_future()
        known.futures.append(future)
        self._stir()
        return await future

    def release(self, refs: Iterable[PlaceRef]) -> None:
        self._released.extend(refs)
        self._stir()

    async def close(self) -> None:
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=FLUSH)
        if self._visit is not None:
            self._visit.cancel()
        for task in (*self._errands, *filter(None, (self._serving,))):
            task.cancel()

    def _stir(self) -> None:
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())

    def _go_by(self) -> None:
        self._is_visiting = True
        self._stir()

    async def _serve(self) -> None:
        while self._asking or self._put_off or self._released or self._called or self._is_visiting:
            await asyncio.sleep(max(self._due - time.monotonic(), 0))
            await self._exchange()

    async def _exchange(self) -> None:
        asking = {run_id: each for run_id, each in self._asking.items() if each.is_wanted}
        released, self._released = self._released[:MAX_REFS], self._released[MAX_REFS:]
        called, self._called = self._called[:MAX_REFS], self._called[MAX_REFS:]
        self._asking, self._is_visiting = {}, False
        quota = self._quota()
        if quota is None:  # the app has none any more
            self._carry_out(ExchangeReply(admissions=dict.fromkeys(asking, Admission())), asking)
            return
        request = Exchange(
            worker=self._worker,
            quota=quota.recorded(),
            asks=[each.ask for each in asking.values()],
            released=released,
            called=called,
        )
        try:
            reply = await self._ledger.exchange(request)
        # Whatever it is: otherwise the runs that ask would wait for ever. The SDK tells a cancellation as a time-out.
        except Exception as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error
            self._note_failure(error)
            self._ask_again(asking)
            self._released, self._called = [*released, *self._released], [*called, *self._called]
            return
        self._carry_out(reply, asking)

    def _note_failure(self, error: Exception) -> None:
        now = time.monotonic()
        self._failures += 1
        self._due = now + min(0.25 * 2 ** min(self._failures, 10), LONGEST_BACKOFF)
        if self._failures == 1:
            self._failing_since = now
            kind, reason = type(error).__name__, str(error)[:200]
            _log.warning("ledger_unavailable", ledger=self._ledger.id, error=kind, reason=reason)

    def _carry_out(self, reply: ExchangeReply, asking: dict[str, _Asking]) -> None:
        self._failures = 0
        self._due = time.monotonic() + reply.again_after.total_seconds()
        if self._visit is not None:
            self._visit.cancel()
        if reply.visit_after is not None:
            loop = asyncio.get_running_loop()
            self._visit = loop.call_later(reply.visit_after.total_seconds(), self._go_by)
        for run_id, each in asking.items():
            each.settle(reply.admissions.get(run_id) or Admission(admitted=False, retry_after=ASKS_AGAIN))
        put_off, self._put_off = self._put_off, {}
        for ref in [*reply.call, *put_off.values()]:
            self._send(self._call(ref))
        for ref in reply.check:
            self._send(self._check(ref))

    def _ask_again(self, asking: dict[str, _Asking]) -> None:
        now = time.monotonic()
        failing = timedelta(seconds=now - self._failing_since)
        retry = min(max(failing, ASKS_AGAIN), LONGEST_ASKS_AGAIN)
        for run_id, each in asking.items():
            newer = self._asking.setdefault(run_id, each)
            if now - each.since >= PATIENCE:
                each.settle(Admission(admitted=False, kind="unavailable", retry_after=retry))
                if len(self._put_off) < MAX_PUT_OFF:
                    self._put_off[run_id] = PlaceRef(run_id=run_id, place=each.ask.place)
            elif newer is not each:
                newer.futures.extend(each.futures)

    # What a reply asks for.

    def _send(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _call(self, ref: PlaceRef) -> None:
        async with self._requests:
            try:
                await self._client.get_workflow_handle(ref.run_id).signal(ADMIT, ref.place)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:  # it has ended, or was terminated while it waited
                    self.release([ref])
                return
        self._called.append(ref)
        self._stir()

    async def _check(self, ref: PlaceRef) -> None:
        async with self._requests:
            if await self._is_given_up(ref):
                self.release([ref])

    async def _is_given_up(self, ref: PlaceRef) -> bool:
        """Return whether the run is over, or has not this place, whose release was lost."""
        run = self._client.get_workflow_handle(ref.run_id)
        try:
            found = await run.describe()
            is_open = found.status == WorkflowExecutionStatus.RUNNING
            if not is_open or found.typed_search_attributes.get(AWAITING) == IDLE:
                return True
            # A query leaves nothing in the history. It fails for a run that no worker serves.
            return await run.query(PLACE, result_type=int, rpc_timeout=ANSWER) != ref.place
        except RPCError as error:
            return error.status == RPCStatusCode.NOT_FOUND
        except (TemporalError, UnreadableError):
            return False


class _Ledger:
    """One ledger, which begins with the first exchange."""

    def __init__(self, client: Client, id: str, task_queue: str) -> None:
        self.id = id
        self._client = client
        self._queue = task_queue

    async def exchange(self, request: Exchange) -> ExchangeReply:
        try:
            handle = self._client.get_workflow_handle(self.id)
            return await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]
                EXCHANGE, request, id=uuid.uuid4().hex, result_type=ExchangeReply, rpc_timeout=ANSWER
            )
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
        start = WithStartWorkflowOperation[Any, Any](
            TENANT_LEDGER,
            id=self.id,
            task_queue=self._queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary="the places of a tenant's runs",
        )
        try:
            return await self._client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
                EXCHANGE,
                request,
                start_workflow_operation=start,
                id=uuid.uuid4().hex,
                result_type=ExchangeReply,
                rpc_timeout=ANSWER,
            )
        except TemporalError:
            with contextlib.suppress(
                TemporalError
            ):  # it has the error too, which asyncio logs unless it is read
                await start.workflow_handle()
            raise
