"""When the arguments of two calls are the same: however they are spelled, and whether or not they spell out defaults."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from sojourn.core.schema.defaults import with_defaults, without_defaults
from sojourn.core.schema.validate import Validator

__all__ = ["arguments_digest", "has_digest", "same_arguments"]


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """The digest of a call's arguments, equal for equal ones."""
    canonical = json.dumps(_plain(arguments), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def same_arguments(validator: Validator, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two payloads are the same by their schema: equal once its defaults are filled in."""
    if arguments_digest(one) == arguments_digest(other):
        return True
    filled = (with_defaults(validator, each) for each in (one, other))
    return len({arguments_digest(each) for each in filled}) == 1


def has_digest(validator: Validator, arguments: dict[str, Any], digest: str) -> bool:
    """Whether arguments have a digest as they are, with all defaults spelled out, or with none."""
    spellings = (arguments, with_defaults(validator, arguments), without_defaults(validator, arguments))
    return any(arguments_digest(each) == digest for each in spellings)


def _plain(value: Any) -> Any:
    """A JSON value whose equal numbers are written equally."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value
