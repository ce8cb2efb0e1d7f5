"""Activities that store a transcript, and the events of earlier executions."""

from temporalio import activity
from temporalio.client import Client
from temporalio.converter import StorageDriver

from sojourn.archive import load_part, store_part, store_segment
from sojourn.authoring.app import App
from sojourn.contracts.event import Event
from sojourn.contracts.tasks import Archived, ArchiveTask, Stored, StoreTask
from sojourn.contracts.wire_names import ARCHIVE_EVENTS, STORE_TRANSCRIPT
from sojourn.core.history.fold import Fold
from sojourn.events.one_run import executions_before, records_of

from .heartbeat import check_worker, send_heartbeats
from .transcripts import fetch_messages, storage_of

__all__ = ["ArchiveEventsActivity", "StoreTranscriptActivity"]


class ArchiveEventsActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=ARCHIVE_EVENTS)
    async def archive_events(self, task: ArchiveTask) -> Archived:
        """Store the events of earlier executions, and return their claim.

        A worker without storage returns the claim it was given.
        """
        info = activity.info()
        storage = await _storage_for(self._app, task.agent_id)
        if storage is None:
            return Archived(claim=task.claim, until=task.after)
        run_id, execution = info.workflow_id or "", info.workflow_run_id or ""
        with send_heartbeats(who={"agent_id": task.agent_id, "run_id": run_id}):
            return await _archive(activity.client(), storage, run_id, execution, task)


async def _storage_for(app: App, agent_id: str) -> StorageDriver | None:
    if app.agent(agent_id) is None:
        await check_worker(agent_id)
    return storage_of(app)


async def _archive(
    client: Client, storage: StorageDriver, run_id: str, execution: str, task: ArchiveTask
) -> Archived:
    earlier = await executions_before(client, run_id, execution, task.until - task.after)
    if not earlier:
        return Archived(claim=task.claim, until=task.after)
    last = await load_part(client, storage, run_id, task.claim) if task.claim else None
    fold, events, left = Fold(run_id, chain=last.chain if last else None), list[Event](), len(earlier)
    async for record, made in records_of(client, fold, earlier[-1], follow=False):
        events += made
        left -= record.kind == "continued"
        if not left:
            break
    claim = await store_part(client, storage, run_id, events, chain=fold.chain, before=task.claim)
    return Archived(claim=claim, until=task.until)


class StoreTranscriptActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=STORE_TRANSCRIPT)
    async def store_transcript(self, task: StoreTask) -> Stored:
        """Store messages, and return their claim and whether events are archived.

        A worker without storage returns no claim.
        """
        info = activity.info()
        storage = await _storage_for(self._app, task.agent_id)
        if storage is None:
            return Stored()
        run_id = info.workflow_id or ""
        with send_heartbeats(who={"agent_id": task.agent_id, "run_id": run_id}):
            messages = await fetch_messages((run_id, info.workflow_run_id or ""), task.after, task.until)
            claim = await store_segment(activity.client(), storage, run_id, messages)
        return Stored(claim=claim, archives=self._app.archive)
