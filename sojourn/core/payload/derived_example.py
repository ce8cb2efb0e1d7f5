"""Derive an example from a refused payload: repair its issues, and change nothing else.

Values are tried in this order of trust: the value sent, in a likely reading (a misspelt name, `"5"`
for 5, JSON inside a string, a value just outside its bounds, an enum value in another case);
then the tool author's example at the same place; then what the schema determines.
A repair may uncover further issues, so the repairs run in rounds.
"""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

from sojourn.contracts.retry_hint import FieldIssue
from sojourn.core.payload.coerce import meanings
from sojourn.core.schema.sample import NoSampleError, sample
from sojourn.core.schema.validate import Validator
from sojourn.core.values.json_value import is_array, is_object, json_type
from sojourn.core.values.pointer import ABSENT, Schema, expand, locate, to_tokens, value_at
from sojourn.core.values.text import closest_name

__all__ = ["derive_example", "put"]

_ROUNDS = 8


def derive_example(
    validator: Validator, payload: dict[str, Any], author_example: Any = None
) -> dict[str, Any] | None:
    """A copy of the payload that fits the schema, or None when some issue cannot be repaired.

    Args:
        validator: Validates against the schema to fit.
        payload: The payload as sent; not changed.
        author_example: A payload that fits, as a source of values.
    """
    repaired: dict[str, Any] = deepcopy(payload)
    for _ in range(_ROUNDS):
        issues = validator.issues(repaired)
        if not issues:
            return repaired
        before = deepcopy(repaired)
        _rename(validator, repaired, issues)
        for issue in issues:
            _repair_one(validator, repaired, issue, author_example)
        if repaired == before:
            return None
    return None


def _rename(validator: Validator, payload: dict[str, Any], issues: list[FieldIssue]) -> None:
    """Move the value of an unknown field to the field with the closest name: a missing one, else an absent one."""
    missing = [to_tokens(issue.field) for issue in issues if issue.constraint == "missing_field"]
    for issue in issues:
        *place, name = to_tokens(issue.field) or ("",)
        parent = value_at(payload, place)
        if issue.constraint == "unknown_field" and is_object(parent) and name in parent:
            wanted = [
                tokens[-1] for tokens in missing if list(tokens[:-1]) == place and tokens[-1] not in parent
            ]
            intended = closest_name(name, wanted) or closest_name(name, _absent(validator, place, parent))
            if intended is not None:
                parent[intended] = parent.pop(name)


def _absent(validator: Validator, place: list[str], parent: dict[str, Any]) -> list[str]:
    """The declared fields that are absent at a place."""
    parts = (part for schema in locate(validator.schema, place) for part in expand(validator.schema, schema))
    return [name for part in parts for name in part.get("properties", {}) if name not in parent]


def _repair_one(
    validator: Validator, payload: dict[str, Any], issue: FieldIssue, author_example: Any
) -> None:
    tokens = to_tokens(issue.field)
    parent = value_at(payload, tokens[:-1])
    if not tokens or not (is_object(parent) or is_array(parent)):
        return
    if issue.constraint == "unknown_field" and is_object(parent):
        parent.pop(tokens[-1], None)
        return
    sent = value_at(payload, tokens)
    if (sent is ABSENT) != (issue.constraint == "missing_field"):
        return  # an earlier repair of this round settled the issue
    if sent is None and is_object(parent) and not _is_required(validator, tokens):
        del parent[tokens[-1]]
        return
    for value in _proposals(validator, issue, sent, value_at(author_example, tokens)):
        put(parent, tokens[-1], deepcopy(value))
        return
    if not _drop_optional(validator, payload, tokens):
        for value in _made(validator, tokens):
            put(parent, tokens[-1], deepcopy(value))
            return


def _drop_optional(validator: Validator, payload: dict[str, Any], tokens: tuple[str, ...]) -> bool:
    """Remove the innermost optional field around an issue; returns whether there is one."""
    for length in range(len(tokens), 0, -1):
        parent = value_at(payload, tokens[: length - 1])
        if is_object(parent) and not _is_required(validator, tokens[:length]):
            parent.pop(tokens[length - 1], None)
            return True
    return False


def _proposals(validator: Validator, issue: FieldIssue, sent: Any, example: Any) -> Iterator[Any]:
    """Values for a place, the best first; for a broken pattern none is made from the schema alone, which would be a guess."""
    tokens = to_tokens(issue.field)
    schemas = locate(validator.schema, tokens)
    if sent is not ABSENT:
        for value in meanings(issue, sent):
            # A value of the right type is enough where the type was the issue: a later round repairs what is
            # inside.
            if _is_expected(issue, value) or _fits(validator, schemas, value):
                yield value
    others = [] if example is ABSENT else [example]
    others += issue.allowed or []
    yield from (value for value in others if _fits(validator, schemas, value))
    if issue.constraint != "invalid_pattern":
        yield from _made(validator, tokens)


def _made(validator: Validator, tokens: tuple[str, ...]) -> Iterator[Any]:
    """Values made from the schemas of a place."""
    schemas = locate(validator.schema, tokens)
    for schema in schemas:
        with suppress(NoSampleError):
            value = sample(validator.schema, schema)
            if _fits(validator, schemas, value):
                yield value


def _fits(validator: Validator, schemas: list[Schema], value: Any) -> bool:
    return not schemas or any(validator.is_valid(value, schema=schema) for schema in schemas)


def _is_expected(issue: FieldIssue, value: Any) -> bool:
    expected = (issue.expected_type or "").split(" or ") if issue.constraint == "invalid_field_type" else []
    return json_type(value) in expected or ("number" in expected and json_type(value) == "integer")


def _is_required(validator: Validator, tokens: tuple[str, ...]) -> bool:
    parents = (
        part for schema in locate(validator.schema, tokens[:-1]) for part in expand(validator.schema, schema)
    )
    return any(tokens[-1] in part.get("required", ()) for part in parents)


def put(parent: Any, name: str, value: Any) -> None:
    """Set a field of an object, or an item of an array by its index."""
    parent[int(name) if is_array(parent) else name] = value
