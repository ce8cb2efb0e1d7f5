"""NoticeDelivery: deliver one notice of a run, again and again until the app's function has taken it, for three days."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from sojourn.contracts.dispatch import HEARTBEAT
from sojourn.contracts.run import Notice
from sojourn.contracts.wire_names import DELIVER_NOTICE, NOTICE_DELIVERY

from .unread import read_one

__all__ = ["NoticeDelivery"]

ATTEMPT_LIMIT = timedelta(minutes=1)
"""Start-to-close time-out of one attempt."""

GIVES_UP = timedelta(days=3)
"""Time after which a notice that nobody has taken is given up."""

LONGEST_INTERVAL = timedelta(minutes=10)
"""Longest time between two attempts."""


@workflow.defn(name=NOTICE_DELIVERY)
class NoticeDelivery:
    """The delivery of one notice; its argument is a `Notice`."""

    @workflow.run
    async def run(self, *values: Any) -> None:
        """Deliver; the argument is read here, since anybody with a Temporal client may have written it."""
        await workflow.execute_activity(
            DELIVER_NOTICE,
            read_one(Notice, "unread-notice", values),
            start_to_close_timeout=ATTEMPT_LIMIT,
            heartbeat_timeout=HEARTBEAT,
            schedule_to_close_timeout=GIVES_UP,
            retry_policy=RetryPolicy(maximum_interval=LONGEST_INTERVAL),
        )
