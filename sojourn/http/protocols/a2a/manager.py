"""Manager: the methods of A2A, as `fasta2a` has them but for a subscription, which goes on after a question of the task."""

from collections.abc import AsyncIterator
from typing import cast

from fasta2a.schema import ResubscribeTaskRequest, StreamMessageResponse, StreamResponse
from fasta2a.task_manager import TaskManager

from sojourn.errors import RunNotFound
from sojourn.http.protocols.a2a.broker import Watched

__all__ = ["RunTaskManager"]


class RunTaskManager(TaskManager):
    """The tasks of one agent."""

    async def resubscribe_task(self, request: ResubscribeTaskRequest) -> AsyncIterator[bytes]:
        """The task as it is, and what becomes of it until it has ended (A2A 1.0, section 3.1.6).

        Raises:
            RunNotFound: There is no such task.
        """
        task_id = request["params"]["id"]
        task = await self.storage.load_task(task_id)
        if task is None:
            raise RunNotFound(f"there is no task {task_id[:80]!r}")
        first = StreamResponse(task=task)
        yield self._format_sse_event(StreamMessageResponse(jsonrpc="2.0", id=request["id"], result=first))
        bus = cast("Watched", self.broker.event_bus)
        async with bus.subscribe(task_id, to_end=True) as updates:
            async for update in updates:
                told = StreamMessageResponse(jsonrpc="2.0", id=request["id"], result=update)
                yield self._format_sse_event(told)
