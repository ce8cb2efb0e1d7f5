"""Find the invented values of an example, and replace them by placeholders.

Models copy examples. One example had the author's order in place of a faulty one. A model sent it word for
word, and the call refunded an order that no user had named. So a model reads a template that the tool refuses
until its placeholders are replaced.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.payload.coerce import lacks_zone, may_be_misnamed
from sojourn.core.schema.validate import Validator
from sojourn.values.json_value import (
    ABSENT,
    Schema,
    expand,
    is_array,
    is_object,
    locate,
    resolve,
    value_at,
)
from sojourn.values.text import plain

__all__ = [
    "MAX_INVENTED",
    "Example",
    "Tokens",
    "find_invented",
    "is_required",
    "placeholder",
    "set_value",
    "template_of",
]

Tokens = tuple[str, ...]

MAX_INVENTED = 100
"""Most pointers that a hint names."""

_MAX_NAME = 60
_MAX_NESTED = 6


@dataclass(frozen=True, slots=True)
class Example:
    payload: dict[str, Any]
    invented: frozenset[Tokens] = field(default_factory=frozenset[Tokens])
    """The paths to its values that do not follow from the call."""
    left_out: frozenset[Tokens] = field(default_factory=frozenset[Tokens])
    """The paths to values that were sent and are left out.

    For a tool that changes something, these are optional values that do not fit, and unknown fields. The empty
    path means a whole text that could not be read.
    """

    @property
    def open(self) -> list[Tokens]:
        """The paths to what only the caller can say, in order."""
        return sorted(self.invented | self.left_out)


def find_invented(
    root: Schema,
    value: Any,
    at: Tokens = (),
    sent: Any = ABSENT,
    *,
    beside: Any = ABSENT,
    reads: bool = False,
) -> Iterator[Tokens]:
    """Yield the paths to the made-up values in a value.

    Neither the schema determines them nor has a caller sent them.
    """
    if sent is not ABSENT and _json(value) == _json(sent):
        return
    if at and _is_determined(root, at, value, sent=sent, beside=beside, reads=reads):
        return
    if is_object(value) and value:
        for name, inner in value.items():
            yield from find_invented(
                root, inner, (*at, name), value_at(sent, (name,)), beside=sent, reads=reads
            )
    elif is_array(value) and value:
        for index, inner in enumerate(value):
            yield from find_invented(
                root, inner, (*at, str(index)), value_at(sent, (str(index),)), reads=reads
            )
    elif at:
        yield at


def _is_determined(root: Schema, at: Tokens, value: Any, *, sent: Any, beside: Any, reads: bool) -> bool:
    # A default is determined if no value was sent. If the tool changes nothing, so is the only value that the
    # schema allows. The constant of an absent field that not every alternative requires is the choice of an
    # alternative. For a tool that changes something a constant is a consent, such as `confirm: true`, which
    # only a caller gives.
    is_absent = sent is ABSENT
    parts = [part for found in locate(root, at) for part in expand(root, found)]
    has_default = is_absent and any("default" in part for part in parts)
    if is_absent and may_be_misnamed(root, at, beside):
        return False
    if not has_default and not (reads and (not is_absent or _is_always_required(root, at))):
        return False
    if not is_absent and isinstance(value, bool):
        return False  # who says `false` does not mean `true`
    for word in ("const", "default") if is_absent else ("const",):
        stated = {_json(part[word]) for part in parts if word in part}
        if stated == {_json(value)}:
            return True
    return any(part.get("enum") == [value] for part in parts) and not isinstance(value, bool)


def _is_always_required(root: Schema, at: Tokens) -> bool:
    return any(_requires(root, each, at[-1], _MAX_NESTED) for each in locate(root, at[:-1]))


def _requires(root: Schema, schema: Any, name: str, depth: int) -> bool:
    if not is_object(schema) or not depth:
        return False
    if name in schema.get("required", ()):
        return True
    reference = schema.get("$ref")
    target = resolve(root, reference) if isinstance(reference, str) else None
    whole = [target, *schema.get("allOf", ())]
    alternatives = [schema[word] for word in ("oneOf", "anyOf") if schema.get(word)]
    return any(_requires(root, each, name, depth - 1) for each in whole) or any(
        all(_requires(root, each, name, depth - 1) for each in branches) for branches in alternatives
    )


def is_required(validator: Validator, tokens: Tokens) -> bool:
    """Check whether the object around a field requires it in any of its alternatives."""
    parents = (
        part for schema in locate(validator.schema, tokens[:-1]) for part in expand(validator.schema, schema)
    )
    return any(tokens[-1] in part.get("required", ()) for part in parents)


def template_of(
    validator: Validator, example: Example, sent: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the example with a placeholder for each open value.

    The tool refuses such a payload. None if no value is open, or too many are. A field is left out if its
    placeholder would be accepted, or if it is optional and was not sent.
    """
    if not 0 < len(example.open) <= MAX_INVENTED:
        return None
    made, gone = deepcopy(example.payload), list[Tokens]()
    for tokens in filter(None, example.open):
        parent, was_sent = value_at(made, tokens[:-1]), tokens in example.left_out
        if (value_at(made, tokens) is ABSENT) is not was_sent or not (is_object(parent) or is_array(parent)):
            continue
        text = _placeholder(validator, tokens, value_at(sent, tokens))
        is_optional = is_object(parent) and not was_sent and not is_required(validator, tokens)
        if is_optional or not _refuses(validator, tokens, text):
            gone.append(_leave_out(made, tokens))
        else:
            set_value(parent, tokens[-1], text)
    filled = _fill_defaults(validator.schema, made, gone)
    return None if validator.is_valid(made) or validator.is_valid(filled) else made


def placeholder(tokens: Tokens) -> str:
    """Return the text that replaces an invented value: `<order_id>`."""
    name = next((token for token in reversed(tokens) if not token.isdecimal()), "value")
    return f"<{plain(name, _MAX_NAME)}>"


def set_value(parent: Any, name: str, value: Any) -> None:
    parent[int(name) if is_array(parent) else name] = value


def _placeholder(validator: Validator, tokens: Tokens, was: Any) -> str:
    # A moment without a zone stays, and only its zone is left open.
    schemas = locate(validator.schema, tokens)
    formats = {part.get("format") for found in schemas for part in expand(validator.schema, found)}
    lacking = any(lacks_zone(each, was) for each in formats if isinstance(each, str))
    return f"{was.strip().replace(' ', 'T', 1)}<zone>" if lacking else placeholder(tokens)


def _refuses(validator: Validator, tokens: Tokens, text: str) -> bool:
    schemas = locate(validator.schema, tokens)
    return bool(schemas) and not any(validator.is_valid(text, schema=schema) for schema in schemas)


def _leave_out(payload: dict[str, Any], tokens: Tokens) -> Tokens:
    # For an item of an array, remove the whole array, since the array would be accepted without the item.
    while tokens and not is_object(value_at(payload, tokens[:-1])):
        tokens = tokens[:-1]
    if tokens:
        value_at(payload, tokens[:-1]).pop(tokens[-1], None)
    return tokens


def _fill_defaults(root: Schema, payload: dict[str, Any], gone: Iterable[Tokens]) -> dict[str, Any]:
    filled = deepcopy(payload)
    for tokens in filter(None, gone):
        parts = [part for found in locate(root, tokens) for part in expand(root, found)]
        default = next((part["default"] for part in parts if "default" in part), ABSENT)
        parent = value_at(filled, tokens[:-1])
        if default is not ABSENT and is_object(parent) and tokens[-1] not in parent:
            parent[tokens[-1]] = deepcopy(default)
    return filled


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
