"""Fill a template with a payload.

Only `{field}` of a declared field is replaced. Other braces are literal.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from sojourn.values.json_value import Schema, expand, is_object
from sojourn.values.visible import inert

__all__ = ["fill_question", "fill_template", "unknown_fields"]

MAX_VALUE = 160

_WORD = re.compile(r"[\w.@:/+-]+")


def fill_template(
    template: str, schema: Schema, payload: dict[str, Any], *, write: Callable[[str], str] = str
) -> str:
    """Replace the declared fields in a template by the payload's values.

    If the payload lacks one, the schema's default takes its place.
    """
    declared = schema.get("properties", {})

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name not in declared:
            return match[0]
        field = declared[name]
        value = payload.get(name, field.get("default", "") if is_object(field) else "")
        return write(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    return re.sub(r"\{(\w+)\}", fill, template)


def fill_question(
    template: str, schema: Schema, payload: dict[str, Any], names: Mapping[str, str] | None = None
) -> str:
    """Return a template's question to a person, on one line.

    A value that is a key of `names`, such as the id of a file, is replaced by its name.

    A model writes the values. So each is escaped and cut, and quoted if it is more than a word: it cannot be read as markup,
    and cannot continue the author's sentence.
    """
    known = names or {}
    return fill_template(
        " ".join(template.split()), schema, payload, write=lambda value: _quote(known.get(value, value))
    )


def _quote(value: str) -> str:
    short = (
        value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE * 3 // 4]} … {value[-MAX_VALUE // 4 :]}"
    )
    if not short or _WORD.fullmatch(short):
        return inert(short)
    return '"' + inert(short).replace('"', "\\u0022") + '"'


def unknown_fields(template: str, schema: Schema) -> tuple[list[str], list[str]]:
    """Return the undeclared fields that a template names, and the declared fields.

    Doubled braces, such as `{{name}}`, and numbers in braces are text, which a prompt may well have.
    """
    parts = expand(schema, schema)
    declared = [name for part in parts for name in part.get("properties", {})]
    named = re.findall(r"(?<!\{)\{([^\W\d]\w*)\}(?!\})", template)
    return [name for name in named if name not in declared], declared
