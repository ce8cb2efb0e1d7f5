"""NoticeDelivery: deliver one notice of a run, again and again until the app's function has taken it, for three days."""

from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from sojourn.contracts.notice import Notice
from sojourn.core.awaits.sent import Refused

from .unread import taken

__all__ = ["NoticeDelivery"]

ATTEMPT_LIMIT = timedelta(minutes=1)
"""Start-to-close time-out of one attempt."""

GIVES_UP = timedelta(days=3)
"""Time after which a notice that nobody has taken is given up."""

LONGEST_INTERVAL = timedelta(minutes=10)
"""Longest time between two attempts."""


@workflow.defn(name="NoticeDelivery")
class NoticeDelivery:
    """The delivery of one notice; its argument is a `Notice`."""

    @workflow.run
    async def run(self, *values: Any) -> None:
        """Deliver; the argument is read here, since anybody with a Temporal client may have written it."""
        await workflow.execute_activity(
            "DeliverNoticeActivity",
            _read(values),
            start_to_close_timeout=ATTEMPT_LIMIT,
            schedule_to_close_timeout=GIVES_UP,
            retry_policy=RetryPolicy(maximum_interval=LONGEST_INTERVAL),
        )


def _read(values: Any) -> Notice:
    given = taken("unread-notice", values)
    if isinstance(given, Refused) or len(given) != 1:
        raise _invalid(given.reason if isinstance(given, Refused) else f"not {len(given)} values")
    try:
        return Notice.model_validate(given[0])
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise _invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _invalid(fault: str) -> ApplicationError:
    return ApplicationError(
        f"NoticeDelivery takes one Notice: {fault}", type="InvalidInput", non_retryable=True
    )
