"""Whose a run is, as Temporal describes it: by search attributes, and where the namespace lacks them, by the memo."""

from collections.abc import Sequence

from temporalio.client import WorkflowExecution

from sojourn.contracts import wire_names
from sojourn.errors import RunUnreadable
from sojourn.search_attributes import TENANT, VISIBLE_TO

__all__ = ["tenant_of", "viewers_of"]


async def tenant_of(found: WorkflowExecution) -> str:
    """The tenant of who asked for a run; empty for a run without one.

    Raises:
        RunUnreadable: Nobody can say here: the memo cannot be decoded.
    """
    listed = found.typed_search_attributes.get(TENANT)
    if listed is not None:
        return listed
    try:
        return await found.memo_value(wire_names.TENANT, "", type_hint=str)
    except Exception as error:  # anybody may start a run with any memo, and a codec may raise anything
        raise RunUnreadable(f"the tenant of run {found.id} cannot be read here", run_id=found.id) from error


async def viewers_of(found: WorkflowExecution) -> Sequence[str]:
    """The marks of those who may see a run; empty for one that does not say.

    Raises:
        RunUnreadable: Nobody can say here: the memo cannot be decoded.
    """
    listed = found.typed_search_attributes.get(VISIBLE_TO)
    if listed:
        return listed
    try:
        return await found.memo_value(wire_names.VISIBLE_TO, list[str](), type_hint=list[str])
    except Exception as error:  # as above
        raise RunUnreadable(f"who may see run {found.id} cannot be read here", run_id=found.id) from error
