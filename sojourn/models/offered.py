"""What a model may call: the agent's tools, a question to a person, the typed answer."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pydantic_ai.tools import ToolDefinition

from sojourn.contracts.message import Message
from sojourn.contracts.plan import PlanInput
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["ASK_USER", "FINAL_RESULT", "answer_tool", "definitions"]

ASK_USER = "ask_user"
"""By this a model asks a person; offered where the run's policy has `interrupts_allowed`."""

FINAL_RESULT = "final_result"
"""By this a model gives a typed answer."""

MAX_EXAMPLE = 500
"""Characters of an author's example that a description repeats."""

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
    """The tools of a turn: those that the run offers, less what hints take away, and `ask_user`.

    When each hint of the last step restricts to its tool, only those tools are offered (SR-124). The last
    turn may call none; the tools of the transcript are still named, since providers refuse calls of tools
    that the request does not define.

    Args:
        turn: What the planner was given; injected fields are not in its schemas.
        wire_name: A tool's name as models know it.
        asks: Whether the planner lets its model ask.
    """
    if turn.finalize:
        return [_known(wire_name(name)) for name in _called(turn.messages)]
    tools = _restricted(turn)
    offered = [_definition(spec, wire_name(spec.id)) for spec in tools]
    return [*offered, _ASK] if asks and turn.run.interrupts_allowed else offered


def answer_tool(schema: dict[str, Any]) -> ToolDefinition:
    """The tool by which a typed answer is given.

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
