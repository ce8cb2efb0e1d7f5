"""Images and documents as models take them; what is behind a URL is never fetched here.

Where a provider takes URLs, the URL goes to it as it is. Where one does not, its adapter in pydantic-ai
would download the file in this process: an image for Google or Bedrock, a document for OpenAI's chat API, a
text for Anthropic. Which do so changes with their versions, so that no list of them is kept: every URL says
itself, to whoever would download it, that it may not be.
"""

import base64
from typing import Any, Never

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, BinaryImage, DocumentUrl, ImageUrl

from sojourn.contracts.message import DocumentPart, ImagePart

__all__ = ["UrlNotFetched", "file_of", "image_of", "user_file"]


class UrlNotFetched(UserError):  # noqa: N818 - named for what happened, as the errors of the tree are
    """A message has a file by URL, and the model's provider takes none: raised before anything is sent."""

    def __init__(self) -> None:
        super().__init__(
            "this provider takes no files by URL, and Sojourn fetches none; send the file's `data` in its place"
        )


class _NoDownload(str):
    """In place of `force_download`: false for adapters, which ask whether; an error for a download, which asks how."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> Never:
        raise UrlNotFetched

    __ne__ = __eq__


_NO_DOWNLOAD = _NoDownload()


def user_file(part: ImagePart | DocumentPart) -> BinaryContent | ImageUrl | DocumentUrl | str:
    """What a person handed over; in words, where there is nothing to read."""
    if not part.data and part.url:
        kind = ImageUrl if isinstance(part, ImagePart) else DocumentUrl
        file = kind(part.url, media_type=part.media_type or None, identifier=_title(part))
        file.force_download = _NO_DOWNLOAD  # pyright: ignore[reportAttributeAccessIssue] - see `_NoDownload`
        return file
    return _content(part) or f"({part.type} that cannot be read)"


def file_of(part: ImagePart | DocumentPart) -> BinaryContent | str:
    """What a model's own message holds; a URL as text, since models give none."""
    return _content(part) or part.url or f"({part.type} that cannot be read)"


def image_of(content: BinaryContent, kept: dict[str, Any] | None) -> ImagePart:
    """A picture that a model made.

    Args:
        content: The picture.
        kept: What its provider wants back.
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
    return BinaryImage(data, media_type=part.media_type) if part.media_type.startswith("image/") else None


def _title(part: ImagePart | DocumentPart) -> str | None:
    return part.title if isinstance(part, DocumentPart) else None
