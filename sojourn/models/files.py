"""Images and documents as pydantic-ai's content; the file of a URL is never downloaded in this process.

A provider that accepts URLs gets the URL unchanged. For a provider that does not, its adapter in pydantic-ai
would download the file in this process: an image for Google or Bedrock, a document for OpenAI's chat API, a
text for Anthropic. Which adapters do so changes with their versions, so there is no list of them: each URL
object raises `UrlNotFetched` when it is about to be downloaded.
"""

import base64
from typing import Any, Never

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, BinaryImage, DocumentUrl, ImageUrl

from sojourn.contracts.message import DocumentPart, ImagePart

__all__ = ["UrlNotFetched", "file_of", "image_of", "user_file"]


_BEGINNINGS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
"""The media types of images that all providers take, by the bytes that they begin with."""


class UrlNotFetched(UserError):  # noqa: N818 - named for what happened, as Sojourn's other errors are
    """A message has a file by URL, and the model's provider accepts no URLs; raised before anything is sent."""

    def __init__(self) -> None:
        super().__init__(
            "this provider takes no files by URL, and Sojourn fetches none; send the file's `data` in its place"
        )


class _NoDownload(str):
    """A value of `force_download`: falsy, as adapters test it, but comparing it, as a download does, raises."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> Never:
        raise UrlNotFetched

    __ne__ = __eq__


_NO_DOWNLOAD = _NoDownload()


def user_file(part: ImagePart | DocumentPart) -> BinaryContent | ImageUrl | DocumentUrl | str:
    """Return a file of a user's message: its data, else its URL; a text where there is neither."""
    if not part.data and part.url:
        kind = ImageUrl if isinstance(part, ImagePart) else DocumentUrl
        file = kind(part.url, media_type=part.media_type or None, identifier=_title(part))
        file.force_download = _NO_DOWNLOAD  # pyright: ignore[reportAttributeAccessIssue] - see `_NoDownload`
        return file
    return _content(part) or f"({part.type} that cannot be read)"


def file_of(part: ImagePart | DocumentPart) -> BinaryContent | str:
    """Return a file of a model's own message: its data; its URL as a text, since models return no files by URL."""
    return _content(part) or part.url or f"({part.type} that cannot be read)"


def image_of(content: BinaryContent, kept: dict[str, Any] | None) -> ImagePart:
    """Return an image that a model made as a part of a message.

    Args:
        content: The image.
        kept: The part's `provider_metadata`.
    """
    return ImagePart(type="image", media_type=content.media_type, data=content.base64, provider_metadata=kept)


def _content(part: ImagePart | DocumentPart) -> BinaryContent | None:
    try:
        data = base64.b64decode("".join((part.data or "").split()), validate=True)
    except ValueError:
        return None
    if not data:
        return None
    if isinstance(part, DocumentPart):
        return BinaryContent(data, media_type=part.media_type, identifier=_title(part))
    if not part.media_type.startswith("image/"):
        return None
    return BinaryImage(data, media_type=_actual_type(data) or part.media_type)


def _actual_type(data: bytes) -> str | None:
    """The media type by which an image begins: providers refuse one that says another."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _BEGINNINGS.items() if data.startswith(begin)), None)


def _title(part: ImagePart | DocumentPart) -> str | None:
    return part.title if isinstance(part, DocumentPart) else None
