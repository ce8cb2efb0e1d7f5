"""Add advice to the hint of a refused call.

The boundary refuses a call by itself alone. Only the run knows that an unknown field is one of another tool,
and that the same fault was refused before. The advice is not recorded: it is derived from the transcript.
"""

import json
from collections.abc import Sequence
from typing import Any

from sojourn.contracts.message import Message
from sojourn.contracts.tool_error import RetryHint, RetryReason
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.unknown_outcome import is_unknown
from sojourn.values.json_value import expand, is_array, is_object, to_tokens
from sojourn.values.text import clip, field_name

__all__ = ["MAX_SCHEMA", "add_advice"]

MAX_SCHEMA = 3_000

_MAX_TOOLS = 3
_MAX_DEPTH = 40
_MENDABLE = (RetryReason.MISSING_FIELDS, RetryReason.INVALID_ARGUMENTS)


def add_advice(
    results: Sequence[ToolResult], messages: Sequence[Message], tools: Sequence[ToolSpec], *, may_ask: bool
) -> list[ToolResult]:
    """Return the results of a step, with advice in the hints of refused calls.

    After a second failure of a tool in a row, and also if another tool has the unknown field, the hint does not restrict to
    its tool.
    """
    specs = {str(spec.id): spec for spec in tools}
    return [
        _advise(result, result.retry_hint, messages, specs, may_ask=may_ask)
        if result.retry_hint and result.retry_hint.reason in _MENDABLE and not is_unknown(result)
        else result
        for result in results
    ]


def _advise(
    result: ToolResult,
    hint: RetryHint,
    messages: Sequence[Message],
    specs: dict[str, ToolSpec],
    *,
    may_ask: bool,
) -> ToolResult:
    failures, same = _count_in_a_row(result.name, hint, messages)
    others = _others_with(hint, specs)
    said = [f"{field} is an argument of {tool}: call that, if it is what you mean." for tool, field in others]
    spec = specs.get(result.name)
    if same == 2 and spec is not None:
        said.append(
            f"{spec.id} was refused for the same fault again. The schema of its arguments: {_schema(spec)}"
        )
    if same >= 2:
        question = hint.clarifying_question if may_ask else None
        said.append(
            f"If you were not given what it needs, ask the person: {question}"
            if question
            else "If you were not given what it needs, answer without it, and say what is lacking."
        )
    if not said and failures < 2:
        return result
    changes: dict[str, Any] = {"advice": " ".join(said) or None}
    if failures >= 2 or others:
        changes["restrict_to_tool"] = False
    return result.model_copy(update={"retry_hint": hint.model_copy(update=changes)})


def _count_in_a_row(tool: str, hint: RetryHint, messages: Sequence[Message]) -> tuple[int, int]:
    fault, failures, same = _fault(hint), 0, 0
    for message in reversed(messages):
        own = [result for result in message.tool_results if result.name == tool]
        if any(result.ok for result in own):
            break
        hints = [result.retry_hint for result in own if result.retry_hint and result.retry_hint.issues]
        failures += bool(hints)
        same += any(_fault(each) == fault for each in hints)
    return failures, same


def _fault(hint: RetryHint) -> frozenset[tuple[str, str]]:
    return frozenset((issue.field, issue.constraint) for issue in hint.issues)


def _others_with(hint: RetryHint, specs: dict[str, ToolSpec]) -> list[tuple[str, str]]:
    tokens = [to_tokens(issue.field) for issue in hint.issues if issue.constraint == "unknown_field"]
    unknown = [each[0] for each in tokens if len(each) == 1]
    sent = set(hint.prior_input or ())
    found: list[tuple[tuple[int, int, str], str, str]] = []
    for tool, spec in specs.items():
        if not unknown or tool == hint.tool:
            continue
        parts = expand(spec.payload.json_schema, spec.payload.json_schema)
        fields = {name for part in parts for name in part.get("properties", ())}
        lacking = {name for part in parts for name in part.get("required", ())} - sent
        if taken := [name for name in unknown if name in fields]:
            rank = (len(lacking), -len(taken), tool)
            found.append((rank, tool, field_name(f"/{taken[0].replace('~', '~0').replace('/', '~1')}")))
    return [(tool, field) for _, tool, field in sorted(found)[:_MAX_TOOLS]]


def _schema(spec: ToolSpec) -> str:
    """Return the schema as JSON, without examples: models copy them."""
    shown = _drop_examples(spec.payload.json_schema, 0)
    return clip(json.dumps(shown, ensure_ascii=False, separators=(",", ":")), MAX_SCHEMA)


def _drop_examples(schema: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return {}
    if is_object(schema):
        # A list: a field may be called `examples` too, and its schema is an object.
        return {
            name: _drop_examples(part, depth + 1)
            for name, part in schema.items()
            if not (name == "examples" and is_array(part))
        }
    return [_drop_examples(part, depth + 1) for part in schema] if is_array(schema) else schema
