"""JSON as it goes over the wire, where its size or its bytes matter."""

import pytest
from pydantic import ValidationError

from sojourn import Message, ToolResult, data_converter
from sojourn.core.values.wire import decode_messages, encode, encode_readable, size_of


def test_the_size_is_that_of_the_bytes_sent() -> None:
    """What is measured against limits is what the data converter writes: UTF-8, defaults left out."""
    for value in (Message.user("Grüße"), {"a": [1, None]}, "x", [ToolResult(name="a.b.c", result={"n": 1})]):
        (payload,) = data_converter.payload_converter.to_payloads([value])
        assert encode(value) == payload.data
        assert size_of(value) == len(payload.data)


def test_messages_come_back() -> None:
    """A transcript is a JSON array that is read back as it was."""
    messages = [Message.system("x"), Message.user("Grüße 🚀")]
    assert decode_messages(encode(messages)) == messages
    assert encode([]) == b"[]"


def test_what_is_no_transcript_is_refused() -> None:
    """Bytes cut off are no transcript."""
    with pytest.raises(ValidationError):
        decode_messages(encode([Message.user("x")])[:-1])


def test_what_could_not_be_read_back_is_not_written() -> None:
    """Nesting that a writer takes and a reader refuses would fail every workflow task that meets it."""
    nested: object = 1
    for _ in range(150):
        nested = [nested]
    assert encode_readable(nested) == b"[" * 150 + b"1" + b"]" * 150
    for _ in range(100):
        nested = [nested]
    with pytest.raises(ValueError, match="recursion"):
        encode_readable(nested)
