"""Images, documents and tools' pictures as pydantic-ai's content.

A provider that accepts URLs gets the URL. For any other, pydantic-ai's adapter would download the file in
this process. Which adapters do so changes with their versions, so each URL object raises `UrlNotFetched` at
the attempt.

Providers limit the pictures of a request, so only the newest are sent, with their results. They are dropped
in blocks, so that the beginning of the request changes rarely (prompt cache).
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Never

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, BinaryImage, DocumentUrl, ImageUrl

from sojourn.contracts.message import DocumentPart, ImagePart, Message
from sojourn.contracts.tool_result import ToolResult
from sojourn.models.compaction import ResultRead
from sojourn.models.result_text import is_seen
from sojourn.serving.artifact_reader import current_artifact_reader
from sojourn.values.json_value import is_object
from sojourn.values.text import count_noun

__all__ = [
    "MAX_PICTURES",
    "UrlNotFetched",
    "file_of",
    "image_of",
    "load_pictures",
    "picture_refs",
    "refs_of",
    "shown_refs",
    "user_file",
    "with_pictures",
]

_BEGINNINGS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
"""Media types of the images that all providers take, by their first bytes."""


class UrlNotFetched(UserError):  # noqa: N818 - named for what happened, as Sojourn's other errors are
    """A message has a file by URL, and the model's provider accepts no URLs.

    It is raised before anything is sent.
    """

    def __init__(self) -> None:
        super().__init__(
            "this provider takes no files by URL, and Sojourn fetches none; send the file's `data` in its place"
        )


class _NoDownload(str):
    """Falsy, as adapters test it. Comparing it, as a download does, raises."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> Never:
        raise UrlNotFetched

    __ne__ = __eq__


_NO_DOWNLOAD = _NoDownload()


def user_file(part: ImagePart | DocumentPart) -> BinaryContent | ImageUrl | DocumentUrl | str:
    """Return a file of a user's message: its data, its URL, or a text."""
    if not part.data and part.url:
        kind = ImageUrl if isinstance(part, ImagePart) else DocumentUrl
        file = kind(part.url, media_type=part.media_type or None, identifier=_title(part))
        file.force_download = _NO_DOWNLOAD  # pyright: ignore[reportAttributeAccessIssue] - see `_NoDownload`
        return file
    return _content(part) or f"({part.type} that cannot be read)"


def file_of(part: ImagePart | DocumentPart) -> BinaryContent | str:
    """Return a file of a model's own message: its data, or its URL as a text."""
    return _content(part) or part.url or f"({part.type} that cannot be read)"


def image_of(content: BinaryContent, kept: dict[str, Any] | None) -> ImagePart:
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
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _BEGINNINGS.items() if data.startswith(begin)), None)


def _title(part: ImagePart | DocumentPart) -> str | None:
    return part.title if isinstance(part, DocumentPart) else None


MAX_PICTURES = 20
"""Most pictures of one request: from 21 on, Anthropic takes smaller ones only."""

BLOCK = 10

MAX_BYTES = 3_700_000
"""Bytes of the largest picture that is sent: providers take 5 MB of base64."""

_BEGINS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}


def refs_of(result: ToolResult) -> list[str]:
    if isinstance(result, ResultRead):
        return []
    return [artifact.ref for artifact in result.artifacts if is_seen(artifact) and artifact.ref]


def picture_refs(messages: Sequence[Message]) -> list[str]:
    return [ref for message in messages for result in message.tool_results for ref in refs_of(result)]


def shown_refs(refs: Sequence[str]) -> Sequence[str]:
    """Return the references of the newest pictures, at most `MAX_PICTURES`."""
    over = max(len(refs) - MAX_PICTURES, 0)
    return refs[-(-over // BLOCK) * BLOCK :]


async def load_pictures(
    refs: Sequence[str], known: Mapping[str, BinaryImage | None]
) -> dict[str, BinaryImage | None]:
    """Return the pictures that a model sees, or None, by reference."""
    read = current_artifact_reader()
    shown: dict[str, BinaryImage | None] = {}
    for ref in shown_refs(refs):
        shown[ref] = known[ref] if ref in known else (_picture(await read(ref)) if read else None)
    return shown


def with_pictures(text: Any, result: ToolResult, pictures: Mapping[str, BinaryImage | None]) -> Any:
    refs = refs_of(result)
    images = [image for ref in refs if (image := pictures.get(ref)) is not None]
    if len(images) < len(refs) and isinstance(text, str):
        text += f"\n[not shown to you: {count_noun(len(refs) - len(images), 'picture')}]"
    return [text, *images] if images else text


def _picture(data: Any) -> BinaryImage | None:
    """Return a picture, or None for one that providers refuse."""
    text: Any = data.get("base64") if is_object(data) else None
    if not isinstance(text, str) or len(text) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return None
    media_type = media_type_of(content)
    return BinaryImage(content, media_type=media_type) if media_type else None


def media_type_of(content: bytes) -> str | None:
    """Return a picture's type by its first bytes, as providers require."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, begins in _BEGINS.items() if content.startswith(begins)), None)
