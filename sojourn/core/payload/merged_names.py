"""Find two names of an object that decode to the same key, which would lose one value.

`{"1": "10 EUR", "01": "99 EUR"}` has two prices, and as `dict[int, str]` one. A person who approves such a call sees both.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sojourn.core.values.json_value import is_array, is_object

__all__ = ["Merged", "has_maps", "merged_name"]

Merged = tuple[tuple[str | int, ...], str]
"""The path of an object, and one of its names that is the same as another."""


def has_maps(schema: Any) -> bool:
    """Whether a closed schema has objects whose names it does not state."""
    level = [schema]
    while level:
        part = level.pop()
        if is_object(part):
            if part.get("additionalProperties", False) is not False or "patternProperties" in part:
                return True
            level.extend(part.values())
        elif is_array(part):
            level.extend(part)
    return False


def merged_name(sent: Any, made: Any, at: tuple[str | int, ...] = ()) -> Merged | None:
    """Return the first name whose value is lost, because another name decodes to the same key; or None.

    Args:
        sent: The JSON value.
        made: What a type made of it.
        at: The path of the value.
    """
    pairs: Iterable[tuple[tuple[str | int, Any], Any]]
    if is_array(sent):
        items = cast("Sequence[Any]", made) if isinstance(made, (list, tuple)) else ()
        pairs = zip(enumerate(sent), items, strict=False)
    elif not is_object(sent):
        return None
    elif isinstance(made, Mapping):
        entries = cast("Mapping[Any, Any]", made)
        if (lost := _lost(sent, list(entries))) is not None:
            return at, lost
        pairs = zip(sent.items(), entries.values(), strict=False)
    else:
        pairs = [((name, sent[name]), getattr(made, field, None)) for field, name in _fields(sent, made)]
    found = (merged_name(inner, value, (*at, name)) for (name, inner), value in pairs)
    return next((each for each in found if each is not None), None)


def _lost(sent: dict[str, Any], keys: list[Any]) -> str | None:
    """A name that has no key of its own; a type that drops some entries of texts has not merged them."""
    if len(keys) >= len(sent):
        return None
    texts = {str(key) for key in keys}
    alone = [name for name in sent if name not in texts]
    if not all(isinstance(key, str) for key in keys):
        return alone[0] if alone else next(iter(sent))
    same = {text.strip().casefold() for text in texts}
    return next((name for name in alone if name.strip().casefold() in same), None)


def _fields(sent: dict[str, Any], made: Any) -> list[tuple[str, str]]:
    """The fields of a model or data class, each with the name by which it was sent."""
    fields: dict[str, Any] = getattr(made, "__pydantic_fields__", None) or getattr(
        made, "__dataclass_fields__", {}
    )
    found: list[tuple[str, str]] = []
    for field, info in fields.items():
        names = (getattr(info, "validation_alias", None), getattr(info, "alias", None), field)
        found += [(field, name) for name in names if isinstance(name, str) and name in sent][:1]
    return found
