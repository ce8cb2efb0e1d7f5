"""Specs from a listing: make the `ToolSpec` of a tool that a server lists, with the terms of its toolset."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar, cast

from sojourn.authoring.approvers import ROLES
from sojourn.authoring.options import check_kinds
from sojourn.contracts.ids import TOOL_NAME, ToolId
from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec, TypeSpec
from sojourn.core.payload.bounds import can_state_bounds
from sojourn.core.run.approval import MAX_PROMPT
from sojourn.core.schema.enforceable import check, field_descriptions
from sojourn.core.values.pointer import Schema
from sojourn.core.values.text import plain
from sojourn.errors import DefinitionError
from sojourn.mcp.limits import MAX_DESCRIPTION, MAX_SCHEMA_BYTES
from sojourn.mcp.text import cleaned

if TYPE_CHECKING:
    from mcp_types import Tool, ToolAnnotations

__all__ = [
    "Terms",
    "check_approvers",
    "check_terms",
    "matches_any",
    "patterns",
    "spec_from_listing",
    "stand_in_spec",
    "unmatched",
]

T = TypeVar("T")

_MAX_TITLE = 200
_MAX_FIELD = 500


@dataclass(frozen=True, slots=True)
class Terms:
    """What the app, not the server, declares for all tools of a toolset."""

    timeout: timedelta | None
    retry: Retry
    task_queue: str | None
    trusted: bool
    confirmation: Mapping[str, str]
    """Sentences by name or pattern of tools."""
    bounded: Sequence[str]
    """Names or patterns of tools whose results state their bounds."""
    approvers: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """Roles that may decide on a call, by name or pattern of tools."""
    four_eyes: Sequence[str] = ()
    """Names or patterns of tools whose calls whoever asked may not approve."""

    def confirmation_of(self, name: str) -> str | None:
        """Return what a person is asked before a call, by the tool's name or else the first pattern that fits; None for nothing."""
        return _first_fit(self.confirmation, name)

    def approvers_of(self, name: str) -> list[str]:
        """Return the roles that may decide on a call of a tool, found as its sentence is; empty for the role `approver`."""
        return list(_first_fit(self.approvers, name) or ())


def _first_fit(by_pattern: Mapping[str, T], name: str) -> T | None:
    """Return what stands at a tool's name, or else at the first pattern that fits."""
    if name in by_pattern:
        return by_pattern[name]
    return next((each for pattern, each in by_pattern.items() if fnmatchcase(name, pattern)), None)


def check_approvers(toolset_id: str, approvers: object) -> None:
    """Check the roles of a toolset's terms.

    Raises:
        DefinitionError: They are not lists of roles by name or pattern of tools.
    """
    place = f"toolset {toolset_id}"
    if not isinstance(approvers, Mapping):
        raise DefinitionError(
            f'{place}: approvers gives roles by name or pattern, such as {{"delete_*": ["finance"]}}'
        )
    for pattern, roles in cast("Mapping[object, object]", approvers).items():
        if not isinstance(pattern, str) or not pattern:
            raise DefinitionError(f"{place}: approvers is given by the name of a tool, or a pattern")
        check_kinds(f"{place}: approvers of {pattern!r}", {"roles": roles}, {"roles": ROLES})


def check_terms(toolset_id: str, *, trusted: object, confirmation: object) -> None:
    """Check the types and texts of a toolset's terms.

    Raises:
        DefinitionError: `trusted` is not a bool, or `confirmation` does not map names to sentences of 1 to 500
            characters.
    """
    place = f"toolset {toolset_id}"
    if not isinstance(trusted, bool):
        raise DefinitionError(f"{place}: trusted is True or False, not {type(trusted).__name__}")
    if not isinstance(confirmation, Mapping):
        raise DefinitionError(
            f'{place}: confirmation gives a sentence by name or pattern, such as {{"delete_*": "Delete {{path}}?"}}'
        )
    for pattern, sentence in confirmation.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(pattern, str) or not pattern:
            raise DefinitionError(f"{place}: confirmation is given by the name of a tool, or a pattern")
        if not isinstance(sentence, str) or not sentence.strip() or len(sentence) > MAX_PROMPT:
            raise DefinitionError(
                f"{place}: the confirmation of {pattern!r} is a sentence of at most {MAX_PROMPT} characters"
            )


def patterns(toolset_id: str, option: str, given: object) -> tuple[str, ...]:
    """Return the names and patterns of tools that an option has; a single text is one of them.

    Raises:
        DefinitionError: The option holds something other than texts, or an empty text.
    """
    found = [given]
    if isinstance(given, Iterable) and not isinstance(given, str):
        found = list(cast("Iterable[object]", given))
    if not all(isinstance(each, str) and each for each in found):
        raise DefinitionError(
            f'toolset {toolset_id}: {option} takes names or patterns of tools, such as ["read_*"]'
        )
    return tuple(cast("list[str]", found))


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a tool's name fits one of the names or patterns."""
    return any(fnmatchcase(name, each) for each in patterns)


def unmatched(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the names and patterns that fit no tool."""
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]


def spec_from_listing(toolset_id: str, tool: "Tool", terms: Terms) -> ToolSpec:
    """Return the spec of a tool that a server lists.

    Raises:
        ValueError: The name cannot be part of a tool id, or a schema is too large or cannot be enforced.
    """
    if not TOOL_NAME.match(tool.name):
        raise ValueError("a name is at most 100 letters, digits, '_', '-', '.', '/'")
    _check_schema(tool.input_schema)
    if tool.output_schema is not None:
        _check_schema(tool.output_schema)
    title = tool.title or (tool.annotations.title if tool.annotations else None) or tool.name
    return _spec(
        toolset_id,
        tool.name,
        terms,
        title=title,
        description=cleaned(tool.description or "", MAX_DESCRIPTION),
        payload=_type_spec(tool.name, tool.input_schema),
        result=_type_spec(tool.name, tool.output_schema or {}),
        annotations=_annotations(tool.annotations),
    )


def stand_in_spec(toolset_id: str, name: str, terms: Terms) -> ToolSpec:
    """Return a spec for a tool that was not listed yet: any object as payload, any result.

    Raises:
        ValueError: The name cannot be part of a tool id.
    """
    payload, result = _type_spec(name, {"type": "object"}), _type_spec(name, {})
    return _spec(toolset_id, name, terms, title=name, payload=payload, result=result)


def _spec(
    toolset_id: str,
    name: str,
    terms: Terms,
    *,
    title: str,
    payload: TypeSpec,
    result: TypeSpec,
    description: str = "",
    annotations: Annotations | None = None,
) -> ToolSpec:
    return ToolSpec(
        id=ToolId(f"{toolset_id}.{name}"),
        kind="mcp",
        title=plain(title, _MAX_TITLE),
        description=description,
        payload=payload,
        result=result,
        annotations=annotations or Annotations(),
        decode_in_executor=True,
        bounded=matches_any(name, terms.bounded) and can_state_bounds(result.json_schema),
        confirmation=terms.confirmation_of(name),
        approvers=terms.approvers_of(name),
        four_eyes=matches_any(name, terms.four_eyes),
        trusted=terms.trusted,
        timeout=terms.timeout,
        retry=terms.retry,
        task_queue=terms.task_queue,
    )


def _check_schema(schema: Schema) -> None:
    try:
        size = len(json.dumps(schema))
    except RecursionError:
        raise ValueError("its schema is nested too deeply") from None
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"its schema has {size:,} bytes, more than the {MAX_SCHEMA_BYTES:,} allowed")
    check(schema)


def _type_spec(name: str, schema: Schema) -> TypeSpec:
    texts = {field: cleaned(text, _MAX_FIELD) for field, text in field_descriptions(schema).items()}
    return TypeSpec(name=name, json_schema=schema, field_descriptions=texts)


def _annotations(hints: "ToolAnnotations | None") -> Annotations:
    """Return the server's annotations; `destructive` and `idempotent` have no meaning for a read-only tool (MCP)."""
    if hints is None:
        return Annotations()
    reads = hints.read_only_hint is True
    return Annotations(
        read_only=hints.read_only_hint,
        destructive=None if reads else hints.destructive_hint,
        idempotent=None if reads else hints.idempotent_hint,
        open_world=hints.open_world_hint,
    )
