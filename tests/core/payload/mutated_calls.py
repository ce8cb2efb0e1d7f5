"""One-field mutations of right calls, as models make them, and the law that the boundary keeps for each.

A mutated call is read without loss, or is valid in itself, or is refused with a hint whose example fits the schema. Each value
of the example is one of the right call or of the mutated one, or the schema determines it, or `invented` names it. What a
program may send by itself (`RetryHint.mended`) is the right call, as far as the mutated call says it.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from sojourn import RetryHint, ToolRequest, ToolResult
from sojourn.contracts.tool_spec import Annotations, ToolSpec, TypeSpec
from sojourn.core.payload.boundary import check_payload
from sojourn.core.payload.reading import read_payload
from sojourn.core.schema.validate import Validator
from sojourn.models.names import Names
from sojourn.models.result_text import result_text
from sojourn.values.json_value import ABSENT, expand, locate, to_tokens, value_at

__all__ = ["Mutation", "altered", "fate_of", "mutations"]

Path = tuple[str, ...]
Change = Callable[[Any, str | int], None]


@dataclass(frozen=True)
class Mutation:
    """A call that differs from the right one in one field."""

    kind: str
    at: Path
    """The path to the field; to the added one, for an extra field."""
    payload: dict[str, Any]


def mutations(right: dict[str, Any]) -> Iterator[Mutation]:
    """Yield each one-field mutation of a call."""
    for at, value in _places(right):
        for kind, change in _changes(value, is_field=not at[-1].isdecimal()):
            payload = deepcopy(right)
            parent = value_at(payload, at[:-1])
            change(parent, int(at[-1]) if isinstance(parent, list) else at[-1])
            yield Mutation(kind, at, payload)
    for at, value in [((), right), *_places(right)]:
        if isinstance(value, dict):
            payload = deepcopy(right)
            value_at(payload, at)["zz_note"] = "by the way"
            yield Mutation("extra", (*at, "zz_note"), payload)


def altered(right: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a call with other values that fit, as an author's example has them."""
    made, validator = deepcopy(right), Validator(schema)
    for at, value in _leaves(right):
        other = _with(made, at, _other(value))
        made = other if validator.is_valid(other) else made
    return made


def _other(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    return value + 1 if isinstance(value, (int, float)) else f"{value}x" if isinstance(value, str) else value


def _places(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each field and item of a value, with its path; of a list the first item."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for name, each in inner:
        yield (*at, str(name)), each
        yield from _places(each, (*at, str(name)))


def _changes(value: Any, *, is_field: bool) -> Iterator[tuple[str, Change]]:
    if is_field:
        yield "dropped", lambda parent, name: parent.pop(name)
        yield "renamed", _renamed(lambda name: name + "s")
        yield "renamed", _renamed(lambda name: "the_" + name[::-1])
    foreign: Any = (
        7 if isinstance(value, str) else "as_many_as_there_are" if not isinstance(value, dict) else [7]
    )
    yield "retyped", _put(foreign)
    yield "retyped", _put([value])
    if isinstance(value, list) and value:
        yield "retyped", _put(value[0])
    yield "null", _put(None)
    yield "stringified", _put(json.dumps(value))


def _put(value: Any) -> Change:
    return lambda parent, name: parent.__setitem__(name, value)


def _renamed(rename: Callable[[str], str]) -> Change:
    def change(parent: dict[str, Any], name: str) -> None:
        parent[rename(name)] = parent.pop(name)

    return change


def fate_of(
    mutation: Mutation,
    right: dict[str, Any],
    schema: dict[str, Any],
    *,
    author: Any = None,
    reads: bool | None = None,
) -> str:
    """Return what became of a mutated call; an AssertionError if the law is broken.

    Returns:
        `valid`, `read`, `hint` or, if the example has values that nobody gave, `hint with invented values`.
    """
    spec = ToolSpec(
        id="a.b.c",
        title="",
        description="",
        payload=TypeSpec(name="A", json_schema=schema, example=author),
        result=TypeSpec(name="R", json_schema={}),
        annotations=Annotations(read_only=reads),
    )
    judge, validator = Draft202012Validator(schema, format_checker=FormatChecker()), Validator(schema)
    answer = check_payload(spec, validator, ToolRequest(name="a.b.c", payload=deepcopy(mutation.payload)))
    if judge.is_valid(mutation.payload):
        assert answer == mutation.payload, "a valid call is changed"
        return "valid"
    if isinstance(answer, dict):
        assert judge.is_valid(answer), "what is read does not fit"
        assert answer in _meanings(mutation, right, schema), "a reading loses something"
        return "read"
    assert answer.retry_hint, "no hint"
    hint = answer.retry_hint
    assert hint.example_input is not None, "no example"
    assert judge.is_valid(hint.example_input), "the example does not fit"
    _check_values(hint, mutation, right, schema)
    _check_text(answer, hint, validator)
    if (mended := hint.mended()) is not None:
        # Without a filter a tool that changes nothing does no harm.
        less = [_with(right, mutation.at, ABSENT)] if reads and not mutation.at[-1].isdecimal() else []
        assert mended.payload in [*_meanings(mutation, right, schema), *less], "mended to another call"
    return "hint with invented values" if hint.invented else "hint"


def _meanings(mutation: Mutation, right: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls that a mutated call may mean: what it says, in another form, and what the schema says for it."""
    found = [right]
    sent = value_at(mutation.payload, mutation.at)
    if mutation.kind == "retyped":
        found += [_with(right, mutation.at, each) for each in (json.dumps(sent), [sent])]
    if mutation.kind == "null" and not mutation.at[-1].isdecimal():
        found.append(_with(right, mutation.at, ABSENT))
    if mutation.kind in ("dropped", "renamed"):  # a default stands for an absent field
        defaults = [part["default"] for part in _parts(schema, mutation.at) if "default" in part]
        found += [
            _with(each, mutation.at, default) for each in (mutation.payload, right) for default in defaults
        ]
    return found


def _with(right: dict[str, Any], at: Path, value: Any) -> dict[str, Any]:
    payload = deepcopy(right)
    parent = value_at(payload, at[:-1])
    name: Any = int(at[-1]) if isinstance(parent, list) else at[-1]
    if value is ABSENT:
        parent.pop(name, None)
    else:
        parent[name] = value
    return payload


def _check_values(hint: RetryHint, mutation: Mutation, right: dict[str, Any], schema: dict[str, Any]) -> None:
    invented = [to_tokens(each) for each in hint.invented]
    for at, value in _leaves(hint.example_input):
        if value == {} or any(at[: len(each)] == each for each in invented):
            continue
        said = [value_at(each, at) for each in (*_meanings(mutation, right, schema), mutation.payload)]
        assert value in said or _is_determined(schema, at, value), f"{at} is invented"
    for at, value in _leaves(right):
        if at[: len(mutation.at)] != mutation.at:
            assert value_at(hint.example_input, at) == value, f"{at} is lost"


def _is_determined(schema: dict[str, Any], at: Path, value: Any) -> bool:
    stated = ("const", "default")
    return any(
        [value] == part.get("enum") or value in [part.get(word, ABSENT) for word in stated]
        for part in _parts(schema, at)
    )


def _parts(schema: dict[str, Any], at: Path) -> list[dict[str, Any]]:
    return [part for found in locate(schema, at) for part in expand(schema, found)]


def _check_text(answer: ToolResult, hint: RetryHint, validator: Validator) -> None:
    text = result_text(answer, Names([hint.tool]))
    assert ("arguments that fit" in text) == (hint.example_input is not None and not hint.invented)
    if hint.template is None:
        return
    assert not read_payload(validator, hint.template).fits, "the template fits"
    for each in hint.invented:
        shown = value_at(hint.template, to_tokens(each))
        assert shown is ABSENT or (
            isinstance(shown, str) and shown.startswith("<") and shown.endswith(">")
        ), each


def _leaves(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the paths and values of all that is no container, or an empty one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner and at:
        yield at, value
    for name, each in inner:
        yield from _leaves(each, (*at, str(name)))
