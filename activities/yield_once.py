"""YieldActivity: an activity that does nothing; the workflow goes on after its result, with all that its workflow task has told."""

from temporalio import activity

__all__ = ["yield_once"]


@activity.defn(name="YieldActivity")
async def yield_once() -> None:
    """Return at once."""
