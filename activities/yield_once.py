"""YieldActivity: an activity that does nothing; the workflow goes on after its result, with all that its workflow task has told."""

from temporalio import activity

from sojourn.contracts.wire_names import YIELD

__all__ = ["yield_once"]


@activity.defn(name=YIELD)
async def yield_once() -> None:
    """Return at once."""
