"""CachedRuns: what the runs in a worker's memory hold, bounded in bytes.

Temporal bounds its cache by count, and one run may hold a thousand times what another does. So the worker looks now
and then, and lets those go that have not moved for longest; one that goes on is brought back from its history.
"""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import structlog
from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

__all__ = ["LOOKED_AT_EVERY", "CachedRuns", "evict"]

LOOKED_AT_EVERY = 5.0
"""Seconds between two looks."""

_log = structlog.get_logger("sojourn.worker")


def evict(worker: Worker, run_id: str) -> None:
    """Ask that an execution leaves the worker's memory; nothing comes of it for one that is not there.

    Temporal has no public way: this one is its worker's own, and private.
    """
    worker._bridge_worker.request_workflow_eviction(run_id)  # noqa: SLF001


class CachedRuns(Interceptor):
    """The runs in a worker's memory; each tells by `held` how many bytes it takes.

    Args:
        max_bytes: What they may take together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._runs: dict[str, weakref.ref[Any]] = {}
        """By execution; they come and go in Temporal's threads."""
        self._seen: dict[str, int] = {}
        """What each took at the last look; those that have not moved for longest come first."""
        self._left: list[tuple[weakref.ref[Any], int]] = []
        """Those that were asked to leave."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002 - Temporal's signature
    ) -> type[WorkflowInboundInterceptor]:
        """Note a run for as long as it is in memory: one that is evicted is cancelled first."""
        runs = self._runs

        class Noted(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                run_id = workflow.info().run_id
                runs[run_id] = weakref.ref(workflow.instance())
                try:
                    return await super().execute_workflow(input)
                finally:
                    runs.pop(run_id, None)

        return Noted

    @property
    def held(self) -> int:
        """Bytes that the runs take together."""
        return sum(run.held for run in self._present().values())

    def look(self, worker: Worker) -> None:
        """Ask those to leave that are too many, but none that has come or moved since the last look.

        So one that takes more than there is room for is not brought back and let go again while it works.
        """
        present = self._present()
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
        """Free what has left: it is in cycles, and Python looks for those too seldom among what is old.

        What is still held then, as by the thread that lets it go, counts for half at the next look, so that what
        something else keeps is not looked for again and again.
        """
        self._left = [(run, held) for run, held in self._left if run() is not None]
        if sum(held for _, held in self._left) > self._max_bytes // 4:
            gc.collect()
            self._left = [(run, held // 2) for run, held in self._left if run() is not None]

    @contextlib.asynccontextmanager
    async def watching(self, worker: Worker) -> AsyncGenerator[None]:
        """Look now and then meanwhile."""
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

    def _present(self) -> dict[str, Any]:
        known = [(run_id, run()) for run_id, run in self._runs.copy().items()]
        return {run_id: run for run_id, run in known if run is not None}
