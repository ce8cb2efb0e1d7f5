"""JSON as it goes over the wire, where its size or its bytes matter."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer, from_json
from pydantic_core.core_schema import any_schema

from sojourn.contracts.message import Message

__all__ = ["ENVELOPE", "decode_messages", "encode", "encode_messages", "encode_readable", "size_of"]

ENVELOPE = 20
"""Levels of nesting that may come around a value; readers take 200 in all."""

_ENCODER = SchemaSerializer(any_schema())
_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def encode(value: Any) -> bytes:
    """The bytes a value has on the wire: JSON in UTF-8, defaults left out."""
    return _ENCODER.to_json(value, exclude_defaults=True)


def size_of(value: Any) -> int:
    """Bytes a value has on the wire."""
    return len(encode(value))


def encode_readable(value: Any) -> bytes:
    """The bytes of a value that can be read back, wherever in a transcript it comes to stand.

    What can be written but not read would fail every workflow task that meets it, for ever.

    Raises:
        ValueError: it is no JSON, is nested deeper than about 180, or holds an endless number.
    """
    data = encode(value)
    from_json(b"[" * ENVELOPE + data + b"]" * ENVELOPE)
    return data


def encode_messages(messages: Sequence[Message]) -> bytes:
    """A transcript as a JSON array."""
    return encode(list(messages))


def decode_messages(data: bytes) -> list[Message]:
    """A transcript from its JSON array.

    Raises:
        pydantic.ValidationError: the bytes are not a transcript.
    """
    return _MESSAGES.validate_json(data)
