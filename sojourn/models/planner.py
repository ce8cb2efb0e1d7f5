"""A planner whose decisions a language model makes."""

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.settings import ModelSettings
from temporalio.exceptions import ApplicationError

from sojourn.authoring.options import FLAG, MAPPING, Kind, declares, list_of, show_value
from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, RunContext, Usage
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.run.totals import add_usage
from sojourn.errors import DefinitionError
from sojourn.live import current_deltas
from sojourn.models.attachments import taken_by
from sojourn.models.compaction import Compaction
from sojourn.models.compactor import Compactor
from sojourn.models.conversation import ModelConversations
from sojourn.models.guarded import ReadTimeOuts, guard
from sojourn.models.messages import from_response
from sojourn.models.model_name import model_name_fault
from sojourn.models.names import Names
from sojourn.models.offered import ASK_USER, FINAL_RESULT, Expected, Offer, answer_tool
from sojourn.models.outcome import Correction, ModelReply, plan_of
from sojourn.models.price import Price, price_usage, read_prices
from sojourn.models.provider_errors import foreign_host, translate_provider_errors
from sojourn.models.rate_limits import RequestLimits
from sojourn.models.requests import ModelInput, Requests, give_up, server_notes
from sojourn.models.response import response_of, usage_of
from sojourn.models.result_text import result_text as text_for_model
from sojourn.models.tool_offers import RefusedTools, ToolOffers
from sojourn.models.tool_search import ToolSearch

__all__ = ["Instructions", "ModelPlanner"]

_CACHED: Any = {
    "anthropic_cache_tool_definitions": True,
    "anthropic_cache_instructions": True,
    "anthropic_cache_messages": True,
}
"""Marks for Anthropic's prompt cache; other providers ignore them.

The marks are on blocks, which servers that only speak Anthropic's API know too.
"""

SCARCE = 4_000
"""Tokens left in a run below which they are sent as `max_tokens`."""

Instructions = str | Callable[[RunContext], str | Awaitable[str]]


@declares(
    "ModelPlanner",
    mends={
        "system_prompt": "instructions=...",
        "prompt": "instructions=...",
        "output_type": "result=...",
        "tools": "Agent(..., uses=[...])",
        "model": "ModelPlanner('openai:gpt-5'), or another model",
        "temperature": 'settings={"temperature": ...}',
        "max_tokens": 'settings={"max_tokens": ...}',
    },
    fallbacks=list_of("models"),
    instructions=Kind(
        "a text, or a function of the run", lambda given: isinstance(given, str) or callable(given)
    ),
    settings=MAPPING,
    asks=FLAG,
)
class ModelPlanner:
    """A planner with a language model, of any provider that pydantic-ai knows.

    Each plan is one request, made in an activity, with the transcript, the agent's tools and the
    instructions. A response that cannot be used is corrected, by another request for the same plan.

    Args:
        model: A name such as `anthropic:claude-sonnet-5-5`, or a model object of pydantic-ai, with a client of your own.
            A name is looked up, and its key read from the environment, when a run first plans.
        fallbacks: Models to try in this order, each when the model before it fails.
        instructions: The text before the transcript.
        result: The answer's type; without it the answer is text.
        settings: Settings of pydantic-ai, such as `{"temperature": 0, "max_tokens": 2000, "thinking": True}`.
        asks: Whether the model may ask the person, in runs whose policy has `interrupts_allowed`.
        result_text: Makes the text of a tool's answer for the model; by default `sojourn.models.result_text`.
        compaction: How the transcript is fitted into the model's context window: True for the defaults of `Compaction`,
            False to fail with `ContextWindowExceeded`.
        max_tools: Most tools that a request defines, Sojourn's own included, at least 8; the model finds the others by
            search. By default 128, and fewer if their definitions are very long.
        max_concurrency: Most requests to one provider in flight on this worker; by default `SOJOURN_MODEL_CONCURRENCY`.
        tokens_per_minute: Most tokens that this worker uses of one provider; by default `SOJOURN_MODEL_TPM`.
        price: A `Price` of the model, or one for each name of several, in place of what `genai-prices` knows.

    Raises:
        DefinitionError: A model, its provider, the result's type or a limit is invalid.
    """

    reads_descriptions = True

    def __init__(
        self,
        model: str | Model,
        *,
        fallbacks: Sequence[str | Model] = (),
        instructions: Instructions | None = None,
        result: Any = None,
        settings: ModelSettings | None = None,
        asks: bool = True,
        result_text: Callable[[ToolResult], str] | None = None,
        compaction: Compaction | bool = True,
        max_tools: int | None = None,
        max_concurrency: int | None = None,
        tokens_per_minute: int | None = None,
        price: Price | Mapping[str, Price] | None = None,
    ) -> None:
        for each in (model, *fallbacks):
            if not isinstance(each, (str, Model)):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
                raise DefinitionError(
                    f"ModelPlanner takes a model by name, such as 'openai:gpt-6.1-terra', or a model object of "
                    f"pydantic-ai; {show_value(each)} is neither"
                )
            if isinstance(each, str) and (fault := model_name_fault(each)):
                raise DefinitionError(f"ModelPlanner: {fault}")
        self._sources = (model, *fallbacks)
        self._instructions = instructions
        self._expected = Expected.of(result) if result is not None else None
        self._settings = settings
        self._asks = asks
        self._conversations = ModelConversations(
            (lambda result, _: result_text(result)) if result_text else text_for_model
        )
        self._compaction = Compaction.of(compaction)
        self._offers = ToolOffers(self._sources, max_tools)
        self._limits = RequestLimits.from_environment(max_concurrency, tokens_per_minute)
        self._prices = read_prices(price)
        self._time_outs = ReadTimeOuts()
        self._plain_ids = False

    @property
    def model_name(self) -> str:
        """The model, such as `openai:gpt-6.1-terra`, then its fallbacks."""
        return ", ".join(
            each if isinstance(each, str) else f"{each.system}:{each.model_name}" for each in self._sources
        )

    def check(self) -> None:
        """Look up the models and their keys, without sending a request.

        Raises:
            ApplicationError: `ModelMisconfigured`, with what to set or to install.
        """
        with translate_provider_errors(self._provider, attempt=1):
            self._model  # noqa: B018 # pyright: ignore[reportUnusedExpression]

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Ask the model for the first plan."""
        return await self._plan(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Ask the model for the next plan."""
        return await self._plan(turn)

    @contextmanager
    def override(self, model: str | Model) -> Generator[None]:
        """Use another model inside the block, without fallbacks.

        This is for tests (see `sojourn.testing.models`).
        """
        sources, self._sources = self._sources, (model,)
        own = {name: self.__dict__.pop(name) for name in ("_model", "_summarizer") if name in self.__dict__}
        compaction, self._compaction = (
            self._compaction,
            self._compaction and replace(self._compaction, model=None),
        )
        try:
            yield
        finally:
            self._sources, self._compaction = sources, compaction
            for name in ("_model", "_summarizer"):
                self.__dict__.pop(name, None)
            self.__dict__.update(own)

    async def _plan(self, turn: PlanInput) -> PlanResult:
        expected = Expected(turn.run.answer) if turn.run.answer else self._expected
        offer = self._offer(turn, expected)
        parameters = await self._parameters(turn, expected, offer)
        settings = self._settings_of(turn)
        with translate_provider_errors(self._provider):
            takes = taken_by(self._model)
        reading = ModelInput(self._conversations, turn, self._compactor(), offer, takes)
        await reading.look()
        await reading.fit(parameters)
        search, refused = ToolSearch(offer.deferred), RefusedTools(self._offers)
        requests = Requests(turn, reading, settings, parameters, refused, plain_ids=self._plain_ids)
        used, corrections = Usage(), list[Correction]()
        while True:
            try:
                response = await self._answer_to(requests, reading.names)
            except ApplicationError as error:
                raise self._time_outs.judge(turn.run.run_id, error) from None
            self._time_outs.forget(turn.run.run_id)
            if response is None:
                return await self._plan(turn)
            refused.confirm()
            self._plain_ids = self._plain_ids or requests.plain_ids
            this = price_usage(usage_of(response), self._prices)
            used = add_usage(used, this)
            response = search.unwrap_searches(response)
            if found := search.answer(response, may_search=_has_left(turn, used)):
                requests.add(found)
                _begin_anew()
                continue
            response = search.without_searches(response)
            reply = ModelReply.of(
                response,
                from_response(response, reading.names, reading.tokens_to_record(this)),
                requests.output_limit,
            )
            outcome = plan_of(
                reply,
                reading.names,
                expected=expected,
                may_ask=requests.offers(ASK_USER),
                may_call=requests.may_call,
                is_last=turn.finalize is not None,
            )
            if isinstance(outcome, Correction):
                corrections.append(outcome)
                if len(corrections) > outcome.most or not _has_left(turn, used):
                    outcome = give_up(corrections, reply, turn)
            if isinstance(outcome, PlanResult):
                reading.note(*self._offers.notes(turn), *search.notes)
                return reading.record(outcome, used)
            requests.correct(response, outcome)
            _begin_anew()

    async def _answer_to(self, requests: Requests, names: Names) -> ModelResponse | None:
        """Send the next request of a plan, in another form if the provider refuses it.

        Return None if the provider takes fewer tools than it was offered, so that the plan begins anew.
        """
        while True:
            try:
                return await self._response(
                    requests.outgoing_messages, requests.parameters, requests.settings, names
                )
            except ApplicationError as error:
                if requests.withhold(error):
                    continue
                if self._offers.lower(error.__context__):
                    return None
                if not await requests.repair(error):
                    raise

    def _compactor(self) -> Compactor | None:
        if self._compaction is None:
            return None
        with translate_provider_errors(self._provider):
            given = self._compaction.model
            provider = given.split(":", 1)[0] if isinstance(given, str) else given and given.system
            return Compactor(
                self._compaction,
                self._model,
                self._summarizer,
                provider=provider or self._provider,
                prices=self._prices,
            )

    async def _response(
        self,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        settings: ModelSettings,
        names: Names,
    ) -> ModelResponse:
        with translate_provider_errors(self._provider):
            model = self._model
        names_sent = {tool.name for tool in parameters.function_tools}
        with translate_provider_errors(self._provider, host=foreign_host(model), names=names_sent):
            if not isinstance(model, FallbackModel):  # a FallbackModel prepares them for each of its models
                messages = model.prepare_messages(messages, parameters)
            return await response_of(model, messages, parameters, settings, id_of=names.id_of)

    @cached_property
    def _model(self) -> Model:
        first, *rest = [guard(infer_model(each), self._limits) for each in self._sources]
        return FallbackModel(first, *rest) if rest else first

    @cached_property
    def _summarizer(self) -> Model:
        given = self._compaction and self._compaction.model
        return guard(infer_model(given), self._limits) if given else self._model

    @property
    def _provider(self) -> str:
        first = self._sources[0]
        return first.split(":", 1)[0] if isinstance(first, str) else first.system

    def _offer(self, turn: PlanInput, expected: Expected | None) -> Offer:
        made = self._offers.offer(turn, asks=self._asks, is_typed=expected is not None)
        if expected is None:
            return made
        return replace(made, keys={**made.keys, FINAL_RESULT: expected.projection.keys})

    async def _parameters(
        self, turn: PlanInput, expected: Expected | None, offer: Offer
    ) -> ModelRequestParameters:
        made = self._instructions(turn.run) if callable(self._instructions) else self._instructions
        text = await made if inspect.isawaitable(made) else made
        parts = (
            [InstructionPart(content=text, dynamic=callable(self._instructions))]
            if text and text.strip()
            else []
        )
        parts += [InstructionPart(content=each) for each in server_notes(turn.server_instructions)]
        if expected is None:
            return ModelRequestParameters(function_tools=offer.tools, instruction_parts=parts)
        return ModelRequestParameters(
            function_tools=offer.tools,
            instruction_parts=parts,
            output_mode="tool",
            output_tools=[answer_tool(expected.projection)],
            allow_text_output=False,
        )

    def _settings_of(self, turn: PlanInput) -> ModelSettings:
        settings = ModelSettings(**(self._settings or {}))
        own = [settings, *(source.settings or {} for source in self._sources if isinstance(source, Model))]
        if not any(name == "cache" or name.startswith("anthropic_cache") for each in own for name in each):
            settings = ModelSettings(**_CACHED, **settings)
        left, limit = turn.caps.tokens, settings.get("max_tokens")
        if left is not None and turn.finalize is None and (limit is not None or left < SCARCE):
            settings["max_tokens"] = max(1, min(left, limit or left))
        if turn.finalize:  # a typed answer stays possible: `final_result` is no function tool
            settings["tool_choice"] = "none"
        return settings


def _begin_anew() -> None:
    if deltas := current_deltas():
        deltas.begin()


def _has_left(turn: PlanInput, used: Usage) -> bool:
    if turn.finalize:
        return True
    tokens, cost = turn.caps.tokens, turn.caps.cost
    return (tokens is None or used.input_tokens + used.output_tokens < tokens) and (
        cost is None or used.cost is None or used.cost < cost
    )
