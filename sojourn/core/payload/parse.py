"""Parse and compare the arguments that a model wrote, and never guess.

Text that is no JSON, or is cut off, is a `ParseFault` with its position, never `{}`: a tool called with no
arguments would do something that no one requested. Two repairs are made, both lossless and both reported:
removing a code fence around the JSON, and a trailing comma.

A name given twice in one object is a fault too: the two values contradict each other, and Python would
silently keep the last. So is a number whose digits no Python number can hold: see
`sojourn.values.numbers`.

`{"1": "10 EUR", "01": "99 EUR"}` has two prices, and as `dict[int, str]` one. A person who approves such a
call sees both.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, cast

from sojourn.core.schema.defaults import with_defaults, without_defaults
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import (
    MAX_DIGITS,
    ParseFault,
    depth_of,
    json_fault,
    too_deep,
    too_many_digits,
)
from sojourn.values.json_text import first_duplicate, name_given_twice
from sojourn.values.json_value import ABSENT, is_array, is_object
from sojourn.values.numbers import parse_number
from sojourn.values.wire import MAX_PAYLOAD_BYTES

__all__ = [
    "Merged",
    "NotAnObject",
    "ParseFault",
    "Parsed",
    "arguments_digest",
    "decode_text",
    "depth_of",
    "find_changed_number",
    "find_merged_name",
    "has_digest",
    "has_maps",
    "json_fault",
    "parse_arguments",
    "same_arguments",
]

# Possessive quantifiers keep hostile text linear: an unterminated string is matched to its end, and
# not tried again from each quote.
_TRAILING_COMMA = re.compile(
    r"""("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))|,(?=[ \t\r\n]*+[}\]])""",
    re.DOTALL,
)
_FENCE = "```"
_FENCE_LANGUAGE = re.compile(r"[A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Parsed:
    payload: dict[str, Any]
    repairs: tuple[str, ...] = ()
    """`code_fence` and `trailing_comma`; empty when the text was plain JSON."""


@dataclass(frozen=True, slots=True)
class NotAnObject(ParseFault):
    value: Any = None


class _RefusedError(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.fault = ParseFault(kind, message)


def parse_arguments(raw: str, *, max_bytes: int = MAX_PAYLOAD_BYTES) -> Parsed | ParseFault:
    """Parse a model's text as a JSON object, or return the fault.

    Never raises.
    """
    if len(raw) > max_bytes or len(raw.encode("utf-8", "surrogatepass")) > max_bytes:
        return ParseFault("too_large", f"the arguments are larger than {max_bytes:,} bytes")
    if not raw.strip():
        return _fault_at(raw, 0, "empty", "the arguments are empty")
    text, offset = _strip_fence(raw)
    repairs = ("code_fence",) if offset else ()
    try:
        value, had_comma = _load(text)
    except json.JSONDecodeError as error:
        return _syntax_fault(raw, text, offset, error)
    except _RefusedError as refused:
        return refused.fault
    except RecursionError:
        return too_deep()
    repairs = (*repairs, "trailing_comma") if had_comma else repairs
    if not is_object(value):
        fault = _fault_at(
            raw, offset, "not_an_object", f"the arguments are {_kind(value)}, not a JSON object"
        )
        return NotAnObject(**{each.name: getattr(fault, each.name) for each in fields(fault)}, value=value)
    return json_fault(value, max_bytes=None) or Parsed(value, repairs)


def decode_text(text: str) -> Any:
    """Return the JSON value that a text holds.

    `ABSENT` if it holds none, or one that a payload cannot have.
    """
    try:
        value = _loads(text)
    except (ValueError, _RefusedError, RecursionError):
        return ABSENT
    return ABSENT if json_fault(value, max_bytes=None) else value


def _strip_fence(raw: str) -> tuple[str, int]:
    start = len(raw) - len(raw.lstrip())
    text = raw.strip()
    if len(text) < 2 * len(_FENCE) or not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return raw, 0
    language = _FENCE_LANGUAGE.match(text, len(_FENCE))
    assert language is not None
    return text[language.end() : -len(_FENCE)], start + language.end()


def _load(text: str) -> tuple[Any, bool]:
    try:
        return _loads(text), False
    except json.JSONDecodeError as error:
        repaired = _TRAILING_COMMA.sub(lambda match: match[1] or "", text)
        if repaired == text:
            raise
        try:
            return _loads(repaired), True
        except json.JSONDecodeError:
            raise error from None


def _loads(text: str) -> Any:
    return json.loads(
        text,
        parse_int=_integer,
        parse_float=_float,
        parse_constant=_constant,
        object_pairs_hook=_object,
    )


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS + digits.startswith("-"):
        raise _RefusedError("number", too_many_digits().message)
    return int(digits)


def _float(text: str) -> float:
    try:
        return parse_number(text)
    except ValueError as error:
        raise _RefusedError("number", str(error)) from None


def _constant(name: str) -> Any:
    raise _RefusedError("number", f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs) and (twice := first_duplicate(pairs)) is not None:
        raise _RefusedError("duplicate_key", name_given_twice(twice))
    return made


def _syntax_fault(raw: str, text: str, offset: int, error: json.JSONDecodeError) -> ParseFault:
    fault = _fault_at(raw, offset + error.pos, "syntax", "")
    what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
    if _is_cut_off(text.strip(), error):
        what = "the JSON ends too early"
        fault = replace(fault, kind="truncated")
    return replace(
        fault, message=f"{what} at character {fault.position} (line {fault.line}, column {fault.column})"
    )


def _is_cut_off(text: str, error: json.JSONDecodeError) -> bool:
    if error.msg == "Extra data":
        return False
    return error.pos >= len(error.doc.rstrip()) or (text.startswith("{") and not text.endswith(("}", "]")))


def _fault_at(raw: str, position: int, kind: str, message: str) -> ParseFault:
    line = raw.count("\n", 0, position) + 1
    return ParseFault(
        kind,
        message,
        position,
        line,
        position - raw.rfind("\n", 0, position),
        raw[max(0, position - 20) : position + 20],
    )


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"


Merged = tuple[tuple[str | int, ...], str]
"""The path of an object, and one of its names that is the same as another."""


def has_maps(schema: Any) -> bool:
    """Return whether a closed schema has objects whose names it does not state."""
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


def find_merged_name(sent: Any, made: Any, at: tuple[str | int, ...] = ()) -> Merged | None:
    """Return the first name whose value is lost in decoding, or None.

    The value is lost because another name decodes to the same key.
    """
    if _has_duplicate(sent, made):
        return at, sent
    sent, made = _unwrap(sent, made)
    if is_object(sent) and isinstance(made, Mapping):
        lost = _find_lost_name(sent, list(cast("Mapping[Any, Any]", made)))
        if lost is not None:
            return at, lost
    found = (find_merged_name(inner, value, (*at, name)) for name, inner, value in _pairs(sent, made))
    return next((each for each in found if each is not None), None)


def find_changed_number(sent: Any, made: Any, at: tuple[str | int, ...] = ()) -> Merged | None:
    """Return the first number whose digits change in decoding, or None.

    The number has its path. A person approves `90071992547409931`, and a `float` holds `90071992547409936`.
    """
    sent, made = _unwrap(sent, made)
    if is_object(sent) and isinstance(made, Mapping):
        keys = cast("Mapping[Any, Any]", made)
        for name, key in zip(sent, keys, strict=False):
            if _changes_digits(name, key):
                return at, name
    if is_array(sent) and isinstance(made, (set, frozenset)):
        made = [float(each) if isinstance(each, (int, str)) and _is_in(each, made) else None for each in sent]
    for name, inner, value in _pairs(sent, made):
        if _changes_digits(inner, value):
            return (*at, name), str(inner)
        if (found := find_changed_number(inner, value, (*at, name))) is not None:
            return found
    return None


def _is_in(value: int | str, made: Any) -> bool:
    try:
        return float(value) in made
    except (ValueError, OverflowError):
        return False


def _changes_digits(sent: Any, made: Any) -> bool:
    if type(made) not in (int, float) or type(sent) not in (int, str):
        return False
    try:
        exact, nearest = Decimal(sent), float(sent)
    except (ArithmeticError, ValueError):
        return False
    if not exact.is_finite() or made not in (nearest, nearest if math.isinf(nearest) else int(nearest)):
        return False
    return made != sent if isinstance(sent, int) else math.isinf(nearest) or exact != Decimal(repr(made))


def _unwrap(sent: Any, made: Any) -> tuple[Any, Any]:
    if isinstance(sent, str) and type(made) not in (str, bytes, int, float):
        inner = decode_text(sent)
        sent = inner if is_object(inner) or is_array(inner) else sent
    is_root: bool = getattr(made, "__pydantic_root_model__", False)
    return sent, getattr(made, "root", None) if is_root else made


def _has_duplicate(text: Any, made: Any) -> bool:
    if (
        not isinstance(text, str)
        or type(made) in (str, bytes, int, float)
        or text.lstrip()[:1] not in ("{", "[")
    ):
        return False
    read = parse_arguments(f'{{"": {text}}}')
    return isinstance(read, ParseFault) and read.kind == "duplicate_key"


def _pairs(sent: Any, made: Any) -> Iterator[tuple[str | int, Any, Any]]:
    if is_array(sent) and isinstance(made, Sequence):
        yield from (
            (index, *pair) for index, pair in enumerate(zip(sent, cast("Sequence[Any]", made), strict=False))
        )
    elif is_object(sent) and isinstance(made, Mapping):
        values = cast("Mapping[Any, Any]", made).values()
        yield from ((name, inner, value) for (name, inner), value in zip(sent.items(), values, strict=False))
    elif is_object(sent):
        yield from ((name, sent[name], getattr(made, field, None)) for field, name in _fields(sent, made))


def _find_lost_name(sent: dict[str, Any], keys: list[Any]) -> str | None:
    # A type that drops some entries of texts has not merged them.
    if len(keys) >= len(sent):
        return None
    texts = {str(key) for key in keys}
    alone = [name for name in sent if name not in texts]
    if not all(isinstance(key, str) for key in keys):
        return alone[0] if alone else next(iter(sent))
    same = {text.strip().casefold() for text in texts}
    return next((name for name in alone if name.strip().casefold() in same), None)


def _fields(sent: dict[str, Any], made: Any) -> list[tuple[str, str]]:
    fields: dict[str, Any] | None = getattr(made, "__pydantic_fields__", None) or getattr(
        made, "__dataclass_fields__", None
    )
    if fields is None:  # a named tuple has names alone
        fields = dict.fromkeys(getattr(made, "_fields", ()))
    found: list[tuple[str, str]] = []
    for field, info in fields.items():
        names = (getattr(info, "validation_alias", None), getattr(info, "alias", None), field)
        found += [(field, name) for name in names if isinstance(name, str) and name in sent][:1]
    return found


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    canonical = json.dumps(_equalize_numbers(arguments), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def same_arguments(validator: Validator, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two payloads are the same by their schema.

    They are if they are equal once its defaults are filled in.
    """
    if arguments_digest(one) == arguments_digest(other):
        return True
    filled = (with_defaults(validator, each) for each in (one, other))
    return len({arguments_digest(each) for each in filled}) == 1


def has_digest(validator: Validator, arguments: dict[str, Any], digest: str) -> bool:
    """Return whether arguments have a digest.

    They may have it as they are, with all defaults spelled out, or with none.
    """
    spellings = (arguments, with_defaults(validator, arguments), without_defaults(validator, arguments))
    return any(arguments_digest(each) == digest for each in spellings)


def _equalize_numbers(value: Any) -> Any:
    """Return a JSON value whose equal numbers are written equally."""
    if isinstance(value, Mapping):
        return {str(name): _equalize_numbers(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_equalize_numbers(each) for each in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value
