"""StoreTranscriptActivity: the messages of an execution, before a long run goes on in the next one.

What is in external storage is not written to the next execution's history.
"""

from temporalio import activity

from sojourn.authoring.app import App
from sojourn.contracts.tasks import Stored, StoreTask
from sojourn.contracts.wire_names import STORE_TRANSCRIPT
from sojourn.segments import store_segment

from .heartbeat import beating
from .storage import storage_of
from .transcripts import ask
from .wrong_worker import pass_on

__all__ = ["StoreTranscriptActivity"]


class StoreTranscriptActivity:
    """Stores parts of transcripts in the storage of an app."""

    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=STORE_TRANSCRIPT)
    async def store_transcript(self, task: StoreTask) -> Stored:
        """Store messages, and return their claim, none on a worker without storage; and whether events are archived.

        Raises:
            ApplicationError: `WRONG_WORKER`, while another worker has the agent.
            Exception: The error of the storage.
        """
        info = activity.info()
        if self._app.agent(task.agent_id) is None:
            await pass_on(task.agent_id)
        storage = storage_of(self._app)
        if storage is None:
            return Stored()
        run_id = info.workflow_id or ""
        with beating(who={"agent_id": task.agent_id, "run_id": run_id}):
            messages = await ask((run_id, info.workflow_run_id or ""), task.after, task.until)
            claim = await store_segment(activity.client(), storage, run_id, messages)
        return Stored(claim=claim, archives=self._app.archive)
