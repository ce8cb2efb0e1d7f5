"""ScheduledMessage: one time that a schedule acts for a conversation: the message is sent until it is accepted."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from sojourn.contracts.dispatch import HEARTBEAT
from sojourn.contracts.run import ScheduledMessage

from .unread import read_one

__all__ = ["ScheduledMessageRun"]

ATTEMPT_LIMIT = timedelta(minutes=2)
"""Start-to-close time-out of one attempt."""

GIVES_UP = timedelta(days=1)
"""Time after which a message that the conversation has no room for is given up."""


@workflow.defn(name="ScheduledMessage")
class ScheduledMessageRun:
    """The sending of one message; its workflow id is the message's id, so that the message is delivered once."""

    @workflow.run
    async def run(self, *values: Any) -> str:
        """Send; returns the run of the conversation. The argument is read here, since anybody with a Temporal client may have written it."""
        run_id: str = await workflow.execute_activity(
            "SendMessageActivity",
            read_one(ScheduledMessage, "unread-message", values),
            result_type=str,
            start_to_close_timeout=ATTEMPT_LIMIT,
            heartbeat_timeout=HEARTBEAT,
            schedule_to_close_timeout=GIVES_UP,
            retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1)),
        )
        return run_id
