"""Injected fields, hidden from planners and masked in results (SR-41 to SR-49).

A secret is found verbatim and as JSON, Python and URLs escape it; a number also as a number. The walk
over a result follows the record's own fields, so that a field that is added later is masked too.
Where nothing but a field's name tells that its value is a secret, `hide_secrets` goes by the name.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from sojourn.contracts.tool_error import FieldIssue, RetryHint, RetryReason
from sojourn.contracts.tool_result import ToolResult
from sojourn.values.json_value import Schema, is_array, is_object, resolve, to_tokens
from sojourn.values.text import CUT, plain

__all__ = [
    "HIDDEN",
    "Mask",
    "advertised_schema",
    "hide_secrets",
    "mask_fault",
    "mask_for",
    "mask_result",
    "secret_forms",
    "split_issues",
]


def advertised_schema(schema: Schema, injected: Collection[str]) -> Schema:
    """Return a payload's schema for planners."""
    top = schema
    if "properties" not in schema and isinstance(found := resolve(schema, schema.get("$ref", "")), dict):
        top = {**{word: value for word, value in schema.items() if word != "$ref"}, **found}
    if unknown := [name for name in injected if name not in top.get("properties", {})]:
        raise ValueError(f"the payload has no field {unknown[0]!r} to inject")
    if not injected:
        return schema
    shown = {**top, "properties": {n: s for n, s in top["properties"].items() if n not in injected}}
    shown["required"] = [name for name in top.get("required", []) if name not in injected]
    if not shown["required"]:
        del shown["required"]
    for word in ("example", "examples", "default"):
        shown.pop(word, None)  # an example of the whole payload would contain hidden fields
    return _prune(shown)


def split_issues(
    issues: Sequence[FieldIssue], injected: Collection[str]
) -> tuple[list[FieldIssue], list[FieldIssue]]:
    """Split issues into those that a planner can repair and those of injected fields."""
    hidden = [issue for issue in issues if _first(issue) in injected]
    return [issue for issue in issues if _first(issue) not in injected], hidden


def _first(issue: FieldIssue) -> str:
    tokens = to_tokens(issue.field)
    return tokens[0] if tokens else ""


def _prune(schema: Schema) -> Schema:
    definitions = schema.get("$defs", {})
    used: set[str] = set()
    pending: list[Any] = [{word: value for word, value in schema.items() if word != "$defs"}]
    while pending:
        node = pending.pop()
        if is_object(node):
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name in definitions and name not in used:
                used.add(name)
                pending.append(definitions[name])
            pending.extend(node.values())
        elif is_array(node):
            pending.extend(node)
    rest = {word: value for word, value in schema.items() if word != "$defs"}
    kept = {name: value for name, value in definitions.items() if name in used}
    return {**rest, "$defs": kept} if kept else rest


Mask = Callable[[str], str]

MIN_MASKED = 4
"""Shortest value that is masked, in characters; a shorter one occurs in too many texts."""

MIN_LINE = 8
"""Shortest line of a multi-line secret that is masked by itself, in characters."""

MAX_LINES = 200
"""Most lines of one secret that are masked by themselves, the longest ones; a bundle of certificates has about 100."""

_MAX_BITS = 1_000
"""Longest integer that may be a secret, in bits; about 300 digits."""

_OWN_WORDS = frozenset(value for name, value in vars(RetryReason).items() if name.isupper())
"""Values of `RetryReason`, which are never masked, even when one is injected."""

_Record = TypeVar("_Record", bound=BaseModel)


def mask_for(values: Mapping[str, Any]) -> Mask | None:
    """Return a function that masks these values in texts.

    Longer values come before shorter ones that they may contain. None when there is nothing to mask.
    """
    texts = {form: name for name, value in values.items() for text in _texts(value) for form in _forms(text)}
    secret = sorted(texts, key=len, reverse=True)
    if not secret:
        return None

    def mask(text: str) -> str:
        for each in secret:
            text = text.replace(each, f"[{texts[each]}]")
        return _drop_cut_secret(text, secret) if text.endswith(CUT) else text

    return mask


def secret_forms(text: str) -> set[str]:
    """Return the texts in which a secret may be repeated.

    They are the secret and its lines, each also as JSON, Python and URLs escape it.
    """
    return {form for each in _split_lines(text) for form in _forms(each)}


class _Hidden:
    def __repr__(self) -> str:
        return "[hidden]"


HIDDEN: Final = _Hidden()
"""In place of a value that `hide_secrets` has taken out."""

_SECRET_WORDS = frozenset(
    {"apikey", "authorization", "cookie", "credential", "credentials", "cvc", "cvv", "otp", "passcode"}
    | {"passphrase", "passwd", "password", "pin", "secret", "secrets", "token"}
)
"""Words of a name whose value is a secret."""

_SECRET_PAIRS = frozenset({"api key", "access key", "private key", "secret key", "signing key"})

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def hide_secrets(value: Any, name: str = "") -> Any:
    """Return JSON with `HIDDEN` in place of values with the name of a secret.

    Names are compared word by word, so that `apiKey` is a secret and `max_tokens` is none.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    pairs = {" ".join(pair) for pair in pairwise(words)}
    if not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairs):
        return value if value is None or isinstance(value, bool) else HIDDEN
    if is_object(value):
        return {key: hide_secrets(inner, key) for key, inner in value.items()}
    if is_array(value):
        return [hide_secrets(inner) for inner in value]
    return value


def mask_result(result: ToolResult, mask: Mask) -> ToolResult:
    """Mask every secret in a result of plain JSON."""
    return _Walk(mask, {result.name, result.tool_call_id}).record(result)


def mask_fault(result: ToolResult, mask: Mask) -> ToolResult:
    """Mask a result's error and hint."""
    walk = _Walk(mask, {result.name, result.tool_call_id})
    changes: dict[str, Any] = {}
    if result.error:
        changes["error"] = walk.record(result.error)
    if result.retry_hint:
        changes["retry_hint"] = _repairable(walk.record(result.retry_hint), result.retry_hint)
    return result.model_copy(update=changes) if changes else result


def _repairable(hint: RetryHint, before: RetryHint) -> RetryHint:
    kept = ("example_input", "prior_input", "template", "invented")
    return hint.model_copy(update={name: getattr(before, name) for name in kept})


class _Walk:
    """Masks a record, field by field."""

    def __init__(self, mask: Mask, names: Collection[str]) -> None:
        self._mask = mask
        self._kept = _OWN_WORDS.union(names)

    def record(self, record: _Record) -> _Record:
        # A numeric field gets its default in place of a secret.
        changes: dict[str, Any] = {}
        for name, field in type(record).model_fields.items():
            before = getattr(record, name)
            after = self._value(before)
            if after is before:
                continue
            if isinstance(before, (int, float)) and field.annotation is not Any:
                after = 0 if field.is_required() else field.get_default()
            changes[name] = after
        return record.model_copy(update=changes) if changes else record

    def _value(self, value: Any) -> Any:
        # If it contains no secret, return the identical object.
        if isinstance(value, str):
            masked_text = value if value in self._kept else self._mask(value)
            return value if masked_text == value else masked_text
        if isinstance(value, (int, float)):
            return value if isinstance(value, bool) else self._number(value)
        if isinstance(value, BaseModel):
            return self.record(value)
        if is_object(value):
            fields = {self._value(name): self._value(inner) for name, inner in value.items()}
            same = all(
                after is before for after, before in zip(fields.values(), value.values(), strict=False)
            )
            return value if same and fields.keys() == value.keys() else fields
        if is_array(value):
            items = [self._value(inner) for inner in value]
            same = all(after is before for after, before in zip(items, value, strict=True))
            return value if same else items
        return value

    def _number(self, value: float) -> float | str:
        # A secret becomes the name of the injected field.
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            return value
        text = _digits(value)
        masked_text = self._mask(text)
        return (
            masked_text
            if masked_text != text and masked_text.lstrip("-").startswith("[") and masked_text.endswith("]")
            else value
        )


def _drop_cut_secret(text: str, secret: Sequence[str]) -> str:
    # Half a secret reveals much.
    beginning = text.removesuffix(CUT)
    for each in secret:
        for length in range(len(each) - 1, MIN_MASKED - 1, -1):
            if beginning.endswith(each[:length]):
                return beginning[:-length] + CUT
    return text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _split_lines(value)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, (int, float)):
        yield from _long_enough({str(value), _digits(value)})
    elif is_object(value):
        for inner in value.values():
            yield from _texts(inner)
    elif is_array(value):
        for inner in value:
            yield from _texts(inner)


def _split_lines(text: str) -> Iterator[str]:
    # A multi-line key is often quoted or cut by lines.
    yield from _long_enough([text])
    lines = dict.fromkeys(line.strip() for line in text.splitlines())
    longest = sorted((line for line in lines if len(line) >= MIN_LINE), key=len, reverse=True)
    yield from longest[:MAX_LINES]


def _long_enough(texts: Collection[str]) -> Iterator[str]:
    return (text for text in texts if len(text) >= MIN_MASKED and not text.isspace())


def _digits(number: float) -> str:
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


def _forms(text: str) -> set[str]:
    in_json = json.dumps(text, ensure_ascii=False)[1:-1]
    forms = {text, in_json, json.dumps(text)[1:-1], repr(text)[1:-1], quote(text, safe="", errors="replace")}
    return set(_long_enough(forms | {plain(form, len(form)) for form in forms}))
