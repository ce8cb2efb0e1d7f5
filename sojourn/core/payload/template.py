"""Fill a template with a payload: `{field}` for declared fields only; other braces are literal."""

import json
import re
from typing import Any

from sojourn.core.values.json_value import is_object
from sojourn.core.values.pointer import Schema

__all__ = ["filled"]


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
