"""A tool of a listing as its server sent it, made so that the SDK reads it.

The SDK refuses a whole listing for one tool with a schema or a text of another form. What it would refuse is put where the
SDK does not look, and `as_sent` takes it out again.
"""

from typing import Any

from sojourn.core.values.json_value import is_array, is_object

__all__ = ["as_sent", "readable"]

_KEPT = "x-sojourn-sent"
"""The keyword under which a schema is kept as it was sent."""

_SCHEMAS = ("inputSchema", "outputSchema")
_NOTES = ("annotations", "_meta", "icons", "execution")
"""Fields without which a tool can be called as well."""


def readable(tool: dict[str, Any], *, notes: bool = True) -> dict[str, Any]:
    """Return a listed tool in a form that the SDK reads.

    Args:
        tool: The tool as its server sent it.
        notes: Whether its annotations and the like are kept.
    """
    made = {name: value for name, value in tool.items() if notes or name not in _NOTES}
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
    """Return the schema of a tool from the SDK as its server sent it."""
    return schema[_KEPT] if is_object(schema) and _KEPT in schema else schema
