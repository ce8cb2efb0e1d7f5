"""The media type of an answer, by its first message."""

from starlette.types import Message

__all__ = ["content_length", "is_stream", "media_type"]


def media_type(start: Message) -> str:
    """The media type of an answer, in lower case and without parameters; empty where it names none."""
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return ""


def content_length(start: Message) -> int | None:
    """How many bytes an answer says that it has; None for a stream, which does not know."""
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


def is_stream(start: Message) -> bool:
    """Whether an answer lasts: a stream of events, or another one that does not know its length, such as a table that is read on the way."""
    if media_type(start) == "text/event-stream":
        return True
    return start.get("status") == 200 and content_length(start) is None
