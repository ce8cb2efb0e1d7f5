"""JSON on the wire: its bytes, its size, and what can be read back."""

import pytest
from pydantic import ValidationError

from sojourn import Message, ToolResult, data_converter
from sojourn.values.wire import decode_messages, encode, encode_readable, size_of


def test_the_size_is_that_of_the_data_converters_bytes() -> None:
    """`encode` and `size_of` agree with the data converter: UTF-8, without defaults."""
    for value in (Message.user("Grüße"), {"a": [1, None]}, "x", [ToolResult(name="a.b.c", result={"n": 1})]):
        (payload,) = data_converter.payload_converter.to_payloads([value])
        assert encode(value) == payload.data
        assert size_of(value) == len(payload.data)


def test_messages_are_read_back() -> None:
    """A transcript is a JSON array, which is read back unchanged."""
    messages = [Message.system("x"), Message.user("Grüße 🚀")]
    assert decode_messages(encode(messages)) == messages
    assert encode([]) == b"[]"


def test_a_truncated_transcript_is_refused() -> None:
    """Truncated bytes raise a ValidationError."""
    with pytest.raises(ValidationError):
        decode_messages(encode([Message.user("x")])[:-1])


def test_a_value_that_could_not_be_read_back_is_not_written() -> None:
    """Nesting that can be written but not read would fail every workflow task that reads it, so writing raises."""
    nested: object = 1
    for _ in range(150):
        nested = [nested]
    assert encode_readable(nested) == b"[" * 150 + b"1" + b"]" * 150
    for _ in range(100):
        nested = [nested]
    with pytest.raises(ValueError, match="recursion"):
        encode_readable(nested)
