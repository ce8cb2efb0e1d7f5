"""Find values that a call copied from an example.

This is the safety net below the hints, which show a model none of the invented values. If a field of a call was
refused before, and the tool changes something, the call is not executed with the value that an example has
there, unless that value is somewhere else in the transcript. All is derived from the transcript, so that a
repeated attempt on another worker judges the same. A copy costs the call once, since a model may know the
value from its instructions. A placeholder of a hint is no value, and is refused each time.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sojourn.contracts.message import Message
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.hints import EXAMPLE_VALUE
from sojourn.core.payload.invented import MAX_INVENTED, Tokens, placeholder
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.repair.calls import is_repair, stem
from sojourn.core.schema.formats import FORMAT_EXAMPLES
from sojourn.values.json_value import (
    ABSENT,
    expand,
    is_array,
    is_object,
    locate,
    to_pointer,
    to_tokens,
    value_at,
)

__all__ = ["find_copied_values"]

MAX_REFUSALS = 5
"""Most refusals of a tool that are compared, the newest first."""

MAX_SEARCHED = 1_000_000
"""Most characters of the transcript to search.

A value that may be beyond them counts as found.
"""


class _Copy(NamedTuple):
    tokens: Tokens
    value: Any

    @property
    def is_placeholder(self) -> bool:
        return self.value == placeholder(self.tokens)


def find_copied_values(
    call: ToolRequest, spec: ToolSpec, messages: Sequence[Message], memory: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the fields of a call whose values are known only from an example."""
    if changes_nothing(spec) or _is_repair(call, messages):
        return []
    refusals = _refusals(spec.id, messages)
    copies = {
        each.tokens: each
        for hint in refusals
        for each in _copies(hint, spec, call.payload)
        if each.is_placeholder or not _was_refused(each, refusals)
    }
    values = {each for each in copies if not copies[each].is_placeholder}
    if values:
        values -= _find([copies[each] for each in values], _texts(messages, memory))
    return sorted(to_pointer(each) for each in copies if copies[each].is_placeholder or each in values)


def _is_repair(call: ToolRequest, messages: Sequence[Message]) -> bool:
    # Its values are then a person's, the planner's defaults or those of the call.
    if not is_repair(call.tool_call_id):
        return False
    repaired = stem(call.tool_call_id)
    return any(stem(each.tool_call_id) == repaired for message in messages for each in message.tool_calls)


def _refusals(tool: str, messages: Sequence[Message]) -> list[RetryHint]:
    # Refusals count back to the tool's last success.
    found: list[RetryHint] = []
    for message in reversed(messages):
        for result in reversed(message.tool_results):
            if result.name != tool:
                continue
            if result.ok or len(found) == MAX_REFUSALS:
                return found
            if result.retry_hint and result.retry_hint.issues:
                found.append(result.retry_hint)
    return found


def _copies(hint: RetryHint, spec: ToolSpec, payload: Mapping[str, Any]) -> Iterator[_Copy]:
    schema, issues = spec.payload.json_schema, {to_tokens(issue.field): issue for issue in hint.issues}
    places = dict.fromkeys([*map(to_tokens, hint.invented), *filter(None, issues)])
    for place in list(places)[:MAX_INVENTED]:
        for tokens, value in _leaves(value_at(payload, place), place):
            issue = issues.get(tokens)
            formatted = FORMAT_EXAMPLES.get((issue and issue.format) or "", ABSENT)
            author, derived = (value_at(each, tokens) for each in (spec.payload.example, hint.example_input))
            examples = [author, formatted, *([derived] if to_pointer(tokens) in hint.invented else [])]
            copy = _Copy(tokens, value)
            is_copied = any(type(value) is type(each) and value == each for each in examples)
            if copy.is_placeholder or (is_copied and not _is_choice(schema, tokens)):
                yield copy


def _leaves(value: Any, at: Tokens) -> Iterator[tuple[Tokens, Any]]:
    if is_object(value):
        for name, inner in value.items():
            yield from _leaves(inner, (*at, name))
    elif is_array(value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*at, str(index)))
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield at, value


def _is_choice(schema: dict[str, Any], tokens: Tokens) -> bool:
    # A planner then knows them without an example.
    parts = (part for found in locate(schema, tokens) for part in expand(schema, found))
    return any(word in part for part in parts for word in ("enum", "const", "default"))


def _was_refused(copy: _Copy, refusals: Iterable[RetryHint]) -> bool:
    """Whether a call was refused for this copy before."""
    pointer = to_pointer(copy.tokens)
    return any(
        issue.constraint == EXAMPLE_VALUE
        and issue.field == pointer
        and value_at(hint.prior_input, copy.tokens) == copy.value
        for hint in refusals
        for issue in hint.issues
    )


def _find(copies: Sequence[_Copy], texts: Iterator[str]) -> set[Tokens]:
    patterns = {each.tokens: _pattern(each.value) for each in copies}
    found: set[Tokens] = set()
    searched = 0
    for text in texts:
        searched += len(text)
        if searched > MAX_SEARCHED:
            return set(patterns)
        found |= {tokens for tokens, pattern in patterns.items() if pattern.search(text)}
        if len(found) == len(patterns):
            break
    return found


def _pattern(value: Any) -> re.Pattern[str]:
    """Matches a value as people, tools and JSON write it."""
    if isinstance(value, str):
        forms = {value, json.dumps(value, ensure_ascii=False)[1:-1]}
    else:
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        forms = {text, text.replace(".", ","), f"{text}.0", f"{text}.00"}
    return re.compile(
        rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, sorted(forms)))})(?![A-Za-z0-9_])", re.IGNORECASE
    )


def _texts(messages: Sequence[Message], memory: Mapping[str, Any] | None) -> Iterator[str]:
    # A planner has read the texts of people and tools, and its own texts that a person has read.
    is_read = False
    if memory:
        yield json.dumps(memory, ensure_ascii=False, default=dict)
    for message in reversed(messages):
        if message.role != "assistant" or is_read:
            yield message.text
        is_read = is_read or message.role == "user"
        yield from map(_result_text, message.tool_results)


def _result_text(result: ToolResult) -> str:
    # For a refusal by the boundary that is only the error, since its example says nothing.
    hint = result.retry_hint
    said = [result.result, result.error and str(result.error)]
    said += [hint.message, hint.example_input] if hint and not hint.issues else []
    return "\n".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in said if each
    )
