"""Tenancy: whose runs a principal may see, and which ids its runs may have."""

from temporalio.client import WorkflowExecution

from sojourn.client.conversation_id import tenant_part
from sojourn.client.opening import RUN_ID_RULE
from sojourn.client.tenant_of import tenant_of
from sojourn.contracts.ids import RUN_ID
from sojourn.contracts.principal import Principal
from sojourn.errors import InvalidInput

__all__ = ["chosen_id", "may_see"]

_RESERVED = frozenset("@=")
"""Signs of run ids by which conversations are told from other runs, and tenants' runs from one another's."""


async def may_see(asking: Principal, found: WorkflowExecution) -> bool:
    """Whether a principal may see a run, as Temporal describes it; for whoever may not, it does not exist.

    Raises:
        RunUnreadable: Nobody can say whose run it is.
    """
    return await tenant_of(found) == asking.tenant


def chosen_id(asking: Principal, id: str) -> str:
    """The run id for an id that a request chooses: a tenant's begin with its name, so that it meets no other tenant's.

    A request that chooses the same id again means the same run, so that an `Idempotency-Key` may be one.

    Args:
        asking: Who asks.
        id: The id that was chosen, or the run id that this function made of it.

    Raises:
        InvalidInput: No request may choose this id; such as that of a conversation, whose messages would then go to another run.
    """
    prefix = f"{tenant_part(asking.tenant)}=" if asking.tenant else ""
    plain = id.removeprefix(prefix)
    if not _RESERVED.isdisjoint(plain):
        raise InvalidInput("a run_id of your choice has none of the signs @ and =", run_id=id)
    if not RUN_ID.match(prefix + plain) or not RUN_ID.match(plain):
        raise InvalidInput(RUN_ID_RULE, run_id=id)
    return prefix + plain
