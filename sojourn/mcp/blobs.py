"""Blobs: base64 inside structured content, which becomes an artifact and a description.

A photo of 500 KB is 170,000 tokens of base64, in this request and all later ones. Base64 cannot be told from a long
word by its letters alone, so a text counts as base64 if a content block has the same data, if the object around it
names a media type, if it is a `data:` address, or if it begins as files of a known kind do.
"""

import re
from collections.abc import Mapping
from typing import Any

from sojourn.core.values.json_value import is_array, is_object

__all__ = ["Blobs", "media_type_of", "numbered", "size_of"]

_SHORTEST = 400
"""Characters of the shortest text that is looked at; a shorter one costs a model little."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\Z")
_ADDRESS = re.compile(r"data:([\w.+-]{1,60}/[\w.+-]{1,60})?(?:;[\w.=+-]{1,60})*;base64,")
_TYPE_WORDS = ("mimeType", "mime_type", "mediaType", "media_type", "contentType", "content_type")
_PLAIN = ("text", "uri", "url")
"""Names of fields that are not base64 beside a media type."""

_MAGIC = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "Qk0": "image/bmp",
    "JVBERi0": "application/pdf",
    "UEsDB": "application/zip",
    "SUQz": "audio/mpeg",
    "T2dnUw": "audio/ogg",
}
"""How the base64 of files begins, with their media types."""


class Blobs:
    """The artifacts of an answer, to which those of its structure are added.

    Args:
        artifacts: The artifacts of its content blocks.
    """

    def __init__(self, artifacts: dict[str, Any]) -> None:
        self.artifacts = dict(artifacts)
        """All artifacts by kind."""
        self._known = {
            data["base64"]: (kind, data.get("mime_type") or "")
            for kind, data in artifacts.items()
            if "base64" in data
        }

    def described(self, value: Any, media_type: str = "") -> Any:
        """Return a value with a description in place of each base64 text.

        Args:
            value: JSON.
            media_type: The media type that the object around the value names.
        """
        if isinstance(value, str):
            return self._text(value, media_type)
        if is_array(value):
            return [self.described(each, media_type) for each in value]
        if is_object(value):
            stated = next((each for word in _TYPE_WORDS if isinstance(each := value.get(word), str)), "")
            return {
                name: self.described(each, "" if name in _PLAIN else stated) for name, each in value.items()
            }
        return value

    def add(self, kind: str, data: Any) -> str:
        """Add an artifact, and return its kind with its number."""
        name = numbered(kind, self.artifacts)
        self.artifacts[name] = data
        return name

    def _text(self, text: str, media_type: str) -> str:
        if len(text) < _SHORTEST:
            return text
        if text in self._known:
            kind, known_type = self._known[text]
            return _description(known_type, text, kind)
        data = text
        if address := _ADDRESS.match(text):
            media_type, data = address[1] or media_type or "text/plain", text[address.end() :]
        elif not media_type or "/" not in media_type:
            media_type = media_type_of(text)
        if not media_type or not _BASE64.match(bare := "".join(data.splitlines())):
            return text
        first = media_type.partition("/")[0]
        kind = self.add(
            first if first in ("image", "audio") else "resource", {"mime_type": media_type, "base64": bare}
        )
        self._known[text] = kind, media_type
        return _description(media_type, bare, kind)


def media_type_of(base64: str) -> str:
    """Return the media type of a file by how its base64 begins; empty for an unknown kind."""
    return next((kind for start, kind in _MAGIC.items() if base64.startswith(start)), "")


def numbered(kind: str, taken: Mapping[str, Any]) -> str:
    """Return the name of one more artifact of a kind: `image`, `image_2`."""
    count = sum(name.partition("_")[0] == kind for name in taken)
    return kind if count == 0 else f"{kind}_{count + 1}"


def size_of(base64: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64.rstrip("=")) * 3 // 4


def _description(media_type: str, data: str, kind: str) -> str:
    return f"[{media_type or 'a file'}, {size_of(data):,} bytes, in artifact {kind}]"
