"""The tools that a model is offered: the agent's tools, a question to a person, and the typed answer."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pydantic_ai.tools import ToolDefinition

from sojourn.contracts.message import Message
from sojourn.contracts.plan import PlanInput
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["ASK_USER", "FINAL_RESULT", "answer_tool", "definitions"]

ASK_USER = "ask_user"
"""The tool by which a model asks a person; offered where the run's policy has `interrupts_allowed`."""

FINAL_RESULT = "final_result"
"""The tool by which a model gives a typed answer."""

MAX_EXAMPLE = 500
"""Longest example of an author that a description repeats, in characters."""

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


def definitions(turn: PlanInput, wire_name: Callable[[str], str], *, asks: bool) -> list[ToolDefinition]:
    """Return the tools of a request: those that the run offers, as far as hints allow, and `ask_user`.

    When each hint of the last step restricts to its tool, only those tools are offered (SR-124). In the last
    turn no tool may be called; the tools of the transcript are still defined, since providers refuse a
    transcript with calls of tools that the request does not define.

    Args:
        turn: The planner's input; its schemas have no injected fields.
        wire_name: Returns a tool's name for providers.
        asks: Whether the planner allows its model to ask.
    """
    if turn.finalize:
        return [_known(wire_name(name)) for name in _called(turn.messages)]
    tools = _restricted(turn)
    offered = [_definition(spec, wire_name(spec.id)) for spec in tools]
    return [*offered, _ASK] if asks and turn.run.interrupts_allowed else offered


def answer_tool(schema: dict[str, Any]) -> ToolDefinition:
    """Return the tool by which a model gives a typed answer.

    Args:
        schema: JSON Schema of an object.
    """
    return ToolDefinition(
        name=FINAL_RESULT,
        description="Give your answer, when you have it. It ends the work.",
        parameters_json_schema=schema,
        kind="output",
    )


def _restricted(turn: PlanInput) -> Sequence[ToolSpec]:
    if not turn.hints or not all(hint.restrict_to_tool for hint in turn.hints):
        return turn.tools
    wanted = {hint.tool for hint in turn.hints}
    return [spec for spec in turn.tools if spec.id in wanted] or turn.tools


def _definition(spec: ToolSpec, name: str) -> ToolDefinition:
    lines = [spec.description or spec.title]
    if spec.payload.example:
        example = json.dumps(spec.payload.example, ensure_ascii=False)
        lines += [f"Arguments such as {example}"] if len(example) <= MAX_EXAMPLE else []
    return ToolDefinition(
        name=name,
        description="\n".join(lines),
        parameters_json_schema=spec.payload.json_schema,
    )


def _called(messages: Sequence[Message]) -> Collection[str]:
    return dict.fromkeys(call.name for message in messages for call in message.tool_calls)


def _known(name: str) -> ToolDefinition:
    return ToolDefinition(name=name, description="Not available any more.")
