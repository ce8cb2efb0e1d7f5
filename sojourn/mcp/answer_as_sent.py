"""An answer of a tool as its server sent it, made so that the SDK reads it.

The SDK refuses a whole answer for one field of another form, and the tool may have had its effect by then. What has one obvious
meaning is read by it: a missing list of content, a text in its place, a block without its media type.
"""

import json
from typing import Any

from sojourn.core.values.json_value import is_array, is_object
from sojourn.mcp.blobs import media_type_of

__all__ = ["is_answer", "mend_answer"]

_KEYS = ("content", "structuredContent", "toolResult")
_FLAGS = {"true": True, "false": False}


def is_answer(result: dict[str, Any]) -> bool:
    """Whether a result is that of a call of a tool: no other one has these fields."""
    return any(key in result for key in _KEYS)


def mend_answer(result: dict[str, Any], *, is_modern: bool) -> None:
    """Mend an answer of a tool in place; one in the form of the protocol is not changed.

    Args:
        result: The answer.
        is_modern: Whether a structure may be any JSON, as since protocol 2026-07-28; before, it is an object.
    """
    content: Any = result.get("content")
    if not is_array(content):
        content = [] if content is None else [content]
    result["content"] = [_block(block) for block in content]
    if "toolResult" in result and not result["content"]:
        result["content"] = [_text(result["toolResult"])]
    structure = result.get("structuredContent")
    if structure is not None and not is_object(structure) and not is_modern:
        result["content"].append(_text(result.pop("structuredContent")))
    flag: Any = result.get("isError", False)
    if not isinstance(flag, bool):
        result["isError"] = _FLAGS.get(str(flag).lower(), bool(flag))


def _block(block: Any) -> Any:
    """Return a block in the form of the protocol; one of an unknown kind as a text."""
    if not is_object(block):
        return _text(block)
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return block
        case "text":
            return _text(block.get("text"))
        case "image" | "audio" if isinstance(data := block.get("data"), str):
            has_type = isinstance(block.get("mimeType"), str)
            guess = media_type_of(data) or f"{block['type']}/octet-stream"
            return block if has_type else {**block, "mimeType": guess}
        case "resource_link" if isinstance(uri := block.get("uri"), str):
            return block if isinstance(block.get("name"), str) else {**block, "name": uri}
        case "resource" if is_object(inside := block.get("resource")):
            has_uri = isinstance(inside.get("uri"), str)
            return block if has_uri else {**block, "resource": {**inside, "uri": ""}}
        case _:
            return _text(block)


def _text(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return {"type": "text", "text": text}
