"""A model that writes its calls' arguments as JSON text, as those of providers do, and decides as another planner."""

import json
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from sojourn import ModelPlanner, PlanInput, PlanResult
from sojourn.planner import Planner

__all__ = ["TextModel"]


class TextModel:
    """A planner whose model responds with what another planner decides, in words and JSON text."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return await self._by_model(turn, await self._planner.plan_start(turn))

    async def plan_resume(self, turn: Any) -> PlanResult:
        return await self._by_model(turn, await self._planner.plan_resume(turn))

    async def _by_model(self, turn: Any, decided: PlanResult) -> PlanResult:
        if not (decided.tool_calls or decided.final_response):
            return decided

        def respond(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
            parts: list[Any] = [
                ToolCallPart(call.name.replace(".", "__"), json.dumps(call.payload), call.tool_call_id or "")
                for call in decided.tool_calls
            ]
            return ModelResponse(parts or [TextPart(decided.final_response.text)])

        model = ModelPlanner(FunctionModel(respond, model_name="text"))
        planned = await (model.plan_resume(turn) if type(turn) is not PlanInput else model.plan_start(turn))
        assert all(call.raw is not None for call in planned.tool_calls)
        return planned
