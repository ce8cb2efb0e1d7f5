"""Read the state of a conversation at an earlier point.

It is the state with which a fork at that point would begin.
"""

from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.client.forking import ForkRequest, fork_of
from sojourn.contracts.tasks import BranchTask
from sojourn.contracts.wire_names import READ_BRANCH
from sojourn.errors import InvalidInput, RunUnreadable

from .heartbeat import check_worker, send_heartbeats
from .transcripts import storage_of

__all__ = ["ReadBranchActivity"]


class ReadBranchActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=READ_BRANCH)
    async def read_branch(self, task: BranchTask) -> dict[str, Any]:
        """Return the beginning of a fork at the point, as `write_continuation` writes it.

        Raises:
            ApplicationError: The run has no such point, or it cannot be read.
        """
        if self._app.agent(task.agent_id) is None:
            await check_worker(task.agent_id)
        info, client, storage = activity.info(), activity.client(), storage_of(self._app)
        run_id = info.workflow_id or ""
        with send_heartbeats(who={"agent_id": task.agent_id, "run_id": run_id}):
            try:
                asked = ForkRequest(run_id, task.at, is_branch=True)
                fork = await fork_of(client, asked, storage=storage, app=self._app)
                argument = (await fork.fitting(client, storage, run_id)).argument()
            except (InvalidInput, RunUnreadable) as error:
                raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
        assert argument is not None  # it fits
        return argument
