"""Endless numbers: NaN and the infinities, for which JSON has no words and pydantic writes null."""

import math
from typing import Any, cast

from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema

__all__ = ["endless"]

_WITH_CONSTANTS = SchemaSerializer(any_schema(), {"ser_json_inf_nan": "constants"})


def endless(value: Any) -> str | None:
    """That a value holds such a number, which would be read as null; looked for one by one only where one is written.

    Raises:
        pydantic_core.PydanticSerializationError: it cannot be written as JSON.
    """
    data = _WITH_CONSTANTS.to_json(value)
    if b"NaN" not in data and b"Infinity" not in data:
        return None
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, float) and not math.isfinite(node):
            return f"{node} is no number of JSON"
        if isinstance(node, (dict, list, tuple, set, frozenset)):
            inner = cast("dict[Any, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]", node)
            pending.extend(inner.values() if isinstance(inner, dict) else inner)
    return None
