"""One worker for workflows and one for activities, each of which can stand still.

What comes meanwhile reaches a run in one workflow task.
"""

import asyncio
from typing import Any

from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sojourn import App, Client
from sojourn.worker import shell

__all__ = ["SeparateWorkers"]


class SeparateWorkers:
    def __init__(self, client: Client, app: App) -> None:
        self.client, self._parts = client, shell(app)
        self._tasks: dict[str, tuple[Worker, asyncio.Task[None]]] = {}

    async def start(self, *names: str) -> None:
        """Start `workflows` or `activities`."""
        for name in names:
            options: dict[str, Any] = (
                {"workflows": self._parts.workflows, "workflow_runner": UnsandboxedWorkflowRunner()}
                if name == "workflows"
                else {"activities": self._parts.activities}
            )
            worker = Worker(self.client.temporal, task_queue=self.client.task_queue, **options)
            self._tasks[name] = worker, asyncio.create_task(worker.run())

    async def stop(self, *names: str) -> None:
        for name in names:
            worker, task = self._tasks.pop(name)
            await worker.shutdown()
            await task

    async def stop_all(self) -> None:
        await self.stop(*self._tasks)
