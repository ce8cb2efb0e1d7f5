"""Values as JSON on the wire, and the sizes that Temporal allows.

Measured: one plan with 2,100 calls, or with 900 calls of 6 KB, blocks a run for ever, and a 3 MB
activity input makes the server terminate the run. So every sum below is bounded.
"""

import math
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer, from_json
from pydantic_core.core_schema import any_schema

from sojourn.contracts.message import Message

__all__ = [
    "ENVELOPE",
    "MAX_ANSWER_CHARS",
    "MAX_ARTIFACT_BYTES",
    "MAX_FORMS_BYTES",
    "MAX_INLINE_BYTES",
    "MAX_LOCAL_BYTES",
    "MAX_PAYLOAD_BYTES",
    "MAX_PLAN_BYTES",
    "MAX_PLAN_CALLS",
    "MAX_PRIOR_INPUT_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_SLICE_BYTES",
    "MAX_STEP_BYTES",
    "MAX_STORED_BYTES",
    "decode_messages",
    "encode",
    "encode_readable",
    "non_finite",
    "size_of",
]

MAX_PAYLOAD_BYTES = 512_000
"""Largest arguments of one call."""

MAX_STEP_BYTES = 1_000_000
"""Largest arguments of one step's executed calls together, which are the commands of one workflow task."""

MAX_PLAN_BYTES = 1_500_000
"""Largest result of `PlanActivity`."""

MAX_PLAN_CALLS = 10_000
"""Most calls of one plan; more are a planner fault."""

MAX_RESULT_BYTES = 1_000_000

MAX_LOCAL_BYTES = 50_000
"""Largest result of one local call with its artifacts: results that end in one workflow task share a message."""

MAX_ARTIFACT_BYTES = 800_000
"""Largest artifacts of one result together, which share its completion."""

MAX_STORED_BYTES = 50_000_000
"""Largest result with its artifacts if external storage is configured."""

MAX_INLINE_BYTES = 64_000
"""Largest new messages in a plan's input itself. For larger ones it has the index."""

MAX_SLICE_BYTES = 1_500_000
"""Largest answer of the query `transcript`."""

MAX_PRIOR_INPUT_BYTES = 8_000
"""Largest payload that a hint repeats."""

MAX_ANSWER_CHARS = 64_000
"""Longest answer of a person, in characters of JSON."""

MAX_FORMS_BYTES = 1_000_000
"""Largest answers to all forms of one call together."""


ENVELOPE = 20
"""Levels of nesting that may surround a value; readers accept 200 in all."""

_ENCODER = SchemaSerializer(any_schema())
_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def encode(value: Any) -> bytes:
    """Return the value as JSON in UTF-8, without defaults, as on the wire."""
    return _ENCODER.to_json(value, exclude_defaults=True)


def size_of(value: Any) -> int:
    return len(encode(value))


def encode_readable(value: Any) -> bytes:
    """Return the value as JSON that can be read back at any place of a transcript.

    A value that can be written but not read would fail every workflow task that reads it, for ever.
    """
    data = encode(value)
    from_json(b"[" * ENVELOPE + data + b"]" * ENVELOPE)
    return data


def decode_messages(data: bytes) -> list[Message]:
    """Return a transcript from its JSON array."""
    return _MESSAGES.validate_json(data)


_WITH_CONSTANTS = SchemaSerializer(any_schema(), {"ser_json_inf_nan": "constants"})


def non_finite(value: Any) -> str | None:
    """Return why a value holds a number that is not finite, or None.

    Such a number would be read as null. A value of a type that only the author's own code can write is
    left to that type.
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
