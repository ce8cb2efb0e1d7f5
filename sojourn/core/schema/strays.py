"""Fields of an alternative that was not matched, with values that it refuses.

JSON Schema takes any value for a field that only an alternative declares that does not apply: of
`oneOf: [{top}, {filter}]` a call with a good `top` may have any `filter`. But a caller who sends the field means what
the schema says of it, and a server that reads it would act on a value that nobody checked.
"""

from collections.abc import Iterator
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.schema.validate import Validator
from sojourn.core.values.json_value import is_object
from sojourn.core.values.pointer import Schema, expand, resolve

__all__ = ["stray_issues"]

_MAX_DEPTH = 8
_MAX_FIELDS = 50
_ALTERNATIVES = ("anyOf", "oneOf")


def stray_issues(validator: Validator, payload: dict[str, Any]) -> list[FieldIssue]:
    """The issues of fields that only alternatives declare that the payload does not fit; at most 50.

    Args:
        validator: Validates against the payload's schema.
        payload: A JSON object, valid or not.
    """
    root = validator.schema
    own = list(_own(root, root, _MAX_DEPTH))
    unions = [part[word] for part in own for word in _ALTERNATIVES if part.get(word)]
    if not unions:
        return []
    known = {name for part in own for name in part.get("properties", ())}
    failing: list[Schema] = []
    for branches in unions:
        described = [each for each in branches if is_object(each)]
        fitting = [each for each in described if validator.is_valid(payload, schema=each)]
        known.update(name for each in fitting for name in _declared(root, each))
        failing += [each for each in described if fitting and each not in fitting]
    declared: dict[str, list[Any]] = {}
    for each in failing:
        for name, schema in _declared(root, each).items():
            if name in payload and name not in known:
                declared.setdefault(name, []).append(schema)
    found: list[FieldIssue] = []
    for name, schemas in list(declared.items())[:_MAX_FIELDS]:
        found += _refused(validator, payload, name, schemas)
    return found[:_MAX_FIELDS]


def _refused(
    validator: Validator, payload: dict[str, Any], name: str, schemas: list[Any]
) -> list[FieldIssue]:
    """The issues of a field by its first schema; none if one of its schemas accepts it."""
    if any(validator.is_valid(payload[name], schema=schema) for schema in schemas):
        return []
    return validator.issues(payload, schema={"properties": {name: schemas[0]}})


def _own(root: Schema, schema: Any, depth: int) -> Iterator[Schema]:
    """A schema and the parts that always apply beside it."""
    if not is_object(schema) or not depth:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _own(root, resolve(root, reference), depth - 1)
    for part in schema.get("allOf", ()):
        yield from _own(root, part, depth - 1)


def _declared(root: Schema, schema: Schema) -> dict[str, Any]:
    """The fields that a schema declares, each with its subschema."""
    return {
        name: field for part in expand(root, schema) for name, field in part.get("properties", {}).items()
    }
