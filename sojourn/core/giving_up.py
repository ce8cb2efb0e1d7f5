"""Why a run gave up, in words for whoever called it."""

from sojourn.contracts.plan import Finalize
from sojourn.contracts.tool_error import ToolError

__all__ = ["gave_up"]


def gave_up(finalize: Finalize, failure: ToolError | None = None) -> ToolError:
    """The limit that ended a run, as an error; caused by what its last turn failed of, when it did."""
    why = ToolError.new(finalize.message, code=finalize.reason)
    return why if failure is None else why.model_copy(update={"cause": failure}).told_once()
