"""The tools that a model is offered, and the schema of its typed answer.

A prompt cache holds the front of a request only as long as it stays the same. So the definitions are sorted
by name, and nothing is withdrawn within a run: neither when a call has to be corrected, nor in the last
turn.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_ai.tools import ToolDefinition

from sojourn.authoring.shape import Shape
from sojourn.contracts.plan import PlanInput
from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec
from sojourn.core.payload.boundary import issues_of
from sojourn.core.payload.hints import hint_for_issues
from sojourn.core.payload.reading import read_payload
from sojourn.core.schema.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.models.names import CALL_TOOL, wire_name
from sojourn.models.projection import Keys, Projection, ProviderLimits, project
from sojourn.models.tool_search import SEARCH_TOOLS, search_definitions
from sojourn.values.text import clip

__all__ = [
    "ASK_USER",
    "FINAL_RESULT",
    "OWN_TOOLS",
    "Expected",
    "Offer",
    "answer_tool",
    "definition",
    "last_offer",
    "offer",
]

ASK_USER = "ask_user"
"""The tool with which a model asks a person, if the run's policy has `interrupts_allowed`."""

FINAL_RESULT = "final_result"
OWN_TOOLS = frozenset({ASK_USER, FINAL_RESULT, SEARCH_TOOLS, CALL_TOOL})
_MAX_DEFINED = 4_000

_defined: OrderedDict[tuple[int, int], tuple[ToolSpec, ToolDefinition]] = OrderedDict()
"""Definitions by `id` of the spec, which is stored too so that its `id` stays unique."""

_ASK = ToolDefinition(
    name=ASK_USER,
    description="Ask the person you work for. Use it only for what no tool can tell and you cannot decide; "
    "the run waits for the answer, which may take days.",
    parameters_json_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1, "maxLength": 4_000, "description": "What to ask."},
            "missing_fields": {
                "type": "array",
                "items": {"type": "string", "maxLength": 200},
                "maxItems": 50,
                "description": "Names of the arguments that the answer should give, where it is for a tool; "
                "a nested one as a JSON pointer, such as /lines/0/sku.",
            },
            "tool": {"type": "string", "description": "The tool that the answer is for, by its name here."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True)
class Offer:
    tools: list[ToolDefinition]
    """The definitions, sorted by name; Sojourn's own are the last."""
    deferred: Sequence[ToolSpec] = ()
    keys: Mapping[str, Keys] = field(default_factory=dict[str, Keys])

    @property
    def deferred_ids(self) -> frozenset[str]:
        return frozenset(spec.id for spec in self.deferred)


def offer(
    turn: PlanInput,
    limits: ProviderLimits,
    *,
    asks: bool,
    is_typed: bool = False,
    refused: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> Offer:
    """Return the tools of a request that the provider accepts."""
    every: dict[str, ToolDefinition] = {spec.id: definition(spec, limits) for spec in turn.tools}
    made = {id: tool for id, tool in every.items() if refused.get(tool.name) != tool.parameters_json_schema}
    specs = [spec for spec in turn.tools if spec.id in made]
    sizes: dict[str, int] = {spec.id: _size(spec, made[spec.id]) for spec in specs}
    most = limits.tools - is_typed
    can_search = most >= len({SEARCH_TOOLS, CALL_TOOL})
    direct = (
        _direct(specs, sizes, limits) if can_search else {spec.id for spec in _by_preference(specs)[:most]}
    )
    tools = sorted((made[id] for id in direct), key=lambda tool: tool.name)
    deferred = sorted(
        (spec for spec in specs if spec.id not in direct and can_search), key=lambda spec: spec.id
    )
    tools += search_definitions(deferred) if deferred else []
    tools += [_ASK] if asks and turn.run.interrupts_allowed and len(tools) < most else []
    keys: dict[str, Keys] = {spec.id: project(spec.payload.json_schema).keys for spec in turn.tools}
    return Offer(tools, deferred, keys)


def last_offer(turn: PlanInput, before: Offer | None) -> Offer:
    """Return the tools of the last turn, in which none may be called.

    They are those of the turn before, or else those of the transcript: providers refuse a transcript with
    calls of tools that the request does not define.
    """
    if before is not None:
        return before
    names = dict.fromkeys(wire_name(call.name) for message in turn.messages for call in message.tool_calls)
    return Offer([ToolDefinition(name=name, description="Not available any more.") for name in sorted(names)])


def answer_tool(projection: Projection) -> ToolDefinition:
    text = "Give your answer, when you have it. It ends the work."
    return ToolDefinition(
        name=FINAL_RESULT,
        description=f"{text} {projection.rules}" if projection.rules else text,
        parameters_json_schema=projection.schema,
        kind="output",
    )


def definition(spec: ToolSpec, limits: ProviderLimits) -> ToolDefinition:
    """Return a tool's definition, the same for the same tool.

    A foreign schema is not sent as `strict`, which promises more than it may keep.
    """
    key = id(spec), limits.description
    if key not in _defined:
        _defined[key] = spec, _definition(spec, limits)
        if len(_defined) > _MAX_DEFINED:
            _defined.popitem(last=False)
    return _defined[key][1]


def _definition(spec: ToolSpec, limits: ProviderLimits) -> ToolDefinition:
    projection = project(spec.payload.json_schema)
    return ToolDefinition(
        name=wire_name(spec.id),
        description=_description(spec, projection, limits.description),
        parameters_json_schema=projection.schema,
        strict=False if spec.kind == "mcp" else None,
    )


def _description(spec: ToolSpec, projection: Projection, limit: int) -> str:
    """Return the tool's description without its example, which models would copy."""
    text = spec.description or spec.title
    rules = f"\n{clip(projection.rules, limit // 2)}" if projection.rules else ""
    return f"{clip(text, limit - len(rules))}{rules}"


def _direct(specs: Sequence[ToolSpec], sizes: Mapping[str, int], limits: ProviderLimits) -> set[str]:
    """Return the tools that a request defines: the author's, then small sets."""
    most = limits.tools - len({ASK_USER, FINAL_RESULT})
    if len(specs) <= most and sum(sizes.values()) <= limits.definitions:
        return {spec.id for spec in specs}
    most, room = most - len({SEARCH_TOOLS, CALL_TOOL}), limits.definitions
    direct: set[str] = set()
    for spec in _by_preference(specs):
        if len(direct) < most and sizes[spec.id] <= room:
            direct.add(spec.id)
            room -= sizes[spec.id]
    return direct


def _by_preference(specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    toolset = {spec.id: spec.id.rpartition(".")[0] for spec in specs}
    count = Counter(toolset.values())
    return sorted(specs, key=lambda spec: (spec.kind == "mcp", count[toolset[spec.id]], spec.id))


def _size(spec: ToolSpec, tool: ToolDefinition) -> int:
    return project(spec.payload.json_schema).size + len(tool.description or "") + len(tool.name)


_WRAPPED = "answer"


class Expected:
    """The schema of an answer.

    Providers require an object, so another value is its field `answer`.
    """

    def __init__(self, schema: dict[str, Any], shape: Shape | None = None) -> None:
        self.answer = schema
        self._shape = shape

    @classmethod
    def of(cls, source: Any) -> "Expected":
        place = "ModelPlanner(result=...)"
        try:
            shape = Shape(source, place=place)
        except DefinitionError:  # only an object can be a payload; an output may be any type
            shape = Shape(source, place=place, output=True)
        return cls(shape.spec.json_schema, shape)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        if self._is_object:
            return self.answer
        inner = {word: value for word, value in self.answer.items() if word not in ("$defs", "$schema")}
        outer = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
        return {**outer, "$defs": self.answer["$defs"]} if "$defs" in self.answer else outer

    @property
    def projection(self) -> Projection:
        return project(self.arguments)

    def value(self, arguments: dict[str, Any]) -> Any:
        return arguments if self._is_object else arguments.get(_WRAPPED)

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return read_payload(self._validator, arguments).payload

    def mismatch(self, arguments: dict[str, Any]) -> ToolResult | None:
        """Return the refusal of arguments, as of a tool's call, or None."""
        is_valid = self._validator.is_valid(arguments)
        issues = self._type_issues(arguments) if is_valid else self._validator.issues(arguments)
        if not issues:
            return None
        error, hint = hint_for_issues(self._spec, arguments, issues, self._validator, self._fits)
        return ToolResult(name=FINAL_RESULT, error=error, retry_hint=hint)

    @property
    def _is_object(self) -> bool:
        return self.answer.get("type") == "object"

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.arguments, typed=self._shape is not None)

    @cached_property
    def _spec(self) -> ToolSpec:
        payload = TypeSpec(name="answer", json_schema=self.arguments)
        return ToolSpec.model_construct(
            id=FINAL_RESULT, title=FINAL_RESULT, description="", payload=payload, result=payload
        )

    def _fits(self, arguments: dict[str, Any]) -> bool:
        return not self._type_issues(arguments)

    def _type_issues(self, arguments: dict[str, Any]) -> list[FieldIssue]:
        if self._shape is None:
            return []
        try:
            self._shape.decode(self.value(arguments))
        except ValidationError as error:
            return issues_of(error)
        return []
