"""Refused: which record of Sojourn refused the arguments of its constructor, a mistake of the code that calls it."""

from types import CodeType
from typing import Any

from pydantic import BaseModel, ValidationError

from sojourn.contracts import raised
from sojourn.contracts.record import Record

__all__ = ["refused_by"]

_CONSTRUCTOR: CodeType = BaseModel.__init__.__code__


def refused_by(error: BaseException) -> str | None:
    """The name of the record whose constructor raised this validation error, such as `PlanResult`.

    None for a record that was read from data (`model_validate`), which may be other data next time, and for other models.
    """
    step = raised.trace(error) if raised.is_a(error, ValidationError) else None
    while step is not None:
        if step.tb_frame.f_code is _CONSTRUCTOR:
            made: Any = step.tb_frame.f_locals.get("self")
            return type(made).__name__ if raised.is_a(made, Record) else None
        step = step.tb_next
    return None
