"""Validate payloads against a schema, and return every issue as data.

A valid payload costs one pass that builds nothing. An invalid one gets all its issues at once, field by
field, so that a model can repair the call in one step (SR-120, SR-139).

If only one alternative declares a field, and that alternative does not apply, JSON Schema takes any value
for the field: of `oneOf: [{top}, {filter}]` a call with a good `top` may have any `filter`. But a caller who
sends the field means the field of the schema, and a server that reads it would act on an unchecked value.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing import Registry

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.schema.annotations import has_secrets
from sojourn.core.schema.budget import Known, TooMuchWorkError, ValidationBudget, steps_for, use_budget
from sojourn.core.schema.dialect import Dialect
from sojourn.core.schema.drafts import in_2020_12
from sojourn.core.schema.fast_validator import FastValidator, fast_validator
from sojourn.core.schema.formats import FORMATS, TYPED_FORMATS
from sojourn.core.schema.issues import MISSING, UNKNOWN, to_issue, type_issue, type_names
from sojourn.values.json_value import Schema, expand, is_array, is_object, resolve

__all__ = ["MAX_ISSUES", "Validator", "has_integers", "stray_issues"]

MAX_ISSUES = 50

_EMPTY: Registry[Any] = Registry()
_FIRST = ("missing_field", "unknown_field")

# The ValueError is Python refusing to print an integer of thousands of digits in jsonschema's message.
_UNCHECKABLE = (RecursionError, TooMuchWorkError, OverflowError, ValueError)


class Validator:
    """A schema that is compiled once and used for every call.

    It is safe to share between threads.

    Args:
        schema: A schema that `sojourn.core.schema.enforceable` checked, usually closed. It is read in the draft that it names.
        typed: Whether a Python type, from which the schema was made, decodes the value afterwards. If so, a date or time
            has any form that the type may take.
    """

    def __init__(self, schema: Schema, *, typed: bool = False) -> None:
        self.schema: Schema = in_2020_12(schema)
        formats = TYPED_FORMATS if typed else FORMATS
        self._validator: Any = Dialect(self.schema, format_checker=formats, registry=_EMPTY)
        self._known = Known()
        self._quick: FastValidator | None = fast_validator(self.schema, formats)
        self.has_secrets = has_secrets(self.schema)
        self.has_integers = has_integers(self.schema)

    def fits_at_once(self, value: Any) -> bool:
        """Return whether a value certainly fits.

        The check takes a few milliseconds. False means unknown.
        """
        return self._quick is not None and self._quick.accepts(value, at_once=True)

    def is_valid(self, value: Any, *, schema: Any = None) -> bool:
        """Return whether a value fits the schema, or a subschema of it.

        False, too, if the check would take too much work.
        """
        if schema is None and self._quick is not None and self._quick.accepts(value):
            return True
        validator = self._validator if schema is None else self._validator.evolve(schema=schema)
        try:
            with use_budget(self._begin(value)):
                return validator.is_valid(value)
        except _UNCHECKABLE:
            return False

    def issues(
        self, payload: Any, *, most: int = MAX_ISSUES, exact_integers: bool = False, schema: Any = None
    ) -> list[FieldIssue]:
        """Return every issue, at most 50 by default.

        Empty when the payload fits.

        Missing fields come first, then unknown ones (often the same, misspelt), outer before inner, then the
        others. Otherwise issues are in the order of the schema. If a value takes too much work to validate,
        it has one issue: it has to be smaller or flatter.
        """
        try:
            budget = self._begin(payload)
            budget.exact_integers = exact_integers
            with use_budget(budget):
                validator = self._validator if schema is None else self._validator.evolve(schema=schema)
                found = islice(_distinct(_issues(validator.iter_errors(payload))), most)
                return sorted(found, key=_rank)
        except _UNCHECKABLE:
            return [
                FieldIssue(field="", constraint="invalid_length", expected_type="smaller or flatter value")
            ]

    def _begin(self, value: Any) -> ValidationBudget:
        return ValidationBudget(self.schema, steps_for(value), self._known)


def _rank(issue: FieldIssue) -> tuple[int, int]:
    if issue.constraint in _FIRST:
        return _FIRST.index(issue.constraint), issue.field.count("/")
    return len(_FIRST), 0


def _issues(errors: Iterable[ValidationError], above: tuple[str | int, ...] = ()) -> Iterator[FieldIssue]:
    for error in errors:
        path = (*above, *error.relative_path)
        if error.context:
            yield from _union_issues(error, path)
        else:
            yield to_issue(error, path)


def _union_issues(union: ValidationError, path: tuple[str | int, ...]) -> Iterator[FieldIssue]:
    """Yield the issues of the branch that was most likely intended.

    It is of the right type, for the fields that were sent, and has the fewest issues. When the value has the
    type of no branch, the only issue is its type.
    """
    branches: dict[str | int, list[ValidationError]] = {}
    for error in union.context or ():
        branches.setdefault(error.relative_schema_path[0], []).append(error)
    typed = [errors for errors in branches.values() if not any(map(_is_of_other_type, errors))]
    if typed:
        yield from _issues(min(typed, key=lambda errors: (_count_misfits(errors), _weight(errors))), path)
    else:
        wrong = (error for errors in branches.values() for error in errors if _is_of_other_type(error))
        yield type_issue(path, _types(wrong), union.instance)


def _count_misfits(errors: list[ValidationError]) -> int:
    # With many, another branch was meant.
    own = (error for error in errors if len(error.relative_path) == 1)
    return sum(error.validator in (*MISSING, *UNKNOWN) for error in own)


def _weight(errors: list[ValidationError]) -> int:
    return sum(len(error.context) if error.context else 1 for error in errors)


def _is_of_other_type(error: ValidationError) -> bool:
    if error.relative_path:
        return False
    if error.context:
        return all(map(_is_of_other_type, error.context))
    return error.validator in ("type", None)  # None is the schema `false`, which has no type at all


def _types(errors: Iterable[ValidationError]) -> list[str]:
    found: dict[str, None] = {}
    for error in errors:
        names = _types(error.context) if error.context else type_names(error.validator_value)
        found |= dict.fromkeys(names)
    return list(found)


def _distinct(issues: Iterable[FieldIssue]) -> Iterator[FieldIssue]:
    # Subschemas of a composition repeat one another.
    seen: set[tuple[str, str]] = set()
    for issue in issues:
        key = (issue.field, issue.constraint)
        if key not in seen:
            seen.add(key)
            yield issue


def has_integers(schema: Any) -> bool:
    """Return whether a schema, or something in it, has the type `integer`."""
    level = [schema]
    while level:
        part = level.pop()
        if is_object(part):
            kind = part.get("type")
            if kind == "integer" or (is_array(kind) and "integer" in kind):
                return True
            level.extend(part.values())
        elif is_array(part):
            level.extend(part)
    return False


_MAX_DEPTH = 8
_MAX_FIELDS = 50
_ALTERNATIVES = ("anyOf", "oneOf")


def stray_issues(validator: Validator, payload: dict[str, Any]) -> list[FieldIssue]:
    """Return the issues of fields from alternatives that do not apply, at most 50.

    Only alternatives that the payload does not fit declare these fields.
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
        known.update(name for each in fitting for name in _declared_properties(root, each))
        failing += [each for each in described if fitting and each not in fitting]
    declared: dict[str, list[Any]] = {}
    for each in failing:
        for name, schema in _declared_properties(root, each).items():
            if name in payload and name not in known:
                declared.setdefault(name, []).append(schema)
    found: list[FieldIssue] = []
    for name, schemas in list(declared.items())[:_MAX_FIELDS]:
        found += _refusal(validator, payload, name, schemas)
    return found[:_MAX_FIELDS]


def _refusal(
    validator: Validator, payload: dict[str, Any], name: str, schemas: list[Any]
) -> list[FieldIssue]:
    if any(validator.is_valid(payload[name], schema=schema) for schema in schemas):
        return []
    return validator.issues(payload, schema={"properties": {name: schemas[0]}})


def _own(root: Schema, schema: Any, depth: int) -> Iterator[Schema]:
    """Yield a schema and the parts that always apply beside it."""
    if not is_object(schema) or not depth:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _own(root, resolve(root, reference), depth - 1)
    for part in schema.get("allOf", ()):
        yield from _own(root, part, depth - 1)


def _declared_properties(root: Schema, schema: Schema) -> dict[str, Any]:
    return {
        name: field for part in expand(root, schema) for name, field in part.get("properties", {}).items()
    }
