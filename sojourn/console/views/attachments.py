"""Images and documents of messages, as pages show them and forms send them."""

import base64
import re
from dataclasses import dataclass

from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part

__all__ = ["MOST_BYTES", "PICTURES", "Attachment", "File", "attachments_of", "part_of"]

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures that models read and every browser shows."""

MOST_BYTES = 180_000
"""Most bytes of all files of a message together.

A message has at most 256 KB as JSON, where files are a third larger.
"""

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}\Z")


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a document of a message."""

    title: str
    media_type: str
    size: int
    """Size in bytes. 0 if only a URL is known."""
    picture: str = ""
    """A data URL of a picture that a page may show."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that a form sends."""

    name: str
    media_type: str
    body: bytes


def attachments_of(message: Message) -> list[Attachment]:
    """Return the images and documents of a message."""
    found: list[Attachment] = []
    for part in message.parts:
        if isinstance(part, ImagePart | DocumentPart):
            data, is_document = part.data or "", isinstance(part, DocumentPart)
            title = (part.title if isinstance(part, DocumentPart) else None) or part.url or ""
            is_shown = not is_document and part.media_type in PICTURES and _BASE64.match(data)
            picture = f"data:{part.media_type};base64,{data}" if data and is_shown else ""
            found.append(Attachment(title, part.media_type, len(data) * 3 // 4, picture))
    return found


def part_of(file: File) -> Part:
    """Return a file as a part of a message.

    A picture that models read becomes an image, anything else a document.
    """
    given = file.media_type.partition(";")[0].strip().lower()
    media_type = given if _MEDIA_TYPE.match(given) else "application/octet-stream"
    data = base64.b64encode(file.body).decode()
    if media_type in PICTURES:
        return ImagePart(type="image", media_type=media_type, data=data)
    return DocumentPart(type="document", media_type=media_type, data=data, title=file.name[:200] or None)
