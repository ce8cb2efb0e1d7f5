"""The media type of an answer, by its first message."""

from starlette.types import Message

__all__ = ["is_stream", "media_type"]


def media_type(start: Message) -> str:
    """The media type of an answer, in lower case and without parameters; empty where it names none."""
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return ""


def is_stream(start: Message) -> bool:
    """Whether an answer has the form of a stream of events."""
    return media_type(start) == "text/event-stream"
