"""Injected fields: hidden from whoever calls, filled before the call, and never told (SR-41 to SR-49)."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sojourn.contracts.retry_hint import FieldIssue, RetryHint
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.json_value import is_array, is_object
from sojourn.core.pointer import Schema, resolve, to_tokens
from sojourn.core.wording import CUT, plain

__all__ = ["Mask", "advertised", "mask_for", "masked", "masked_fault", "split"]

Mask = Callable[[str], str]
"""Replaces every injected value in a text."""

_MIN_MASKED = 4
"""Characters of a value that is masked; a shorter one is in half of all texts."""


def advertised(schema: Schema, injected: Collection[str]) -> Schema:
    """A payload's schema as planners see it: without these fields, and without definitions only they use.

    Raises:
        ValueError: a field is not among the payload's own.
    """
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
        shown.pop(word, None)  # an example of the whole would show what is hidden
    return _pruned(shown)


def split(
    issues: Sequence[FieldIssue], injected: Collection[str]
) -> tuple[list[FieldIssue], list[FieldIssue]]:
    """The faults that a planner can mend, and those of injected fields, which it cannot."""
    hidden = [issue for issue in issues if _first(issue) in injected]
    return [issue for issue in issues if _first(issue) not in injected], hidden


def mask_for(values: Mapping[str, Any]) -> Mask | None:
    """What hides these values in outgoing texts, as they are and as JSON, Python and addresses write them.

    None when there is nothing to hide.
    """
    texts = {
        form: name
        for name, value in values.items()
        for text in _texts(value)
        if len(text) >= _MIN_MASKED
        for form in _forms(text)
    }
    secret = sorted(texts, key=len, reverse=True)
    if not secret:
        return None

    def mask(text: str) -> str:
        for each in secret:
            text = text.replace(each, f"[{texts[each]}]")
        return _without_half(text, secret) if text.endswith(CUT) else text

    return mask


def masked_fault(result: ToolResult, mask: Mask) -> ToolResult:
    """A result whose error and hint say nothing of what the mask hides; what a call is repaired with stays."""
    changes: dict[str, Any] = {}
    if result.error:
        changes["error"] = _error(result.error, mask)
    if result.retry_hint:
        changes["retry_hint"] = _hint(result.retry_hint, mask)
    return result.model_copy(update=changes)


def masked(result: ToolResult, mask: Mask) -> ToolResult:
    """A result in which nothing that was said holds an injected value; names, ids and references stay."""
    result = masked_fault(result, mask)
    changes: dict[str, Any] = {"result": _mapped(result.result, mask)}
    if result.retry_hint:
        hint = result.retry_hint
        inputs = {"example_input": hint.example_input, "prior_input": hint.prior_input}
        changes["retry_hint"] = hint.model_copy(update=_mapped(inputs, mask))
    if result.artifacts:
        changes["artifacts"] = [
            one.model_copy(update={"data": _mapped(one.data, mask)}) for one in result.artifacts
        ]
    if result.bounds and result.bounds.refinement_hint:
        hint = {"refinement_hint": mask(result.bounds.refinement_hint)}
        changes["bounds"] = result.bounds.model_copy(update=hint)
    if result.telemetry:
        told = {"model": result.telemetry.model, "extra": result.telemetry.extra}
        changes["telemetry"] = result.telemetry.model_copy(update=_mapped(told, mask))
    if result.input_required:
        forms = [
            form.model_copy(update=_mapped({"message": form.message, "form": form.form}, mask))
            for form in result.input_required.forms
        ]
        changes["input_required"] = result.input_required.model_copy(update={"forms": forms})
    return result.model_copy(update=changes)


def _error(error: ToolError, mask: Mask) -> ToolError:
    cause = _error(error.cause, mask) if error.cause else None
    said = {"message": error.message, "code": error.code}
    return error.model_copy(update={**_mapped(said, mask), "cause": cause})


def _hint(hint: RetryHint, mask: Mask) -> RetryHint:
    said = {"message": hint.message, "clarifying_question": hint.clarifying_question}
    issues = [
        issue.model_copy(update=_mapped({name: value for name, value in issue if name != "field"}, mask))
        for issue in hint.issues
    ]
    return hint.model_copy(update={**_mapped(said, mask), "issues": issues})


def _without_half(text: str, secret: Sequence[str]) -> str:
    """A text that was cut, less the beginning of a value with which it ends: half a secret tells much."""
    said = text.removesuffix(CUT)
    for each in secret:
        for length in range(len(each) - 1, _MIN_MASKED - 1, -1):
            if said.endswith(each[:length]):
                return said[:-length] + CUT
    return text


def _forms(text: str) -> set[str]:
    """A text as it stands in other texts: those of JSON, of Python, of addresses, and on one line."""
    in_json = json.dumps(text, ensure_ascii=False)[1:-1]
    forms = {text, in_json, json.dumps(text)[1:-1], repr(text)[1:-1], quote(text, safe="")}
    return forms | {plain(form, len(form)) for form in forms}


def _mapped(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return mask(value)
    if is_object(value):
        return {mask(name): _mapped(inner, mask) for name, inner in value.items()}
    if is_array(value):
        return [_mapped(inner, mask) for inner in value]
    return value


def _first(issue: FieldIssue) -> str:
    tokens = to_tokens(issue.field)
    return tokens[0] if tokens else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, (int, float)):
        yield str(value)
    elif is_object(value):
        for inner in value.values():
            yield from _texts(inner)
    elif is_array(value):
        for inner in value:
            yield from _texts(inner)


def _pruned(schema: Schema) -> Schema:
    """The schema without definitions that nothing in it refers to any more."""
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
