"""ToolOptions: what a tool's declaration says beside its code, and what of it contradicts itself."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from sojourn.authoring.artifact_kind import ArtifactKind
from sojourn.authoring.tool import Filler
from sojourn.contracts.tool_spec import Retry, ToolSpec
from sojourn.core.payload.bounds import can_state_bounds
from sojourn.core.values.timers import duration_fault
from sojourn.errors import DefinitionError

__all__ = ["Inject", "OpenOptions", "ToolOptions", "artifact_types", "check_options", "fillers_of"]

_OWN_IDS = ("run_id", "session_id", "turn_id", "tool_call_id")
"""Injected fields of these names fill themselves from the meta."""


Inject = Sequence[str] | Mapping[str, Filler | None]
"""Names of fields, or field to what fills it."""


class OpenOptions(TypedDict, total=False):
    """What a tool without injected fields is declared with."""

    name: str
    """The last part of the id; the function's name when left out."""
    title: str
    """For people."""
    description: str
    """For planners; the docstring's first paragraph when left out."""
    tags: Sequence[str]
    """For policies and catalogues."""
    bounded: bool
    """Its result is a bounded view and says so in `returned`, `total`, `truncated` (SR-31)."""
    artifacts: Mapping[str, Any] | Sequence[ArtifactKind[Any]]
    """What it may return beside its result: `ArtifactKind`s, or kind to type (SR-104)."""
    read_only: bool
    """It changes nothing."""
    destructive: bool
    """It may destroy or overwrite."""
    idempotent: bool
    """Twice is as once; False: a lost attempt is never repeated."""
    open_world: bool
    """It reaches systems outside the service."""
    confirmation: str
    """What a person is asked before each call, such as "Overwrite the profile of {name}?"; fields are filled in."""
    local: bool
    """Run it beside the workflow, as a local activity; only for what is `read_only` or `idempotent`."""
    timeout: timedelta
    """Its own time limit; the policy's `tool_timeout` when left out."""
    retry: Retry
    """For transient faults."""
    examples: Sequence[dict[str, Any]]
    """Payloads that validate; the first goes into hints."""


class ToolOptions(OpenOptions, total=False):
    """What `Toolset.tool`, `bind` and `declare` take beside the code."""

    inject: Inject
    """Payload fields that no planner sees; a function of the meta fills one, else an interceptor (SR-41)."""


def check_options(spec: ToolSpec) -> None:
    """Refuse options that contradict one another."""
    annotations, place = spec.annotations, spec.id
    if fault := duration_fault("timeout", spec.timeout):
        raise DefinitionError(f"{place}: {fault}")
    if fault := duration_fault("retry.initial_interval", spec.retry.initial_interval or None):
        raise DefinitionError(f"{place}: {fault}")
    if spec.bounded and not can_state_bounds(spec.result.json_schema):
        raise DefinitionError(f"{place}: the result of a bounded tool needs a field `returned`")
    if spec.local and not (annotations.read_only or annotations.idempotent):
        raise DefinitionError(
            f"{place}: a local tool can run twice; declare it read_only=True or idempotent=True, or leave out local="
        )
    if spec.decode_in_executor and spec.injected:
        raise DefinitionError(
            f"{place}: with decode_in_executor the payload is not parsed before the executor, so no field can be injected; "
            "leave out one of the two"
        )
    if spec.kind == "external" and (spec.confirmation or spec.local or spec.injected or spec.task_queue):
        raise DefinitionError(
            f"{place}: an external tool is executed outside; leave out confirmation, local, inject and task_queue"
        )
    if spec.local and spec.task_queue:
        raise DefinitionError(
            f"{place}: a local tool runs on its run's worker, not on task queue {spec.task_queue}; leave out one of the two"
        )


def artifact_types(artifacts: Mapping[str, Any] | Sequence[ArtifactKind[Any]], place: str) -> dict[str, Any]:
    """Each declared kind of artifact with its type."""
    if isinstance(artifacts, Mapping):
        return dict(artifacts)
    types: dict[str, Any] = {}
    for kind in artifacts:
        if not isinstance(kind, ArtifactKind):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(
                f"{place}: artifacts takes ArtifactKind(name, type)s, or a mapping of kind to type; {kind!r} is neither"
            )
        if kind.name in types:
            raise DefinitionError(f"{place}: artifact {kind.name!r} is declared twice")
        types[kind.name] = kind.data
    return types


def fillers_of(inject: Inject) -> dict[str, Filler | None]:
    """Each injected field with what fills it; None where an interceptor has to."""
    given: Mapping[str, Filler | None]
    given = (
        inject
        if isinstance(inject, Mapping)
        else dict.fromkeys([inject] if isinstance(inject, str) else inject)
    )
    return {name: filler or (_own_id(name) if name in _OWN_IDS else None) for name, filler in given.items()}


def _own_id(name: str) -> Filler:
    return lambda meta: getattr(meta, name)
