"""CachedRuns: the runs in a worker's memory, bounded in bytes.

Temporal bounds its cache by count, and one run may take a thousand times the memory of another. So the worker
checks periodically, and evicts the runs that have been idle for longest; an evicted run that continues is
rebuilt from its history.
"""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import structlog
from temporalio.worker import Worker

from sojourn.serving.present_runs import PresentRuns

__all__ = ["LOOKED_AT_EVERY", "CachedRuns", "evict"]

LOOKED_AT_EVERY = 5.0
"""Seconds between two checks."""

_log = structlog.get_logger("sojourn.worker")


def evict(worker: Worker, run_id: str) -> None:
    """Request that an execution be evicted from the worker's memory; ignored for one that is not there.

    Temporal has no public way; this one is private to its worker.
    """
    worker._bridge_worker.request_workflow_eviction(run_id)  # noqa: SLF001


class CachedRuns:
    """The runs in a worker's memory; the workflow's `held` is the number of bytes that a run takes.

    Args:
        runs: The runs.
        max_bytes: Most bytes of all runs together.
    """

    def __init__(self, runs: PresentRuns, max_bytes: int) -> None:
        self._runs = runs
        self._max_bytes = max_bytes
        self._seen: dict[str, int] = {}
        """Size of each run at the last check, those idle for longest first."""
        self._left: list[tuple[weakref.ref[Any], int]] = []
        """The runs whose eviction was requested, with their sizes."""

    @property
    def held(self) -> int:
        """Size of all runs together, in bytes."""
        return sum(run.held for run in self._runs.workflows.values())

    def look(self, worker: Worker) -> None:
        """Request the eviction of surplus runs, except of those that are new or have changed since the last check.

        So a run that exceeds the limit alone is not rebuilt and evicted again while it works.
        """
        present = self._runs.workflows
        held = {run_id: run.held for run_id, run in present.items()}
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
        """Free evicted runs by a garbage collection: they are in cycles, and Python rarely collects its oldest generation.

        What is still referenced then, as by the thread that evicts it, counts half at the next check, so that
        objects that something else keeps alive do not cause a collection each time.
        """
        self._left = [(run, held) for run, held in self._left if run() is not None]
        if sum(held for _, held in self._left) > self._max_bytes // 4:
            gc.collect()
            self._left = [(run, held // 2) for run, held in self._left if run() is not None]

    @contextlib.asynccontextmanager
    async def watching(self, worker: Worker) -> AsyncGenerator[None]:
        """Check periodically while the body runs."""
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
