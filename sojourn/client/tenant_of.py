"""The tenant of a run, as Temporal describes it: by the search attribute, and where the namespace lacks that, by the memo."""

from temporalio.client import WorkflowExecution

from sojourn.core.run.introduction import TENANT as MEMO
from sojourn.errors import RunUnreadable
from sojourn.search_attributes import TENANT

__all__ = ["tenant_of"]


async def tenant_of(found: WorkflowExecution) -> str:
    """The tenant of who asked for a run; empty for a run without one.

    Raises:
        RunUnreadable: Nobody can say here: the memo cannot be decoded.
    """
    listed = found.typed_search_attributes.get(TENANT)
    if listed is not None:
        return listed
    try:
        return await found.memo_value(MEMO, "", type_hint=str)
    except Exception as error:  # anybody may start a run with any memo, and a codec may raise anything
        raise RunUnreadable(f"the tenant of run {found.id} cannot be read here", run_id=found.id) from error
