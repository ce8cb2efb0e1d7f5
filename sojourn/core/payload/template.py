"""Fill a template with a payload: `{field}` for declared fields only; other braces are literal."""

import json
import re
from typing import Any

from sojourn.core.values.json_value import is_object
from sojourn.core.values.pointer import Schema, expand

__all__ = ["filled", "unknown_fields"]


def filled(template: str, schema: Schema, payload: dict[str, Any]) -> str:
    """The template with the payload's values, or the schema's defaults, in place of declared fields."""
    declared = schema.get("properties", {})

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name not in declared:
            return match[0]
        field = declared[name]
        value = payload.get(name, field.get("default", "") if is_object(field) else "")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return re.sub(r"\{(\w+)\}", fill, template)


def unknown_fields(template: str, schema: Schema) -> tuple[list[str], list[str]]:
    """The fields that a template names and the schema does not declare, and those that it declares.

    Doubled braces, such as `{{name}}`, and numbers in braces are text, which a prompt may well have.
    """
    parts = expand(schema, schema)
    declared = [name for part in parts for name in part.get("properties", {})]
    named = re.findall(r"(?<!\{)\{([^\W\d]\w*)\}(?!\})", template)
    return [name for name in named if name not in declared], declared
