"""PresentRuns: the runs that a worker has in memory; what the process keeps of others, it lets go."""

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator
from typing import Any

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.serving.kept import let_go

__all__ = ["LOOKED_AT_EVERY", "PresentRuns"]

LOOKED_AT_EVERY = 5.0
"""Seconds between two checks."""


class PresentRuns(Interceptor):
    """The agent runs in a worker's memory; a user's own workflows are not looked at."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[str, weakref.ref[Any]]] = {}
        """Workflow id and workflow, by execution id; they are added and removed in Temporal's threads."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002 - Temporal's signature
    ) -> type[WorkflowInboundInterceptor]:
        """Register a run while it is in memory: an evicted run is cancelled first."""
        runs = self._runs

        class Noted(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                info = workflow.info()
                if info.workflow_type != AGENT_RUN:
                    return await super().execute_workflow(input)
                runs[info.run_id] = info.workflow_id, weakref.ref(workflow.instance())
                try:
                    return await super().execute_workflow(input)
                finally:
                    runs.pop(info.run_id, None)

        return Noted

    @property
    def workflows(self) -> dict[str, Any]:
        """The workflows in memory, by execution id."""
        known = [(execution, run()) for execution, (_, run) in self._runs.copy().items()]
        return {execution: run for execution, run in known if run is not None}

    @property
    def run_ids(self) -> set[str]:
        """The ids of the runs in memory."""
        return {run_id for run_id, _ in self._runs.copy().values()}

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Let go of what is kept of other runs, periodically while the body runs."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOKED_AT_EVERY)
            let_go(self.run_ids)
