"""Content: the answer of a server's tool, as a result and artifacts.

The result only describes images, audio and files, which are of no use to a model as base64; their data
become artifacts.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from sojourn.mcp.limits import MAX_INLINE_TEXT
from sojourn.mcp.text import cleaned, masked

if TYPE_CHECKING:
    from mcp_types import ContentBlock, TextResourceContents

__all__ = ["ABSENT", "error_text", "to_parts", "to_result"]

ABSENT: Any = object()
"""Stands for an answer without structured content; null is structured content."""

_MAX_ERROR = 2_000


def to_parts(content: "Sequence[ContentBlock]") -> tuple[Any, dict[str, Any]]:
    """Return the content of an answer, and its artifacts by kind.

    Returns:
        None for no block, the part of a single block, a list of the parts of several; a part is a text or
        `{"type", ...}`. And the artifacts: `image` and `audio` are `{"mime_type", "base64"}`, `resource` is
        `{"uri", "mime_type", "base64" or "text"}`; further ones of a kind are numbered: `image_2`.
    """
    parts: list[Any] = []
    artifacts: dict[str, Any] = {}
    for block in content:
        part, kind, data = _part(block)
        parts.append(part)
        if kind:
            artifacts[_numbered(kind, artifacts)] = data
    return (parts[0] if len(parts) == 1 else parts or None), artifacts


def to_result(
    content: "Sequence[ContentBlock]", structured: Any, *, is_structured: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the result of an answer, which is its structured content or else its content, and its artifacts.

    Args:
        content: The content blocks.
        structured: The structured content, or `ABSENT`.
        is_structured: Whether the tool has an `outputSchema`; then a single text is parsed as JSON.

    Raises:
        ValueError: The tool has an `outputSchema`, and the answer is a single text that is not JSON.
    """
    result, artifacts = to_parts(content)
    if structured is not ABSENT:
        return structured, artifacts
    if is_structured and isinstance(result, str):
        return _read(result), artifacts
    return result, artifacts


def error_text(content: "Sequence[ContentBlock]", secrets: Sequence[str] = ()) -> str:
    """Return the text of an answer with `isError`; secrets are masked before it is cut to 2,000 characters."""
    texts = [block.text for block in content if block.type == "text"]
    return cleaned(masked("\n".join(texts), secrets), _MAX_ERROR) or "the tool failed and did not say why"


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no structured content, and its text is not JSON") from None


def _part(block: "ContentBlock") -> tuple[Any, str | None, Any]:
    """Return a block's part of the result, and the kind and value of its artifact, if it is one."""
    match block.type:
        case "text":
            return block.text, None, None
        case "image" | "audio":
            shown = {"type": block.type, "mime_type": block.mime_type, "bytes": _size(block.data)}
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
        return {**shown, "bytes": _size(contents.blob)}, "resource", {**named, "base64": contents.blob}
    text = cast("TextResourceContents", contents).text
    if len(text) <= MAX_INLINE_TEXT:
        return {**shown, "text": text}, None, None
    return {**shown, "bytes": len(text.encode("utf-8", "replace"))}, "resource", {**named, "text": text}


def _size(base64: str) -> int:
    """Return the number of bytes that a base64 text encodes."""
    return len(base64.rstrip("=")) * 3 // 4


def _numbered(kind: str, taken: dict[str, Any]) -> str:
    count = sum(name.partition("_")[0] == kind for name in taken)
    return kind if count == 0 else f"{kind}_{count + 1}"
