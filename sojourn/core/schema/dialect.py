"""Enforce JSON Schema 2020-12 with jsonschema, made safe for hostile input.

A foreign schema is applied to a model's payload on a worker that serves hundreds of other
calls, so the cost of validation is bounded, which plain jsonschema's is not:

* Patterns run on RE2. A pattern that RE2 does not support (look-around, back references) is left to
  the tool's own decoding.
* References are never fetched.
* Every subschema applied to a value is counted, and so are the names and values that keywords search: a
  recursive union can ask for 2**64 steps over a payload 64 deep, and 2,000 rules of 5,000
  items are 10,000,000. No error message contains the value, as jsonschema's do.
* No Rust in the recursion: jsonschema's own maps of types and references panic, past every
  `except Exception`, when Python's recursion limit is reached inside them.
* A union whose branches have a constant as a tag tries only the branch with the value's tag,
  whose errors are also the only useful ones.
* `sojourn.core.schema.keywords` has the keywords that look at one value.

An error about one field (a required or unknown one) has that field in its path.
"""

from collections.abc import Iterator
from typing import Any, cast

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from sojourn.core.schema.budget import BUDGET, find_discriminator
from sojourn.core.schema.formats import matches
from sojourn.core.schema.issues import ONLY_ONE
from sojourn.core.schema.keywords import LEAVES, unevaluated_items, unevaluated_properties
from sojourn.values.json_value import Schema, expand, is_array, is_object, json_type, resolve

__all__ = ["Dialect"]

_Errors = Iterator[ValidationError]

_CHARS_PER_STEP = 256


def _ref(validator: Any, reference: str, instance: Any, _schema: Schema) -> _Errors:
    target = resolve(BUDGET.get().root, reference)
    if target is None:
        raise ValueError(f"$ref {reference!r} leads to no schema")
    if not _passes(validator, target, instance):
        yield from validator.descend(instance, target)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Schema) -> _Errors:
    if isinstance(instance, str):
        BUDGET.get().spend(len(instance) // _CHARS_PER_STEP)
        if not matches(pattern, instance):
            yield ValidationError("does not match the pattern")


def _descend(validator: Any, value: Any, subschema: Any, step: str | int) -> _Errors:
    # If a subschema is `false`, jsonschema loses the path.
    if subschema is False:
        yield ValidationError("not allowed", validator=cast("Any", None), validator_value=None, path=[step])
    elif not _passes(validator, subschema, value):
        yield from validator.descend(value, subschema, path=step)


def _properties(validator: Any, properties: dict[str, Any], instance: Any, _schema: Schema) -> _Errors:
    if is_object(instance):
        for name, subschema in properties.items():
            if name in instance:
                yield from _descend(validator, instance[name], subschema, name)


def _items(validator: Any, items: Any, instance: Any, schema: Schema) -> _Errors:
    if is_array(instance):
        for index in range(len(schema.get("prefixItems", ())), len(instance)):
            if items is False:
                yield ValidationError("too many items", validator="maxItems", validator_value=index)
                return
            yield from _descend(validator, instance[index], items, index)


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Schema) -> _Errors:
    if is_object(instance):
        for pattern, subschema in patterns.items():
            BUDGET.get().spend(_matching(instance))
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from _descend(validator, value, subschema, name)


def _matching(instance: dict[str, Any]) -> int:
    """Steps of searching all names for one pattern."""
    return len(instance) + sum(map(len, instance)) // _CHARS_PER_STEP


def _property_names(validator: Any, rule: Any, instance: Any, _schema: Schema) -> _Errors:
    if is_object(instance):
        names = validator.evolve(schema=rule)
        yield from (
            ValidationError("the name is not allowed", path=[name])
            for name in instance
            if not names.is_valid(name)
        )


def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Schema) -> _Errors:
    if is_object(instance):
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        BUDGET.get().spend(len(patterns) * _matching(instance))
        for name, value in instance.items():
            if name in known or any(matches(pattern, name) for pattern in patterns):
                continue
            yield from _descend(validator, value, rule, name)


def _required(_validator: Any, names: list[str], instance: Any, _schema: Schema) -> _Errors:
    if is_object(instance):
        yield from (ValidationError("missing", path=[name]) for name in names if name not in instance)


def _dependent_required(
    _validator: Any, needs: dict[str, list[str]], instance: Any, schema: Schema
) -> _Errors:
    for name, needed in needs.items():
        if is_object(instance) and name in instance:
            yield from _required(_validator, needed, instance, schema)


def _any_of(validator: Any, branches: list[Any], instance: Any, _schema: Schema) -> _Errors:
    context: list[ValidationError] = []
    for _, errors in _try_branches(validator, branches, instance):
        if not errors:
            return
        context += errors
    yield ValidationError("fits no alternative", context=context)


def _one_of(validator: Any, branches: list[Any], instance: Any, _schema: Schema) -> _Errors:
    tried = list(_try_branches(validator, branches, instance))
    fitting = sum(not errors for _, errors in tried)
    if fitting == 0:
        yield ValidationError(
            "fits no alternative", context=[error for _, errors in tried for error in errors]
        )
    elif fitting > 1:
        fits = [branches[index] for index, errors in tried if index >= 0 and not errors]
        excluding = _excluding(fits, instance)
        for name in excluding:
            yield ValidationError("excludes others", ONLY_ONE, [name], validator_value=excluding)
        if not excluding:
            yield ValidationError("fits more than one alternative")


def _excluding(branches: list[Any], instance: Any) -> list[str]:
    if not is_object(instance) or not all(map(is_object, branches)):
        return []
    root = BUDGET.get().root
    named = [_name_field(root, branch).intersection(instance) for branch in branches]
    shared = named[0].intersection(*named)
    if not all(names - shared for names in named):
        return []
    return [name for name in instance if any(name in names - shared for names in named)]


def _name_field(root: Schema, branch: Schema) -> frozenset[str]:
    parts = expand(root, branch)
    return frozenset(
        name for part in parts for word in ("properties", "required") for name in part.get(word, ())
    )


def _try_branches(
    validator: Any, branches: list[Any], instance: Any
) -> Iterator[tuple[int, list[ValidationError]]]:
    # Index -1 means all branches that the tag rules out.
    work = BUDGET.get()
    known = work.known.discriminators
    if id(branches) not in known:
        known[id(branches)] = branches, find_discriminator(work.root, branches)
    _, discriminator = known[id(branches)]
    ruled_out = discriminator.rule_out(instance) if discriminator else frozenset[int]()
    for index, branch in enumerate(branches):
        if index not in ruled_out:
            errors: list[ValidationError] = list(validator.descend(instance, branch))
            for error in errors:
                error.schema_path.appendleft(index)
            yield index, errors
    if discriminator and discriminator.branches <= ruled_out:
        yield (
            -1,
            [
                ValidationError(
                    "no such tag",
                    "discriminator",
                    [discriminator.name],
                    schema_path=[-1],
                    validator_value=discriminator.tags,
                    instance=instance,
                )
            ],
        )


def _passes(validator: Any, subschema: Any, value: Any) -> bool:
    # Entering a subschema costs jsonschema more than checking it. False only means: validate in full.
    if not is_object(subschema):
        return False
    BUDGET.get().enter(subschema)
    return all(_passes_rule(validator, word, rule, value, subschema) for word, rule in subschema.items())


def _passes_rule(validator: Any, word: str, rule: Any, value: Any, subschema: Schema) -> bool:
    if word in _LEAF_CHECKS:
        return next(_LEAF_CHECKS[word](validator, rule, value, subschema), None) is None
    if word == "anyOf":
        return any(_passes(validator, branch, value) for branch in rule)
    if word == "items" and is_array(value):
        return "prefixItems" not in subschema and all(_passes(validator, rule, item) for item in value)
    return word in _ANNOTATIONS


_KEYWORDS: Any = {
    **LEAVES,
    "$ref": _ref,
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "dependentRequired": _dependent_required,
    "items": _items,
    "oneOf": _one_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "properties": _properties,
    "propertyNames": _property_names,
    "required": _required,
    "unevaluatedItems": unevaluated_items,
    "unevaluatedProperties": unevaluated_properties,
}


class _Types:
    """The type checker of jsonschema.

    `1.0` is an integer, as the specification says, unless the budget says otherwise.
    """

    def is_type(self, instance: Any, type: str) -> bool:
        kind = json_type(instance)
        if type == "number":
            return kind in ("integer", "number")
        if kind == "number" and type == "integer":
            return instance.is_integer() and not BUDGET.get().exact_integers
        return kind == type


Dialect = cast("Any", validators).extend(Draft202012Validator, _KEYWORDS, type_checker=_Types())
"""The validator class; used only inside `working`, which sets `BUDGET`."""


def _counted_descend(enter: Any = Dialect.descend) -> Any:
    def descend(self: Any, instance: Any, schema: Any, **where: Any) -> _Errors:
        BUDGET.get().enter(schema)
        return enter(self, instance, schema, **where)

    return descend


def _counted_errors(find: Any = Dialect.iter_errors) -> Any:
    def iter_errors(self: Any, instance: Any) -> _Errors:
        BUDGET.get().enter(self.schema)
        return find(self, instance)

    return iter_errors


# jsonschema applies every subschema by one of these two methods.
Dialect.descend, Dialect.iter_errors = _counted_descend(), _counted_errors()

_LEAF_CHECKS: dict[str, Any] = {
    word: Dialect.VALIDATORS[word]
    for word in (
        "const", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties",
        "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "type", "uniqueItems",
    )
}  # fmt: skip
_ANNOTATIONS = (
    "$comment",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
)
