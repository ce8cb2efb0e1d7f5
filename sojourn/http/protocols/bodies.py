"""Parts of request bodies that protocols share: ids, messages, files and results."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, cast

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from sojourn.attachments import describe_file
from sojourn.contracts.attachment import AttachmentRecord, attachment_path, parse_attachment_path
from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part, TextPart
from sojourn.errors import InvalidInput
from sojourn.http.bodies import JsonBody
from sojourn.http.security.file_bodies import FileMark
from sojourn.values.json_text import DuplicateNameError, loads

__all__ = [
    "MAX_WAIT_ID",
    "CamelBody",
    "WaitId",
    "file_part",
    "file_url",
    "read_message",
    "read_result",
    "text_part",
]

MAX_WAIT_ID = 2_000
"""Longest id of a wait, in characters."""

WaitId = Annotated[str, Field(min_length=1, max_length=MAX_WAIT_ID)]
"""Id of a wait, which a client got from the service."""


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
    found = [part for each in parts if (part := read_part(each)) is not None]
    return Message.model_validate({"role": role, "parts": found})


def text_part(text: str) -> TextPart:
    return TextPart(type="text", text=text)


def file_part(
    media_type: str, *, url: str | None = None, data: str | None = None, title: str | None = None
) -> ImagePart | DocumentPart:
    """Return a file of a message.

    A `data:` URL in base64 is read as data. A file whose data the service has put aside, or that a URL of the service
    names, gets a record without a claim, which `with_files` stores.
    """
    if url and url.startswith("data:"):
        head, _, body = url.partition(",")
        if head.endswith(";base64"):
            media_type = media_type or head[5:].partition(";")[0]
            url, data = None, body
    part = (
        ImagePart(type="image", media_type=media_type, url=url, data=data)
        if media_type.startswith("image/")
        else DocumentPart(type="document", media_type=media_type, url=url, data=data, title=title)
    )
    if data and (mark := FileMark.parse(data)):
        file = describe_file(part, mark.sha256, mark.size, title)
        return part.model_copy(update={"data": None, "attachment": file})
    if url and (named := parse_attachment_path(url)):
        file = AttachmentRecord(id=named[1], name="", media_type=media_type, size=0, sha256="")
        return part.model_copy(update={"attachment": file})
    return part


def file_url(part: ImagePart | DocumentPart, run_id: str, prefix: str) -> str:
    """Return the address of a file of a run's message, or an empty text for data."""
    if part.attachment is None:
        return part.url or ""
    return prefix + attachment_path(run_id, part.attachment.id)


def read_result(text: str) -> Any:
    """Return a result that a client sent as text: parsed JSON, else the text."""
    try:
        return loads(text)
    except DuplicateNameError as error:
        raise InvalidInput(f"a result: {error}") from error
    except ValueError:
        return text
