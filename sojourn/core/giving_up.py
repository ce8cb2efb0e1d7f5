"""Why a run gave up, in words for whoever called it."""

import re

from sojourn.contracts.plan import Finalize
from sojourn.contracts.tool_error import ToolError

__all__ = ["gave_up"]

_INSTRUCTION = re.compile(r"\s*\b(Answer now|Do not try again|Say what is missing)\b[^\n]*\Z")
"""What a notice tells the run's own planner to do, at its end: a caller would take it for itself."""


def gave_up(finalize: Finalize, failure: ToolError | None = None) -> ToolError:
    """The limit that ended a run, as an error; caused by what its last turn failed of, when it did."""
    why = ToolError.new(_INSTRUCTION.sub("", finalize.message), code=finalize.reason)
    return why if failure is None else why.model_copy(update={"cause": failure}).told_once()
