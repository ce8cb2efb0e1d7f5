"""How much of its quota a tenant uses, as its ledger says."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translate_error
from sojourn.connection.settings import DEFAULT_TASK_QUEUE
from sojourn.contracts.quota import QuotaUse, TenantQuota, quota_reached
from sojourn.contracts.tenant_ids import ledger_id
from sojourn.contracts.wire_names import QUOTA_USE
from sojourn.errors import NoWorker, TenantQuotaExceeded

__all__ = ["ANSWER", "quota_fault", "read_quota_use"]

ANSWER = timedelta(seconds=5)
"""Longest wait for the answer of a ledger."""


async def read_quota_use(
    temporal: Client, app: str | None, tenant: str, quota: TenantQuota | None
) -> QuotaUse:
    """Return how much of its quota a tenant uses.

    Args:
        temporal: The client.
        app: The name of the app, if it has one.
        tenant: The tenant.
        quota: Its quota as declared here, for a tenant whose ledger has not begun.

    Raises:
        NoWorker: No worker answers for the ledger.
        ServerUnavailable: The Temporal server does not answer.
    """
    app = app or DEFAULT_TASK_QUEUE
    id = ledger_id(app, tenant)
    try:
        return await temporal.get_workflow_handle(id).query(
            QUOTA_USE, result_type=QuotaUse, rpc_timeout=ANSWER
        )
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return QuotaUse(quota=(quota or TenantQuota()).recorded())
        if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
            raise NoWorker(f"no worker of {app} answers for the quota of the tenant {tenant}") from error
        raise translate_error(error, id) from error


def quota_fault(use: QuotaUse, tenant: str) -> TenantQuotaExceeded | None:
    """Return why a run of the tenant could neither begin nor wait now, or None."""
    quota = use.quota
    is_full = quota.runs is not None and use.runs >= quota.runs
    has_started = quota.starts_per_minute is not None and use.starts >= quota.starts_per_minute
    may_wait = quota.when_full == "wait" and use.waiting_starts < quota.max_waiting
    if may_wait or not (is_full or has_started or use.waiting):
        return None
    kind, limit = ("runs", quota.runs) if is_full else ("starts_per_minute", quota.starts_per_minute)
    limit = limit or 0
    return TenantQuotaExceeded(quota_reached(tenant, kind, limit), quota=kind, limit=limit)
