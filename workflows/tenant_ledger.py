"""Record which runs of one tenant have a place.

It starts nothing and has no timer. All that follows from its state is in its replies, and workers carry it out. So it has
five events an exchange, and a worker that replays it needs nothing else.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from sojourn.contracts.quota import LEDGER_VERSION, Exchange, ExchangeReply, LedgerRecord, QuotaUse
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
        self._fault: Exception | None = None
        """Why the record cannot be read. An error here would leave the SDK with a coroutine that it never awaits."""
        self._ledger = Ledger(LedgerRecord())
        try:
            _check_form(values)
            if values:
                self._ledger = Ledger(_read(LedgerRecord, values))
        except (ApplicationError, RuntimeError) as error:
            self._fault = error

    @workflow.run
    async def run(self, *_values: Any) -> None:
        """Continue as new, again and again.

        Raises:
            ApplicationError: The argument is no record.
            RuntimeError: The record is of a newer form.
        """
        if self._fault is not None:
            raise self._fault
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
        # A workflow's time stands still between two exchanges, and a query is never replayed.
        with workflow.unsafe.sandbox_unrestricted():
            return self._ledger.use(datetime.now(UTC))


def _check_form(values: Sequence[Any]) -> None:
    """Raise for a record of a form that only newer workers know.

    It is no failure, so it fails the task and not the workflow, and a newer worker takes the task.
    """
    record = values[0] if values else None
    form = cast("Mapping[str, Any]", record).get("v") if isinstance(record, Mapping) else None
    if isinstance(form, int) and form > LEDGER_VERSION:
        raise RuntimeError(f"the ledger has the form {form}, and this worker knows {LEDGER_VERSION}")


def _read(record: type[R], values: Sequence[Any]) -> R:
    try:
        return record.model_validate(*values)
    except (TypeError, ValidationError) as error:
        raise ApplicationError(
            f"it takes one {record.__name__}", type="InvalidInput", non_retryable=True
        ) from error
