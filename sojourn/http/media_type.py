"""The media type of a response, from its first message."""

from starlette.types import Message

__all__ = ["content_length", "is_stream", "media_type"]


def media_type(start: Message) -> str:
    """Return the media type of an answer, in lower case and without parameters.

    It is empty if the answer names none.
    """
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return ""


def content_length(start: Message) -> int | None:
    """Return the `Content-Length` of an answer in bytes, or None.

    A stream has none.
    """
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


def is_stream(start: Message) -> bool:
    """Return whether a response is a stream.

    This is an event stream, or another response without a `Content-Length`, such as a table that
    is sent while it is read.
    """
    if media_type(start) == "text/event-stream":
        return True
    return start.get("status") == 200 and content_length(start) is None
