"""SendMessageActivity: a schedule's message is sent to a conversation, which it starts where there is none."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.client.access import Access
from sojourn.client.session import Session
from sojourn.contracts.run import ScheduledMessage
from sojourn.errors import AwaitClosed, InvalidInput, RunNotFound

from .heartbeat import beating

__all__ = ["SendMessageActivity"]


class SendMessageActivity:
    """Sends messages as a client of the worker's own server."""

    @activity.defn(name="SendMessageActivity")
    async def send_message(self, task: ScheduledMessage) -> str:
        """Send the message, whose id is that of the workflow; return the run of the conversation.

        Raises:
            ApplicationError: `AwaitClosed`, where the conversation has ended; `InvalidInput`, where the message cannot be sent;
                `RunNotFound`, where the principal may not see the conversation.
            SojournError: It may be sent later: 100 messages wait, or no worker accepted it.
        """
        info = activity.info()
        access = Access(activity.client(), task_queue=info.task_queue)
        try:
            session = Session(
                access,
                task.agent_id,
                task.session_id,
                labels=task.labels,
                policy=task.policy,
                principal=task.principal,
            )
            with beating(who={"agent_id": task.agent_id, "run_id": session.run.id}):
                await session.send(task.message, message_id=info.workflow_id, by=task.by)
        except (AwaitClosed, InvalidInput, RunNotFound) as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from None
        finally:
            await access.close()
        return session.run.id
