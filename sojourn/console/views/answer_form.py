"""Answer form: the fields of a question's form as a page has them, and the answer that was filled in."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.contracts.awaits import AwaitClarification
from sojourn.errors import InvalidInput

__all__ = ["PREFIX", "AnswerField", "answer_of", "fields_in", "fields_of", "values_in"]

PREFIX = "field."
"""What the names of the fields begin with in a form."""

MAX_FIELDS = 40


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A field of the form."""

    name: str
    label: str
    about: str
    kind: str
    """`text`, `long`, `number`, `integer`, `yes`, `choice` or `json`."""
    choices: Sequence[str] = ()
    value: str = ""
    is_required: bool = False


def fields_of(wait: AwaitClarification) -> list[AnswerField]:
    """The fields of a question's form, those that are missing; none where the answer is a text."""
    if wait.form is None:
        return []
    return fields_in(wait.form, wait.missing_fields, wait.example_input or {})


def fields_in(
    schema: Mapping[str, Any], wanted: Sequence[str], example: Mapping[str, Any]
) -> list[AnswerField]:
    """The fields of an object's schema.

    Args:
        schema: The JSON Schema.
        wanted: The names of those that are needed; all of the schema where none is named.
        example: An example of the object, which fills them in.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = {*map(str, schema.get("required", [])), *wanted}
    names = [name for name in wanted if name in properties] or list(properties)
    return [
        _field(name, properties[name], is_required=name in required, example=example.get(name))
        for name in names[:MAX_FIELDS]
    ]


def _field(name: str, schema: Any, *, is_required: bool, example: Any) -> AnswerField:
    known = _plain(schema)
    value = known.get("default", example)
    return AnswerField(
        name,
        str(known.get("title") or name),
        str(known.get("description") or ""),
        _kind(known),
        [str(each) for each in known.get("enum", [])][:200],
        "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        is_required,
    )


def _plain(schema: Any) -> Mapping[str, Any]:
    """A schema; of one that may also be null, the other one, with its title."""
    known = cast("Mapping[str, Any]", schema if isinstance(schema, dict) else {})
    either = [each for each in known.get("anyOf", []) if each != {"type": "null"}]
    return {**known, **either[0]} if len(either) == 1 and isinstance(either[0], dict) else known


def _kind(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), list) and all(isinstance(each, str) for each in schema["enum"]):
        return "choice"
    known = {"number": "number", "integer": "integer", "boolean": "yes"}
    kind = schema.get("type")
    if kind == "string":
        return "long" if int(schema.get("maxLength", 0) or 0) > 200 else "text"
    return known.get(kind, "json") if isinstance(kind, str) else "json"


def answer_of(wait: AwaitClarification, given: Mapping[str, str]) -> dict[str, Any]:
    """The answer by field.

    Args:
        wait: The question.
        given: The texts of the form, by the names of the fields.

    Raises:
        InvalidInput: A text is no value of its field.
    """
    return values_in(fields_of(wait), given)


def values_in(fields: Sequence[AnswerField], given: Mapping[str, str]) -> dict[str, Any]:
    """The values of fields that were filled in; raises as `answer_of`."""
    found: dict[str, Any] = {}
    for field in fields:
        text = given.get(field.name, "")
        if field.kind == "yes":
            found[field.name] = text == "yes"
        elif text != "" or (field.kind in ("text", "long") and field.is_required):
            found[field.name] = _value(field, text)
    return found


def _value(field: AnswerField, text: str) -> Any:
    if field.kind in ("text", "long", "choice"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if field.kind == "json" and (value is not None or text.strip() == "null"):
        return value
    if field.kind in ("number", "integer") and is_number:
        return value
    raise InvalidInput(f"{field.label}: {text[:80]!r} is no {'number' if field.kind != 'json' else 'JSON'}")
