"""The model that all contenders with a model are given: it decides at once, and alike for each.

It asks for as many calls as the first message says, one a turn, then answers. What it is asked with alternates
between a request and a response, so that its length tells how many calls were made: deciding costs nothing.
"""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from bench import load

__all__ = ["made_of", "model"]

# Given, since FunctionModel would count the words of the whole conversation otherwise.
USAGE = RequestUsage(input_tokens=100, output_tokens=10)


def made_of(messages: int) -> int:
    """How many calls were made, of so many messages: the question, then a call and a result each."""
    return (messages - 1) // 2


async def _decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    [wanted] = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
    made = made_of(len(messages))
    if made == int(str(wanted)):
        return ModelResponse([TextPart("done")], usage=USAGE)
    call = ToolCallPart(info.function_tools[0].name, load.arguments(made), load.call_id(made))
    return ModelResponse([call], usage=USAGE)


model = FunctionModel(_decide, model_name="fake")
"""For whoever asks through pydantic-ai."""
