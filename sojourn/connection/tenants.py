"""The tenant that a run belongs to, as Temporal lists it."""

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts import wire_names
from sojourn.converter.codec import use_tenant_lookup
from sojourn.errors import RunUnreadable
from sojourn.search_attributes import TENANT

__all__ = ["look_up_tenants", "tenant_of"]


async def tenant_of(found: WorkflowExecution) -> str:
    """Return the tenant of the principal that asked for a run, or an empty text."""
    listed = found.typed_search_attributes.get(TENANT)
    if listed is not None:
        return listed
    try:
        return await found.memo_value(wire_names.TENANT, "", type_hint=str)
    except Exception as error:  # a memo is untrusted, and a codec may raise anything
        raise RunUnreadable(f"the tenant of run {found.id} cannot be read here", run_id=found.id) from error


def look_up_tenants(temporal: Client) -> None:
    """Let the codec of a client find out the tenants of runs that it has not read."""

    async def look_up(run_id: str) -> str | None:
        try:
            return await tenant_of(await temporal.get_workflow_handle(run_id).describe())
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return None

    use_tenant_lookup(temporal.data_converter, look_up)
