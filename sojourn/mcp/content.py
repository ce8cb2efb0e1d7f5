"""The answer of a server's tool as a result, with texts and artifacts.

A photo of 500 KB is 170,000 tokens of base64, in this request and all later ones. So images, audio and
files become artifacts, which the result describes. A text counts as base64 if a content block has the same
data, if the object around it names a media type, if it is a `data:` address, or if it begins as files of a
known kind do.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from sojourn.mcp.limits import MAX_INLINE_TEXT, MAX_TEXT_BESIDE, clean_text, mask_secrets
from sojourn.values.json_value import is_array, is_object

if TYPE_CHECKING:
    from mcp_types import ContentBlock, TextResourceContents

__all__ = [
    "ABSENT",
    "NOT_STRUCTURED",
    "Blobs",
    "Content",
    "error_code",
    "error_text",
    "media_type_of",
    "number",
    "size_of",
    "to_parts",
    "to_result",
]

_SHORTEST = 400
"""Characters of the shortest text to compare. A shorter one costs a model little."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\Z")
_ADDRESS = re.compile(r"data:([\w.+-]{1,60}/[\w.+-]{1,60})?(?:;[\w.=+-]{1,60})*;base64,")
_TYPE_WORDS = ("mimeType", "mime_type", "mediaType", "media_type", "contentType", "content_type")
_PLAIN = ("text", "uri", "url")

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
    def __init__(self, artifacts: dict[str, Any]) -> None:
        self.artifacts = dict(artifacts)
        self._known = {
            data["base64"]: (kind, data.get("mime_type") or "")
            for kind, data in artifacts.items()
            if "base64" in data
        }

    def describe(self, value: Any, media_type: str = "") -> Any:
        """Return a value with a description in place of each base64 text."""
        if isinstance(value, str):
            return self._text(value, media_type)
        if is_array(value):
            return [self.describe(each, media_type) for each in value]
        if is_object(value):
            stated = next((each for word in _TYPE_WORDS if isinstance(each := value.get(word), str)), "")
            return {
                name: self.describe(each, "" if name in _PLAIN else stated) for name, each in value.items()
            }
        return value

    def add(self, kind: str, data: Any) -> str:
        name = number(kind, self.artifacts)
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
    """Return a file's media type by its first letters, or an empty text."""
    return next((kind for start, kind in _MAGIC.items() if base64.startswith(start)), "")


def number(kind: str, taken: Mapping[str, Any]) -> str:
    count = sum(name.partition("_")[0] == kind for name in taken)
    return kind if count == 0 else f"{kind}_{count + 1}"


def size_of(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _description(media_type: str, data: str, kind: str) -> str:
    return f"[{media_type or 'a file'}, {size_of(data):,} bytes, in artifact {kind}]"


ABSENT: Any = object()
NOT_STRUCTURED = "no structured content, and its text is not JSON"

_MAX_ERROR = 2_000
_MAX_STRUCTURE = 1_000
_CODES = ("code", "error_code", "errorCode")
_MIRRORED = 5
"""Levels of a structure in which a text is looked for, as in `{"content": [{"type": "text", "text":
...}]}`.
"""

_MAX_COMPARED = 1_000


@dataclass(frozen=True, slots=True)
class Content:
    result: Any
    """The structured content, or else the content."""
    remarks: list[str] = field(default_factory=list[str])
    artifacts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Images, sound and files by kind; further ones of a kind are numbered: `image_2`."""
    fault: str | None = None
    """Why there is no structured content, of a tool with an `outputSchema`."""


def to_parts(content: "Sequence[ContentBlock]") -> tuple[Any, dict[str, Any]]:
    """Return the content of an answer, and its artifacts by kind.

    Returns:
        None for no block, the part of a single block, a list of the parts of several; a part is a text or
        `{"type", ...}`. And the artifacts: `image` and `audio` are `{"mime_type", "base64"}`, `resource` is
        `{"uri", "mime_type", "base64" or "text"}`.
    """
    parts, artifacts = _parts(content)
    return (parts[0] if len(parts) == 1 else parts or None), artifacts


def to_result(content: "Sequence[ContentBlock]", structured: Any, *, is_structured: bool) -> Content:
    """Return the result that an answer holds.

    It is the structured content and the texts beside it, or else the content. Servers repeat a structure as
    a text, for older clients: such a text is left out. A null without an `outputSchema` is no structured
    content: some servers write all fields that they know.
    """
    parts, artifacts = _parts(content)
    if structured is not ABSENT and (structured is not None or is_structured):
        blobs = Blobs(artifacts)
        result = blobs.describe(structured)
        remarks = [*_beside(parts, structured)]
        if sum(map(len, remarks)) > MAX_TEXT_BESIDE:
            remarks = [_cut("\n".join(remarks), blobs)]
        return Content(result, remarks, blobs.artifacts)
    result = parts[0] if len(parts) == 1 else parts or None
    if is_structured and isinstance(result, str):
        read = _read(result)
        return (
            Content(result, [], artifacts, NOT_STRUCTURED) if read is ABSENT else Content(read, [], artifacts)
        )
    return Content(result, [], artifacts)


def error_text(
    content: "Sequence[ContentBlock]", structured: Any = ABSENT, secrets: Sequence[str] = ()
) -> str:
    """Return the text of an answer with `isError`, masked, then cut to 2,000."""
    parts, artifacts = _parts(content)
    told = [text for part in parts if (text := _text_of(part)).strip()]
    if structured is not ABSENT and structured not in (None, {}, []) and not _repeats(told, structured):
        structure = _json(Blobs(artifacts).describe(structured))
        told.append(clean_text(mask_secrets(structure, secrets), _MAX_STRUCTURE))
    return (
        clean_text(mask_secrets("\n".join(told), secrets), _MAX_ERROR)
        or "the tool failed and did not say why"
    )


def error_code(structured: Any) -> str | None:
    """Return the error code in an error's structure, or None.

    One in capitals is unchanged, any other gets the prefix `mcp_`: Sojourn's own codes are in lower case,
    and decide what follows.
    """
    if not is_object(structured):
        return None
    inner: Any = structured.get("error")
    for part in (inner if is_object(inner) else {}, structured):
        for name in _CODES:
            given = part.get(name)
            text = str(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else ""
            if 0 < len(text) <= 60 and text.isascii() and text.isprintable() and " " not in text:
                return text if text.isupper() else f"mcp_{text}"
    return None


def _parts(content: "Sequence[ContentBlock]") -> tuple[list[Any], dict[str, Any]]:
    parts: list[Any] = []
    artifacts: dict[str, Any] = {}
    for block in content:
        part, kind, data = _part(block)
        parts.append(part)
        if kind:
            artifacts[number(kind, artifacts)] = data
    return parts, artifacts


def _beside(parts: Sequence[Any], structured: Any) -> Iterator[str]:
    """Yield the texts beside the structure, without those that repeat it."""
    texts = [part for part in parts if isinstance(part, str)]
    if not _repeats(texts, structured):
        yield from (text for text in texts if text.strip() and not _repeats([text], structured))
    yield from (_text_of(part) for part in parts if not isinstance(part, str) and "bytes" not in part)


def _repeats(texts: Sequence[str], structured: Any) -> bool:
    """Return whether texts repeat a structure: a value, its JSON, or its items."""
    only = list(structured.values()) if is_object(structured) and len(structured) == 1 else []
    values = [structured, *only]
    if len(texts) == 1:
        return texts[0] in _strings(structured) or any(_read(texts[0]) == value for value in values)
    items = [value for value in values if is_array(value)]
    return bool(texts) and (
        any(list(texts) == value for value in items) or any([*map(_read, texts)] == value for value in items)
    )


def _strings(structured: Any) -> set[str]:
    """Return the texts in a structure, down to the parts of mirrored content."""
    found: set[str] = set()
    level = [structured]
    for _ in range(_MIRRORED):
        found.update(each for each in level if isinstance(each, str))
        inner = [
            [*each.values()] if is_object(each) else each
            for each in level
            if is_object(each) or is_array(each)
        ]
        level = list(islice(chain.from_iterable(inner), _MAX_COMPARED))
    return found


def _cut(text: str, blobs: Blobs) -> str:
    kind = blobs.add("text", {"mime_type": "text/plain", "text": text})
    more = f"{len(text) - MAX_TEXT_BESIDE:,} more characters are in artifact {kind}"
    return f"{text[:MAX_TEXT_BESIDE]}\n[{more}]"


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return ABSENT


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    if part["type"] == "resource" and "text" in part:
        return cast("str", part["text"])
    return _json(part)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _part(block: "ContentBlock") -> tuple[Any, str | None, Any]:
    match block.type:
        case "text":
            return block.text, None, None
        case "image" | "audio":
            shown = {"type": block.type, "mime_type": block.mime_type, "bytes": size_of(block.data)}
            return shown, block.type, {"mime_type": block.mime_type, "base64": block.data}
        case "resource_link":
            shown = {
                "type": block.type,
                "uri": block.uri,
                "name": block.name,
                "description": block.description,
                "mime_type": block.mime_type,
            }
            return {name: value for name, value in shown.items() if value is not None}, None, None
        case "resource":
            return _resource(block.resource)


def _resource(contents: Any) -> tuple[Any, str | None, Any]:
    shown = {"type": "resource", "uri": contents.uri, "mime_type": contents.mime_type}
    shown = {name: value for name, value in shown.items() if value is not None}
    named = {name: value for name, value in shown.items() if name != "type"}
    if hasattr(contents, "blob"):
        return {**shown, "bytes": size_of(contents.blob)}, "resource", {**named, "base64": contents.blob}
    text = cast("TextResourceContents", contents).text
    if len(text) <= MAX_INLINE_TEXT:
        return {**shown, "text": text}, None, None
    return {**shown, "bytes": len(text.encode("utf-8", "replace"))}, "resource", {**named, "text": text}
