"""Endless numbers: NaN and the infinities, for which JSON has no words and pydantic writes null."""

import math
from typing import Any, cast

from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema

__all__ = ["endless"]

_WITH_CONSTANTS = SchemaSerializer(any_schema(), {"ser_json_inf_nan": "constants"})


def endless(value: Any) -> str | None:
    """That a value holds such a number, which would be read as null; looked for one by one only where one is written.

    What only a type of its own can write, such as an object of the author's, is left to that type.
    """
    try:
        data = _WITH_CONSTANTS.to_json(value, fallback=lambda _: None, warnings=False)
    except (ValueError, TypeError, RecursionError):
        return None
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
