"""The tools that a planner offers its model, and those that a provider refuses."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import structlog
from pydantic_ai import exceptions as raised
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.tools import ToolDefinition

from sojourn.contracts.plan import PlanInput
from sojourn.errors import DefinitionError
from sojourn.models.error_excerpt import error_excerpt, error_message
from sojourn.models.offered import OWN_TOOLS, Offer, definition, last_offer, offer
from sojourn.models.projection import limits_of
from sojourn.serving.run_cache import RunCache

__all__ = ["MAX_REFUSED", "RefusedTools", "ToolOffers"]

MIN_TOOLS = 8
_LEAST_SEARCHED = 2

_BY_SEARCH = "the model finds the others by search"

MAX_REFUSED = 10
_MAX_RUNS = 1_000

_log = structlog.get_logger("sojourn.models")

_PLACE = re.compile(
    r"\btools[.\[](?P<tool>\d+)(?:\]?\.function_?declarations[.\[](?P<inner>\d+))?"
    r"|\bfunction_?declarations[.\[](?P<alone>\d+)",
    re.IGNORECASE,
)
"""The place of a tool in the request, as in Anthropic's `tools.3.custom.input_schema` and OpenAI's `tools[3].function.name`.

Google's `tools[0].function_declarations[3]` and `tools[3].function_declarations[0]` are the same place: a request has all declarations
in one entry, or one in each.
"""

_MOST = re.compile(
    r"\btools?\b(?![.\[]\d).{0,60}?(?:maximum|at most|limit|up to|no more than)\D{0,40}(\d{1,4})\b",
    re.IGNORECASE | re.DOTALL,
)
"""A provider's maximum number of tools, as in OpenAI's `Expected an array with maximum length 128`."""

_OF_COUNT = re.compile(r"array|too many|items|number of tools|\d (?:tools|functions)\b", re.IGNORECASE)
"""Words of a refusal that concerns the number of tools, not another small number."""

_MAX_READ = 20_000

_OF_MESSAGES = re.compile(r"(?:invalid )?\W*(?:messages|input|contents)\b[.\[]", re.IGNORECASE)
"""The beginning of a refusal of the conversation, which names a tool that is not at fault."""

_STATUSES = (400, 422)


class ToolOffers:
    def __init__(self, sources: Sequence[str | Model], max_tools: int | None) -> None:
        if max_tools is not None and (not isinstance(max_tools, int) or max_tools < MIN_TOOLS):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(
                f"ModelPlanner(max_tools=...) is a number of at least {MIN_TOOLS}, since up to 4 tools are "
                f"Sojourn's own; {max_tools!r} is not"
            )
        limits = limits_of(provider for source in sources for provider in _providers(source))
        self._limits = limits if max_tools is None else replace(limits, tools=max_tools)
        self._offers: RunCache[Offer] = RunCache(_MAX_RUNS, _MAX_RUNS)
        self._refused: dict[str, dict[str, Any]] = {}
        self._reasons: dict[str, str] = {}
        self._most: int | None = None
        self._noted: RunCache[frozenset[str]] = RunCache(_MAX_RUNS, _MAX_RUNS)

    def offer(self, turn: PlanInput, *, asks: bool, is_typed: bool = False) -> Offer:
        run_id = turn.run.run_id
        if turn.finalize:
            return last_offer(turn, self._offers.get(run_id))
        made = offer(turn, self._limits, asks=asks, is_typed=is_typed, refused=self._refused)
        self._offers.keep(run_id, made, 1)
        return made

    def lower(self, error: BaseException | None) -> bool:
        """Offer fewer tools, if a refusal says how many. Return whether it does."""
        texts = [error_message(each)[:_MAX_READ] for each in _rejections(error)]
        said = [
            int(found[1])
            for text in texts
            if (found := _MOST.search(text)) and (int(found[1]) >= MIN_TOOLS or _OF_COUNT.search(text))
        ]
        most = min((number for number in said if number > 0), default=self._limits.tools)
        if most >= self._limits.tools:
            return False
        _log.warning("tools_limited", tools=most)
        self._limits, self._most = replace(self._limits, tools=most), most
        return True

    def refuse(self, tools: Sequence[ToolDefinition], reason: str) -> None:
        """Offer these tools no more, until their schema is another one."""
        self._refused |= {tool.name: tool.parameters_json_schema for tool in tools}
        self._reasons |= dict.fromkeys((tool.name for tool in tools), reason)

    def notes(self, turn: PlanInput) -> list[str]:
        """Return notes on refused tools and limits, each once for a run."""
        if turn.finalize or not (self._refused or self._most):
            return []
        found = self._withheld(turn)
        if self._most and len(turn.tools) > self._most:
            others = "the others are not offered" if self._most < _LEAST_SEARCHED else _BY_SEARCH
            found[""] = f"the model's provider takes at most {self._most} tools; {others}"
        noted = self._noted.get(turn.run.run_id) or frozenset()
        new = {tool: text for tool, text in found.items() if tool not in noted}
        if new:
            self._noted.keep(turn.run.run_id, noted | new.keys(), 1)
        by_reason: dict[str, list[str]] = {}
        for tool, text in new.items():
            by_reason.setdefault(text, []).append(tool)
        return [_note(tools, text) for text, tools in by_reason.items()]

    def _withheld(self, turn: PlanInput) -> dict[str, str]:
        made = {spec.id: definition(spec, self._limits) for spec in turn.tools}
        return {
            id: self._reasons.get(tool.name, "")
            for id, tool in made.items()
            if self._refused.get(tool.name) == tool.parameters_json_schema
        }


class RefusedTools:
    """The tools that a provider refuses in the requests of one plan.

    They count as refused only once the provider has taken the request without them, and with everything
    else: a refusal of a picture may name the tool that has made it.
    """

    def __init__(self, offers: ToolOffers) -> None:
        self._offers = offers
        self._left = MAX_REFUSED
        self._named: dict[str, ToolDefinition] = {}
        self._whole: list[ToolDefinition] = []
        self._reason = ""

    def without(
        self, error: BaseException | None, parameters: ModelRequestParameters
    ) -> ModelRequestParameters | None:
        """Return a request without the tools that a refusal names, or None."""
        defined = [*parameters.function_tools, *parameters.output_tools]
        rejections = _rejections(error)
        named = {name for each in rejections for name in _tools_named_in(each, defined)} - OWN_TOOLS
        if not 0 < len(named) <= self._left:
            return None
        self._left -= len(named)
        names = {tool.name for tool in defined}
        reason = next((text for each in rejections if (text := error_excerpt(each, names))), "")
        if not self._named:
            self._whole = parameters.function_tools
        self._named |= {tool.name: tool for tool in defined if tool.name in named}
        self._reason = reason
        kept = [tool for tool in parameters.function_tools if tool.name not in named]
        return replace(parameters, function_tools=kept)

    def restore(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        """Return a request with these tools, without which it is refused too."""
        if not self._named:
            return parameters
        self._named = {}
        return replace(parameters, function_tools=self._whole)

    def confirm(self) -> None:
        """Stop offering the tools, as a request without them was accepted."""
        if not self._named:
            return
        self._offers.refuse([*self._named.values()], self._reason)
        _log.warning("tool_withheld", tools=sorted(self._named), reason=self._reason)
        self._named = {}


def _note(tools: Sequence[str], text: str) -> str:
    if tools == [""]:
        return text
    listed = ", ".join(sorted(tools)[:MAX_REFUSED])
    named = f"the tool {listed}, which is" if len(tools) == 1 else f"the tools {listed}, which are"
    their = "its schema, description or name" if len(tools) == 1 else "their schemas, descriptions or names"
    return (
        f"withheld: the model's provider refuses {named} not offered to it: {text}. Change {their} as these words say; "
        "`sojourn catalog MODULE:APP` shows what there is now."
    )


def _providers(source: str | Model) -> Iterable[str]:
    if isinstance(source, str):
        yield source.partition(":")[0]
    elif isinstance(source, FallbackModel):
        yield from (model.system for model in source.models)
    else:
        yield source.system


def _rejections(error: BaseException | None) -> list[raised.ModelHTTPError]:
    if isinstance(error, raised.FallbackExceptionGroup):
        return [found for each in error.exceptions for found in _rejections(each)]
    if isinstance(error, raised.ModelHTTPError) and error.status_code in _STATUSES:
        return [error]
    return []


def _tools_named_in(error: raised.ModelHTTPError, defined: Sequence[ToolDefinition]) -> set[str]:
    text = error_message(error)[:_MAX_READ]
    if _OF_MESSAGES.match(text):
        return set()
    words = set(re.findall(r"[\w-]+", text))
    by_name = {tool.name for tool in defined if tool.name in words}
    places = {sum(map(int, filter(None, found.groups()))) for found in _PLACE.finditer(text)}
    return by_name or {defined[place].name for place in places if place < len(defined)}
