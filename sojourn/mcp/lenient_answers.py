"""Answers and listed tools as servers send them, mended for the SDK.

The SDK refuses a whole answer for one field of another form, when the tool may have had its effect. What
has one obvious meaning is read by it: a missing list of content, a text in its place, a block without its
media type. It also refuses a whole listing for one tool. What it would refuse is stored in a place that it
does not read, and `as_sent` takes it out again.
"""

import json
from collections.abc import Callable
from typing import Any

from sojourn.mcp.content import media_type_of
from sojourn.values.json_value import is_array, is_object

__all__ = ["as_sent", "drop_odd_meta", "is_answer", "mend_answer", "readable"]

_KEYS = ("content", "structuredContent", "toolResult")
_ROLES = ("user", "assistant")
_FLAGS = {"true": True, "false": False}


def is_answer(result: dict[str, Any]) -> bool:
    """Check whether a result is that of a tool call, by its fields."""
    return any(key in result for key in _KEYS)


def mend_answer(result: dict[str, Any], *, is_modern: bool) -> None:
    """Mend an answer of a tool in place.

    Since protocol 2026-07-28 (`is_modern`) a structure may be any JSON; before, it is an object.
    """
    content: Any = result.get("content")
    if not is_array(content):
        content = [] if content is None else [content]
    result["content"] = [_block(_without_odd_notes(block)) for block in content]
    if "toolResult" in result and not result["content"]:
        result["content"] = [_text(result["toolResult"])]
    structure = result.get("structuredContent")
    if structure is not None and not is_object(structure) and not is_modern:
        result["content"].append(_text(result.pop("structuredContent")))
    flag: Any = result.get("isError", False)
    if not isinstance(flag, bool):
        result["isError"] = _FLAGS.get(str(flag).lower(), bool(flag))


def drop_odd_meta(result: dict[str, Any]) -> None:
    """Remove metadata of any result that is no object: no call needs it."""
    if "_meta" in result and not is_object(result["_meta"]):
        del result["_meta"]


def _without_odd_notes(block: Any) -> Any:
    """Return a block without notes that break the protocol, such as an audience."""
    if not is_object(block):
        return block
    odd = {name for name, fits in _NOTES.items() if block.get(name) is not None and not fits(block[name])}
    inside: Any = block.get("resource")
    if is_object(inside):
        block = {**block, "resource": _without_odd_notes(inside)}
    return {name: value for name, value in block.items() if name not in odd}


def _is_annotation(value: Any) -> bool:
    if not is_object(value):
        return False
    audience, priority = value.get("audience"), value.get("priority")
    return (
        (audience is None or (is_array(audience) and all(each in _ROLES for each in audience)))
        and (priority is None or (_is_number(priority) and 0 <= priority <= 1))
        and _is_text(value.get("lastModified", ""))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


_NOTES: dict[str, Callable[[Any], bool]] = {
    "_meta": is_object,
    "annotations": _is_annotation,
    "title": _is_text,
    "description": _is_text,
    "mimeType": _is_text,
    "size": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "icons": lambda value: is_array(value) and all(is_object(each) and "src" in each for each in value),
}


def _block(block: Any) -> Any:
    """Return a block in the form of the protocol, as a text if it is unknown."""
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


_KEPT = "x-sojourn-sent"
_SCHEMAS = ("inputSchema", "outputSchema")
_TOOL_NOTES = ("annotations", "_meta", "icons", "execution")


def readable(tool: dict[str, Any], *, notes: bool = True) -> dict[str, Any]:
    """Return a listed tool in a form that the SDK reads."""
    made = {name: value for name, value in tool.items() if notes or name not in _TOOL_NOTES}
    for word in ("title", "description"):
        if word in made and not isinstance(text := made[word], str):
            del made[word]
            if is_array(text) and all(isinstance(each, str) for each in text):
                made[word] = "\n".join(text)
    for word in _SCHEMAS:
        if word in made or word == "inputSchema":
            made[word] = {"type": "object", _KEPT: made.get(word)}
    return made


def as_sent(schema: object) -> object:
    return schema[_KEPT] if is_object(schema) and _KEPT in schema else schema
