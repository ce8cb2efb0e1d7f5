"""Activities that deliver a notice or a scheduled message, and one that yields."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.client.access import Access
from sojourn.client.session import Session
from sojourn.contracts.run import Notice, ScheduledMessage
from sojourn.contracts.wire_names import DELIVER_NOTICE, YIELD
from sojourn.core.run.scheduled_time import fill_message
from sojourn.errors import AwaitClosed, InvalidInput, RunNotFound
from sojourn.serving.hardening.attempt import still_wanted

from .heartbeat import check_worker, send_heartbeats
from .transcripts import storage_of

__all__ = ["DeliverNoticeActivity", "SendMessageActivity", "yield_once"]


class DeliverNoticeActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=DELIVER_NOTICE)
    async def deliver_notice(self, notice: Notice) -> None:
        """Call the function for notices of this kind.

        If the app no longer has such a function, the notice is dropped.
        """
        if self._app.agent(notice.agent_id) is None:
            await check_worker(notice.agent_id)
        tell = self._app.notices.get(notice.kind)
        if tell is not None:
            with send_heartbeats(who={"agent_id": notice.agent_id, "run_id": notice.run_id}):
                await still_wanted()
                await tell(notice)


class SendMessageActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name="SendMessageActivity")
    async def send_message(self, task: ScheduledMessage) -> str:
        """Send the message, and return the run of the conversation.

        The message has the id of this workflow.
        """
        info = activity.info()
        access = Access(
            activity.client(),
            task_queue=info.task_queue,
            storage=storage_of(self._app),
            attachment_limits=self._app.attachment_limits,
        )
        try:
            session = Session(
                access,
                task.agent_id,
                task.session_id,
                labels=task.labels,
                policy=task.policy,
                principal=task.principal,
            )
            with send_heartbeats(who={"agent_id": task.agent_id, "run_id": session.run.id}):
                message = task.message
                if task.time_zone is not None:
                    message = fill_message(message, task.time_zone, info.workflow_id or "")
                await session.send(message, message_id=info.workflow_id, by=task.by)
        except (AwaitClosed, InvalidInput, RunNotFound) as error:
            name = AwaitClosed.__name__ if isinstance(error, AwaitClosed) else type(error).__name__
            raise ApplicationError(str(error), type=name, non_retryable=True) from None
        finally:
            await access.close()
        return session.run.id


@activity.defn(name=YIELD)
async def yield_once() -> None:
    """Return at once."""
