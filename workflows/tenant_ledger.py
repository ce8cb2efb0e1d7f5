"""Record which runs of one tenant have a place.

It starts nothing and has no timer. All that follows from its state is in its replies, and workers carry it out. So it has
five events an exchange, and a worker that replays it needs nothing else.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from sojourn.contracts.quota import Exchange, ExchangeReply, LedgerRecord, QuotaUse
from sojourn.contracts.wire_names import EXCHANGE, QUOTA_USE, TENANT_LEDGER
from sojourn.core.quota.ledger import Ledger

__all__ = ["TenantLedger"]

MAX_EVENTS = 3_000
"""Length of a history after which the ledger continues as new."""

R = TypeVar("R", bound=BaseModel)


@workflow.defn(name=TENANT_LEDGER)
class TenantLedger:
    """The ledger of a tenant. Its argument is a `LedgerRecord`, or nothing."""

    @workflow.init
    def __init__(self, *values: Any) -> None:
        self._ledger = Ledger(_read(LedgerRecord, values) if values else LedgerRecord())

    @workflow.run
    async def run(self, *_values: Any) -> None:
        """Continue as new, again and again."""
        await workflow.wait_condition(
            lambda: (
                workflow.info().get_current_history_length() > MAX_EVENTS and workflow.all_handlers_finished()
            )
        )
        workflow.continue_as_new(self._ledger.record())

    @workflow.update(name=EXCHANGE, description="Take what a worker tells, and answer what it asks.")
    def exchange(self, *values: Any) -> ExchangeReply:
        """Take an `Exchange`.

        It is read here, since anyone with a Temporal client may have written it.
        """
        return self._ledger.exchange(_read(Exchange, values), workflow.now())

    @workflow.query(name=QUOTA_USE, description="How much of its quota the tenant uses.")
    def use(self, *_values: Any) -> QuotaUse:
        return self._ledger.use(workflow.now())


def _read(record: type[R], values: Sequence[Any]) -> R:
    try:
        return record.model_validate(*values)
    except (TypeError, ValidationError) as error:
        raise ApplicationError(
            f"it takes one {record.__name__}", type="InvalidInput", non_retryable=True
        ) from error
