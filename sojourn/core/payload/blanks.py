"""What null or a blank in a field says: that the field is not used, or that its value is null.

Of a change the two differ: without `owner` a task keeps its owner, or gets the default one; with null it has none.
"""

from typing import Any

from sojourn.core.schema.validate import Validator
from sojourn.core.values.pointer import ABSENT, expand, locate

__all__ = ["BLANKS", "is_blank", "null_differs", "takes_null"]

BLANKS = (None, "", "null")
"""What models send in a field that they do not use."""


def is_blank(value: Any) -> bool:
    """Whether a value says nothing: absent, null or a blank text; 0, false and an empty list are choices."""
    return value is ABSENT or value is None or (isinstance(value, str) and not value.strip())


def takes_null(validator: Validator, tokens: tuple[str, ...]) -> bool:
    """Whether a field may be null."""
    return any(validator.is_valid(None, schema=found) for found in locate(validator.schema, tokens))


def null_differs(validator: Validator, tokens: tuple[str, ...]) -> bool:
    """Whether a field may be null, and is not said to be null where it is absent."""
    if not takes_null(validator, tokens):
        return False
    root = validator.schema
    parts = [part for found in locate(root, tokens) for part in expand(root, found)]
    defaults = [part["default"] for part in parts if "default" in part]
    return not defaults or any(each is not None for each in defaults)
