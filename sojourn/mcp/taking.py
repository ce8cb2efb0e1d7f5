"""How a tool that a server lists becomes one of ours: its spec, taken over as it is, or the reason why not."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sojourn.contracts.ids import TOOL_NAME, ToolId
from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec, TypeSpec
from sojourn.core.payload.bounds import can_state_bounds
from sojourn.core.schema.enforceable import check, field_descriptions
from sojourn.core.values.pointer import Schema
from sojourn.core.values.text import plain
from sojourn.mcp.confirming import sentence_for
from sojourn.mcp.limits import MAX_DESCRIPTION, MAX_SCHEMA_BYTES
from sojourn.mcp.text import cleaned

if TYPE_CHECKING:
    from mcp_types import Tool, ToolAnnotations

__all__ = ["Terms", "spec_of", "stand_in"]

_MAX_TITLE = 200
_MAX_FIELD = 500


class Terms(TypedDict):
    """What a toolset says of all its tools."""

    timeout: timedelta | None
    retry: Retry
    task_queue: str | None
    trusted: bool
    confirmation: Mapping[str, str]
    """By name or pattern; a spec gets the sentence that is its own."""
    bounded: Sequence[str]
    """Names or patterns of those whose results state their bounds."""


def spec_of(toolset_id: str, tool: "Tool", **terms: Unpack[Terms]) -> ToolSpec:
    """The spec of a server's tool.

    Raises:
        ValueError: its name cannot be part of an id, or a schema cannot be enforced; says why.
    """
    if not TOOL_NAME.match(tool.name):
        raise ValueError("a name is at most 100 letters, digits, '_', '-', '.', '/'")
    _check(tool.input_schema)
    if tool.output_schema is not None:
        _check(tool.output_schema)
    title = tool.title or (tool.annotations.title if tool.annotations else None) or tool.name
    return _spec(
        toolset_id,
        tool.name,
        title=plain(title, _MAX_TITLE),
        description=cleaned(tool.description or "", MAX_DESCRIPTION),
        payload=_shape(tool.name, tool.input_schema),
        result=_unknown_shape(tool.name)
        if tool.output_schema is None
        else _shape(tool.name, tool.output_schema),
        annotations=_annotations(tool.annotations),
        **terms,
    )


def stand_in(toolset_id: str, name: str, **terms: Unpack[Terms]) -> ToolSpec:
    """The spec of a tool that nobody has seen yet, since its server was never reached.

    Raises:
        ValueError: the name cannot be part of an id.
    """
    return _spec(
        toolset_id,
        name,
        title=plain(name, _MAX_TITLE),
        description="",
        payload=TypeSpec(name=name, json_schema={"type": "object"}),
        result=_unknown_shape(name),
        annotations=Annotations(),
        **terms,
    )


def _unknown_shape(name: str) -> TypeSpec:
    """The shape of a result that the server does not describe."""
    return TypeSpec(name=name, json_schema={})


def _spec(
    toolset_id: str,
    name: str,
    *,
    confirmation: Mapping[str, str],
    bounded: Sequence[str],
    result: TypeSpec,
    **fields: Any,
) -> ToolSpec:
    is_bounded = any(fnmatchcase(name, each) for each in bounded) and can_state_bounds(result.json_schema)
    return ToolSpec(
        id=ToolId(f"{toolset_id}.{name}"),
        kind="mcp",
        decode_in_executor=True,
        confirmation=sentence_for(name, confirmation),
        bounded=is_bounded,
        result=result,
        **fields,
    )


def _check(schema: Schema) -> None:
    try:
        size = len(json.dumps(schema))
    except RecursionError:
        raise ValueError("its schema is nested without end") from None
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"its schema has {size:,} bytes, more than the {MAX_SCHEMA_BYTES:,} allowed")
    check(schema)


def _shape(name: str, schema: Schema) -> TypeSpec:
    told = {field: cleaned(text, _MAX_FIELD) for field, text in field_descriptions(schema).items()}
    return TypeSpec(name=name, json_schema=schema, field_descriptions=told)


def _annotations(hints: "ToolAnnotations | None") -> Annotations:
    """What the server says of its tool; of one that only reads, the other two mean nothing (MCP, ToolAnnotations)."""
    if hints is None:
        return Annotations()
    reads = hints.read_only_hint is True
    return Annotations(
        read_only=hints.read_only_hint,
        destructive=None if reads else hints.destructive_hint,
        idempotent=None if reads else hints.idempotent_hint,
        open_world=hints.open_world_hint,
    )
