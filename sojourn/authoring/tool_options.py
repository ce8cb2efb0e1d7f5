"""The options of a tool's declaration, and the check for contradictions."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, cast

from sojourn.authoring.options import (
    APPROVERS,
    DURATION,
    FLAG,
    RETRY,
    TEXT,
    TEXTS,
    Approvers,
    Kind,
    check_kinds,
    list_of,
    refuse_unknown,
    show_value,
)
from sojourn.authoring.tool import ArtifactKind, Filler
from sojourn.contracts.record import suggestion
from sojourn.contracts.tool_spec import Retry, ToolSpec
from sojourn.core.payload.boundary import can_state_bounds
from sojourn.core.payload.template import unknown_fields
from sojourn.core.run.approval import is_marked
from sojourn.errors import DefinitionError
from sojourn.values.json_value import Schema
from sojourn.values.timers import duration_fault

__all__ = [
    "OPTIONS",
    "Inject",
    "OpenOptions",
    "ToolOptions",
    "artifact_types",
    "check_options",
    "check_templates",
    "fillers_of",
    "read_options",
]

_OWN_IDS = ("run_id", "session_id", "turn_id", "tool_call_id")
"""Injected fields that are filled from the meta without a filler."""


Inject = Sequence[str] | Mapping[str, Filler | None]


class OpenOptions(TypedDict, total=False):
    """The options of a tool without injected fields."""

    name: str
    """The last part of the id; by default the function's name."""
    title: str
    """Title for people."""
    description: str
    """Description for planners; by default the docstring's first paragraph."""
    tags: Sequence[str]
    """Tags for policies and catalogues."""
    bounded: bool
    """Whether the result is a bounded view, which states `returned`, `total`, `truncated` (SR-31)."""
    artifacts: Mapping[str, Any] | Sequence[ArtifactKind[Any]]
    """The artifacts that the tool may return with its result: `ArtifactKind`s, or a mapping of kind to type (SR-104)."""
    read_only: bool
    """The tool changes nothing."""
    destructive: bool
    """The tool may destroy or overwrite."""
    idempotent: bool
    """Repeating a call has no further effect; False means that a lost attempt is never repeated."""
    open_world: bool
    """The tool reaches systems outside the service."""
    confirmation: str
    """The question to a person before each call, such as "Overwrite the profile of {name}?"; fields are filled in."""
    approvers: Approvers
    """Who may decide on a call: principals with one of these roles, such as `["finance"]`, or a function of the principal, the call and the wait;
    by default the role `approver`. A person is then asked before each call, as with `confirmation`.
    """
    four_eyes: bool
    """Whether the principals who requested a call may not approve it. Each call then needs an approval, as with `confirmation`."""
    allows_edits: bool
    """Whether an approver may edit the arguments of a call; by default it may, if the policy allows it too."""
    memory: bool
    """Whether the tool reads the run's memory, as `meta.memory`; any tool may change it, by `WithMemory`."""
    attachments: bool
    """Whether the tool gets the files of the conversation, as `meta.attachments`; one with a parameter of type `Attachment` does."""
    local: bool
    """Whether the tool runs as a local activity; only for a tool that is `read_only` or `idempotent`."""
    timeout: timedelta
    """Time limit of one attempt; by default the policy's `tool_timeout`."""
    retry: Retry
    """The retry of transient failures."""
    examples: Sequence[dict[str, Any]]
    """Valid payloads; the first is used in hints."""


class ToolOptions(OpenOptions, total=False):
    """The options of `Toolset.tool`, `bind` and `declare`. All of them may be left out.

    - What planners and people read: `name`, `title`, `description`, `tags`, `examples` of the payload.
    - What the tool does: `read_only` (changes nothing), `destructive` (may destroy or overwrite), `idempotent` (a
      repeated call has no further effect; False: a lost attempt is never repeated), `open_world` (reaches systems
      outside).
    - Who decides first: `confirmation` (the question before each call), `approvers` (the roles that decide), `four_eyes`
      (the principal that asked for the call may not approve it), `allows_edits` (whether an approver may edit its arguments).
    - Payload and result: `inject` (payload fields that no planner sees), `memory` (reads the run's memory),
      `bounded` (the result says how much of it there is), `artifacts` (kinds of data beside the result).
    - How it runs: `timeout` of an attempt, `retry` of transient failures, `local` (as a local activity).
    """

    inject: Inject
    """Payload fields that no planner sees; filled by a function of the meta, else by an interceptor (SR-41)."""


_FLAGS = (
    "allows_edits",
    "attachments",
    "bounded",
    "destructive",
    "four_eyes",
    "idempotent",
    "local",
    "memory",
    "open_world",
    "read_only",
)


def _example(value: Any) -> str | None:
    return "[{...}]" if isinstance(value, Mapping) else None


def _is_examples(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(each, dict) for each in cast("Sequence[object]", value)
    )


def _is_inject(value: Any) -> bool:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return all(isinstance(name, str) and (fill is None or callable(fill)) for name, fill in pairs)
    return TEXT.fits(value) or TEXTS.fits(value)


_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("name", "title", "description", "confirmation"), TEXT),
    **dict.fromkeys(_FLAGS, FLAG),
    "tags": TEXTS,
    "approvers": APPROVERS,
    "timeout": DURATION,
    "retry": RETRY,
    "examples": Kind("a list of payloads", _is_examples, _example),
    "artifacts": list_of("ArtifactKinds", also=lambda value: isinstance(value, Mapping)),
    "inject": Kind("a list of fields, or a mapping of field to a function of the ToolCallMeta", _is_inject),
}

OPTIONS = tuple(_KINDS)


def read_options(place: str, options: Mapping[str, Any]) -> ToolOptions:
    refuse_unknown(place, options, OPTIONS)
    check_kinds(place, options, _KINDS)
    return cast("ToolOptions", {name: value for name, value in options.items() if value is not None})


def check_options(spec: ToolSpec) -> None:
    annotations, place = spec.annotations, f"tool {spec.id}"
    if fault := duration_fault("timeout", spec.timeout):
        raise DefinitionError(f"{place}: {fault}")
    if fault := duration_fault("retry.initial_interval", spec.retry.initial_interval or None):
        raise DefinitionError(f"{place}: {fault}")
    if spec.bounded and not can_state_bounds(spec.result.json_schema):
        raise DefinitionError(f"{place}: the result of a bounded tool needs a field `returned`")
    if annotations.read_only and annotations.destructive:
        raise DefinitionError(
            f"{place}: read_only=True says that it changes nothing, destructive=True that it may destroy; "
            "leave out the one that is wrong"
        )
    if annotations.read_only and annotations.idempotent is False:
        raise DefinitionError(
            f"{place}: a tool that changes nothing can be called again; leave out read_only=True or idempotent=False"
        )
    if spec.local and not (annotations.read_only or annotations.idempotent):
        raise DefinitionError(
            f"{place}: a local tool can run twice; declare it read_only=True or idempotent=True, or leave out local="
        )
    if spec.decode_in_executor and spec.injected:
        raise DefinitionError(
            f"{place}: with decode_in_executor the payload is not parsed before the executor, so no field can be injected; "
            "leave out one of the two"
        )
    if spec.kind == "external" and (
        is_marked(spec) or spec.local or spec.injected or spec.task_queue or spec.memory
    ):
        raise DefinitionError(
            f"{place}: an external tool is executed outside; leave out confirmation, approvers, four_eyes, local, inject, memory and "
            "task_queue"
        )
    if spec.local and spec.task_queue:
        raise DefinitionError(
            f"{place}: a local tool runs on its run's worker, not on task queue {spec.task_queue}; leave out one of the two"
        )


def check_templates(place: str, schema: Schema, **templates: object) -> None:
    """Refuse a template that names a field which the payload does not have.

    Other braces are literal in a prompt, so there only a name that is close to a field is refused.
    """
    for option, template in templates.items():
        unknown, declared = unknown_fields(template, schema) if isinstance(template, str) else ([], [])
        if option != "confirmation":
            unknown = [name for name in unknown if suggestion(name, declared)]
        if unknown:
            fields = f"its fields are {', '.join(declared)}" if declared else "it has no fields"
            close = suggestion(unknown[0], declared) or f"; {fields}"
            raise DefinitionError(
                f"{place}: {option} names {{{unknown[0]}}}, which is no field of the payload{close}"
            )


def artifact_types(artifacts: Mapping[str, Any] | Sequence[ArtifactKind[Any]], place: str) -> dict[str, Any]:
    if isinstance(artifacts, Mapping):
        return dict(artifacts)
    types: dict[str, Any] = {}
    for kind in artifacts:
        if not isinstance(kind, ArtifactKind):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(
                f"{place}: artifacts takes ArtifactKind(name, type)s, or a mapping of kind to type; {show_value(kind)} is neither"
            )
        if kind.name in types:
            raise DefinitionError(f"{place}: artifact {kind.name!r} is declared twice")
        types[kind.name] = kind.data
    return types


def fillers_of(inject: Inject) -> dict[str, Filler | None]:
    by_field: Mapping[str, Filler | None]
    by_field = (
        inject
        if isinstance(inject, Mapping)
        else dict.fromkeys([inject] if isinstance(inject, str) else inject)
    )
    return {
        name: filler or (_own_id(name) if name in _OWN_IDS else None) for name, filler in by_field.items()
    }


def _own_id(name: str) -> Filler:
    return lambda meta: getattr(meta, name)
