"""The cache of runs, and the runs in memory: bounded, freed together.

All of the cache can be made again from the run's history, which takes some milliseconds. So an entry stays
while the run is in the memory of a worker of this process, and goes a minute after its last use otherwise.

Temporal bounds its cache by count, and one run may take a thousand times the memory of another. So the
worker checks periodically, and evicts the runs that have been idle for longest. An evicted run that
continues is rebuilt from its history.
"""

import asyncio
import contextlib
import gc
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import structlog
from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from sojourn.contracts.wire_names import AGENT_RUN

__all__ = ["LOOKED_AT_EVERY", "CachedRuns", "PresentRuns", "RunCache", "evict", "free_except"]

FREED_AFTER = 60.0
"""Seconds after its last use in which an absent run stays: it may be between two attempts."""

V = TypeVar("V")

_everything: "WeakSet[RunCache[Any]]" = WeakSet()


@dataclass(slots=True)
class _Slot(Generic[V]):
    value: V
    size: int
    used: float


class RunCache(Generic[V]):
    """A bounded, least-recently-used cache with one value for each run."""

    def __init__(self, max_runs: int, max_bytes: int) -> None:
        self._slots: OrderedDict[str, _Slot[V]] = OrderedDict()
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self.bytes = 0
        _everything.add(self)

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, run_id: str) -> V | None:
        """Return the value of a run, or None, and mark the run as used now."""
        slot = self._slots.get(run_id)
        if slot is None:
            return None
        slot.used = time.monotonic()
        self._slots.move_to_end(run_id)
        return slot.value

    def keep(self, run_id: str, value: V, size: int) -> None:
        """Cache a run's value of `size` bytes, unless it is too large alone."""
        self.drop(run_id)
        if size > self._max_bytes:
            return
        self._slots[run_id] = _Slot(value, size, time.monotonic())
        self.bytes += size
        while len(self._slots) > self._max_runs or self.bytes > self._max_bytes:
            self.drop(next(iter(self._slots)))

    def drop(self, run_id: str) -> None:
        slot = self._slots.pop(run_id, None)
        if slot:
            self.bytes -= slot.size

    def let_go(self, present: Collection[str]) -> None:
        """Remove the entries of runs that neither are present nor were used in a minute."""
        now = time.monotonic()
        for run_id, slot in list(self._slots.items()):
            if run_id in present:
                slot.used = now
            elif now - slot.used > FREED_AFTER:
                self.drop(run_id)


def free_except(present: Collection[str]) -> None:
    """Free the cache entries of runs that are in no worker's memory."""
    for kept in list(_everything):
        kept.let_go(present)


LOOKED_AT_EVERY = 5.0


class PresentRuns(Interceptor):
    """The agent runs in a worker's memory, without a user's own workflows."""

    def __init__(self, follow: Callable[[str, Any], object] | None = None) -> None:
        self._runs: dict[str, tuple[str, weakref.ref[Any]]] = {}
        """Workflow id and workflow, by execution id, changed in Temporal's threads."""
        self._follow = follow
        """Called with the id and the workflow of a run before it begins, or is rebuilt."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002 - Temporal's signature
    ) -> type[WorkflowInboundInterceptor]:
        """Register a run while it is in memory: an evicted run is cancelled first."""
        runs, follow = self._runs, self._follow

        class Noted(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                info = workflow.info()
                if info.workflow_type != AGENT_RUN:
                    return await super().execute_workflow(input)
                runs[info.run_id] = info.workflow_id, weakref.ref(workflow.instance())
                if follow:
                    follow(info.workflow_id, workflow.instance())
                try:
                    return await super().execute_workflow(input)
                finally:
                    runs.pop(info.run_id, None)

        return Noted

    @property
    def workflows(self) -> dict[str, Any]:
        known = [(execution, run()) for execution, (_, run) in self._runs.copy().items()]
        return {execution: run for execution, run in known if run is not None}

    @property
    def run_ids(self) -> set[str]:
        return {run_id for run_id, _ in self._runs.copy().values()}

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Remove the cache entries of absent runs, periodically while the body runs."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOKED_AT_EVERY)
            free_except(self.run_ids)


_log = structlog.get_logger("sojourn.worker")


def evict(worker: Worker, run_id: str) -> None:
    """Request that an execution be evicted from the worker's memory.

    Temporal has no public way. This one is private to its worker.
    """
    worker._bridge_worker.request_workflow_eviction(run_id)  # noqa: SLF001


class CachedRuns:
    """The runs in a worker's memory, by their bytes (`memory_bytes`)."""

    def __init__(self, runs: PresentRuns, max_bytes: int) -> None:
        self._runs = runs
        self._max_bytes = max_bytes
        self._seen: dict[str, int] = {}
        """Size of each run at the last check, those idle for longest first."""
        self._left: list[tuple[weakref.ref[Any], int]] = []

    @property
    def total_bytes(self) -> int:
        return sum(run.memory_bytes for run in self._runs.workflows.values())

    def look(self, worker: Worker) -> None:
        """Request the eviction of surplus runs.

        Runs that are new or have changed since the last check stay. So a run that exceeds the limit alone
        is not rebuilt and evicted again while it works.
        """
        present = self._runs.workflows
        held = {run_id: run.memory_bytes for run_id, run in present.items()}
        still = [run_id for run_id, before in self._seen.items() if held.get(run_id) == before]
        self._seen = {run_id: held[run_id] for run_id in still} | held
        surplus = sum(held.values()) - self._max_bytes
        for run_id in still:
            if surplus <= 0:
                break
            evict(worker, run_id)
            surplus -= held[run_id]
            self._left.append((weakref.ref(present[run_id]), self._seen.pop(run_id)))

    def free(self) -> None:
        """Free evicted runs by a garbage collection.

        They are in cycles, and Python rarely collects its oldest generation. A run that is still referenced
        then counts half at the next check, so that objects that something else keeps alive do not cause a
        collection each time.
        """
        self._left = [(run, held) for run, held in self._left if run() is not None]
        if sum(held for _, held in self._left) > self._max_bytes // 4:
            gc.collect()
            self._left = [(run, held // 2) for run, held in self._left if run() is not None]

    @contextlib.asynccontextmanager
    async def watching(self, worker: Worker) -> AsyncGenerator[None]:
        task = asyncio.create_task(self._watch(worker))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self, worker: Worker) -> None:
        while True:
            await asyncio.sleep(LOOKED_AT_EVERY)
            self.free()
            try:
                self.look(worker)
            except AttributeError as error:  # the SDK has changed
                _log.warning("cache_bounded_by_count_only", reason=str(error))
                return
