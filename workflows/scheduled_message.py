"""ScheduledMessage: one time that a schedule acts for a conversation: the message is sent until it is accepted."""

from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from sojourn.contracts.schedule import ScheduledMessage
from sojourn.core.awaits.sent import Refused

from .unread import taken

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
            _read(values),
            result_type=str,
            start_to_close_timeout=ATTEMPT_LIMIT,
            schedule_to_close_timeout=GIVES_UP,
            retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1)),
        )
        return run_id


def _read(values: Any) -> ScheduledMessage:
    given = taken("unread-message", values)
    if isinstance(given, Refused) or len(given) != 1:
        raise _invalid(given.reason if isinstance(given, Refused) else f"not {len(given)} values")
    try:
        return ScheduledMessage.model_validate(given[0])
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise _invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _invalid(fault: str) -> ApplicationError:
    return ApplicationError(
        f"ScheduledMessage takes one ScheduledMessage: {fault}", type="InvalidInput", non_retryable=True
    )
