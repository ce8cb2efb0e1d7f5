"""Read message parts from clients into `Message`, and results into values.

A protocol only says which of its part types is a text and which is a file. No URL is fetched here.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

from pydantic import ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part, TextPart
from sojourn.errors import InvalidInput
from sojourn.http.bodies import JsonBody
from sojourn.values.json_text import DuplicateNameError, loads

__all__ = ["CamelBody", "file_part", "read_message", "read_result", "text_part"]


class CamelBody(JsonBody):
    """A request body with camelCase names.

    Unknown fields are ignored, since clients are newer than servers.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _has_each_name_once(cls, value: Any) -> Any:
        """Refuse `threadId` beside `thread_id`: one of them would be ignored."""
        for name in cls.model_fields if isinstance(value, dict) else ():
            if name in value and to_camel(name) != name and to_camel(name) in value:
                raise ValueError(f"{to_camel(name)} is given as {name} too")
        return cast("Any", value)


def read_message(
    parts: Iterable[Any], read_part: Callable[[Any], Part | None], role: str = "user"
) -> Message:
    """Read a message, part by part.

    Args:
        parts: The parts as the client sent them.
        read_part: Reads one part. Returns None for a part that agents do not read, and raises if the part is invalid.
        role: `user` or `assistant`.
    """
    found = [part for each in parts if (part := read_part(each)) is not None]
    return Message.model_validate({"role": role, "parts": found})


def text_part(text: str) -> TextPart:
    """Return a text of a message."""
    return TextPart(type="text", text=text)


def file_part(
    media_type: str, *, url: str | None = None, data: str | None = None, title: str | None = None
) -> ImagePart | DocumentPart:
    """Return a file of a message. A `data:` URL in base64 is read as data.

    Args:
        media_type: The media type; that of a `data:` URL is used if this is empty.
        url: The address of the file.
        data: Its content in base64.
        title: Its name; images have none.
    """
    if url and url.startswith("data:"):
        head, _, body = url.partition(",")
        if head.endswith(";base64"):
            media_type = media_type or head[5:].partition(";")[0]
            url, data = None, body
    if media_type.startswith("image/"):
        return ImagePart(type="image", media_type=media_type, url=url, data=data)
    return DocumentPart(type="document", media_type=media_type, url=url, data=data, title=title)


def read_result(text: str) -> Any:
    """Return a result that a client sent as text: parsed JSON, else the text.

    Raises:
        InvalidInput: An object has a name twice.
    """
    try:
        return loads(text)
    except DuplicateNameError as error:
        raise InvalidInput(f"a result: {error}") from error
    except ValueError:
        return text
