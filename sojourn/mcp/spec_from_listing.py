"""Make the `ToolSpec` of a tool from a server's listing and its toolset's terms."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from sojourn.authoring.options import ROLES, check_kinds
from sojourn.contracts.ids import TOOL_NAME, ToolId
from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec, TypeSpec
from sojourn.core.payload.boundary import can_state_bounds
from sojourn.core.run.approval import MAX_PROMPT
from sojourn.core.schema.drafts import in_2020_12
from sojourn.core.schema.enforceable import check, field_descriptions
from sojourn.core.schema.foreign import mend
from sojourn.errors import DefinitionError
from sojourn.mcp.lenient_answers import as_sent
from sojourn.mcp.limits import MAX_DESCRIPTION, MAX_SCHEMA_BYTES, clean_text
from sojourn.values.json_value import Schema, is_array, is_object
from sojourn.values.text import plain

if TYPE_CHECKING:
    from mcp_types import Tool, ToolAnnotations

__all__ = [
    "READ_RESOURCE_TOOL",
    "Results",
    "Terms",
    "check_approvers",
    "check_terms",
    "connect_spec",
    "find_unmatched",
    "matches_any",
    "patterns",
    "resource_spec",
    "spec_from_listing",
    "stand_in_spec",
    "tool_id_of",
]

T = TypeVar("T")

READ_RESOURCE_TOOL = "read_resource"
"""Reads a resource of a server which declares some, unless a tool of the server has the name."""

Results = Literal["delivered", "checked"]
_MAX_TITLE = 200
_MAX_FIELD = 500
_MAX_READABLE = 50
_DIGITS = 8
_UNDESCRIBED = "(Its server's schema of the arguments cannot be used here. The server itself checks them.)"
_UNREADABLE = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings for all tools of a toolset that the app declares, not the server."""

    timeout: timedelta | None
    retry: Retry
    task_queue: str | None
    trusted: bool
    confirmation: Mapping[str, str]
    bounded: Sequence[str]
    approvers: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    four_eyes: Sequence[str] = ()
    results: Results = "delivered"
    pictures: bool = True

    def confirmation_of(self, name: str) -> str | None:
        """Return the question before a call, by name, then by the first pattern."""
        return _first_fit(self.confirmation, name)

    def approvers_of(self, name: str) -> list[str]:
        """Return the roles that may decide on a call. Empty means `approver`."""
        return list(_first_fit(self.approvers, name) or ())


def _first_fit(by_pattern: Mapping[str, T], name: str) -> T | None:
    if name in by_pattern:
        return by_pattern[name]
    return next((each for pattern, each in by_pattern.items() if fnmatchcase(name, pattern)), None)


def check_approvers(toolset_id: str, approvers: object) -> None:
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
    """Return the names and patterns of tools that an option has, one or several."""
    found = [given]
    if isinstance(given, Iterable) and not isinstance(given, str):
        found = list(cast("Iterable[object]", given))
    if not all(isinstance(each, str) and each for each in found):
        raise DefinitionError(
            f'toolset {toolset_id}: {option} takes names or patterns of tools, such as ["read_*"]'
        )
    return tuple(cast("list[str]", found))


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def find_unmatched(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]


def tool_id_of(toolset_id: str, name: str) -> ToolId:
    """Return the id of a tool with any name at its server.

    A name that cannot be part of an id becomes its readable letters and eight digits of its SHA-256.
    """
    if TOOL_NAME.match(name):
        return ToolId(f"{toolset_id}.{name}")
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    readable = _UNREADABLE.sub("_", name[:_MAX_READABLE]).strip("_.-/")
    return ToolId(f"{toolset_id}.{readable or 'tool'}_{digest}")


def spec_from_listing(toolset_id: str, tool: "Tool", terms: Terms) -> tuple[ToolSpec, str]:
    """Return the spec of a listed tool, and why its schema cannot be used."""
    title = tool.title or (tool.annotations.title if tool.annotations else None) or tool.name
    payload, why = _payload(as_sent(tool.input_schema))
    description = clean_text(tool.description or "", MAX_DESCRIPTION)
    if why:
        description = f"{description}\n{_UNDESCRIBED}".strip()
    # Of a result whose schema cannot be used, nothing is checked.
    result, _ = _usable(as_sent(tool.output_schema or {}))
    spec = _spec(
        toolset_id,
        tool.name,
        terms,
        title=title,
        description=description,
        payload=_type_spec(tool.name, payload),
        result=_type_spec(tool.name, result or {}),
        annotations=_annotations(tool.annotations),
    )
    return spec, why


def stand_in_spec(toolset_id: str, name: str, terms: Terms) -> ToolSpec:
    """Return a spec for a tool that was not listed yet, which accepts anything."""
    payload, result = _type_spec(name, {"type": "object"}), _type_spec(name, {})
    return _spec(toolset_id, name, terms, title=name, payload=payload, result=result)


def connect_spec(toolset_id: str, title: str, terms: Terms) -> ToolSpec:
    """Return the spec of the tool with which a principal signs in."""
    schema: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
    return _spec(
        toolset_id,
        "connect",
        terms,
        title=f"Connect to {title}",
        description=f"Ask the person for whom you act to sign in to {title}. Its other tools are there afterwards.",
        payload=_type_spec("Connect", schema),
        result=_type_spec("Connected", {}),
        annotations=Annotations(read_only=True),
    )


def resource_spec(toolset_id: str, terms: Terms) -> ToolSpec:
    """Return the spec of the tool that reads resources, to which results link."""
    field = {
        "type": "string",
        "minLength": 1,
        "maxLength": 2_000,
        "description": "The address of the resource, as a result gives it.",
    }
    schema = {
        "type": "object",
        "properties": {"uri": field},
        "required": ["uri"],
        "additionalProperties": False,
    }
    return _spec(
        toolset_id,
        READ_RESOURCE_TOOL,
        terms,
        title="Read a resource",
        description="Read a resource of this server, such as one to which a result of its tools links.",
        payload=_type_spec("Resource", schema),
        result=_type_spec("Contents", {}),
        annotations=Annotations(read_only=True),
    )


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
        id=tool_id_of(toolset_id, name),
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


def _payload(sent: object) -> tuple[Schema, str]:
    """Return the payload schema, and why the one sent cannot be used.

    A schema that cannot be enforced is replaced by that of any object: the server alone judges the
    arguments.
    """
    schema, why = _usable(sent)
    if schema is None:
        return {"type": "object"}, why
    kind = schema.get("type")
    if kind == "object":
        return schema, ""
    if kind is not None and not (is_array(kind) and "object" in kind):
        return {"type": "object"}, f"at #/type: it is for {kind}, and arguments are an object"
    return {**(in_2020_12(schema)), "type": "object"}, ""


def _usable(sent: object) -> tuple[Schema | None, str]:
    """Return the sent or a mended schema, or None, and why not the sent one."""
    if not is_object(sent):
        return None, f"it is a {type(sent).__name__}, not a JSON object"
    try:
        text = json.dumps(sent)
    except (RecursionError, ValueError, TypeError):
        return None, "it is nested too deeply"
    if len(text) > MAX_SCHEMA_BYTES:
        return None, f"it has {len(text):,} bytes, more than the {MAX_SCHEMA_BYTES:,} allowed"
    why = ""
    try:
        check(sent)
    except ValueError as error:
        why = str(error)
    if not why and '"nullable"' not in text:
        return sent, ""
    return mend(sent), why


def _type_spec(name: str, schema: Schema) -> TypeSpec:
    texts = {field: clean_text(text, _MAX_FIELD) for field, text in field_descriptions(schema).items()}
    return TypeSpec(name=name, json_schema=schema, field_descriptions=texts)


def _annotations(hints: "ToolAnnotations | None") -> Annotations:
    """Return the annotations, which MCP defines for tools that change something."""
    if hints is None:
        return Annotations()
    reads = hints.read_only_hint is True
    return Annotations(
        read_only=hints.read_only_hint,
        destructive=None if reads else hints.destructive_hint,
        idempotent=None if reads else hints.idempotent_hint,
        open_world=hints.open_world_hint,
    )
