"""The fake model of all contenders with a model, which decides at once.

It requests as many calls as the first message says, one a response, then answers. Requests and responses
alternate in the messages that the model receives, so that their number gives the number of calls made, and
deciding costs nothing.
"""

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from bench import load

__all__ = ["made_of", "model"]

# Without it FunctionModel would count the words of the whole conversation.
USAGE = RequestUsage(input_tokens=100, output_tokens=10)


def made_of(messages: int) -> int:
    """The number of calls made, from the number of messages: the first message, then two for each call."""
    return (messages - 1) // 2


async def _decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    [wanted] = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
    made = made_of(len(messages))
    if made == int(str(wanted)):
        return ModelResponse([TextPart("done")], usage=USAGE)
    call = ToolCallPart(info.function_tools[0].name, load.arguments(made), load.call_id(made))
    return ModelResponse([call], usage=USAGE)


model = FunctionModel(_decide, model_name="fake")
"""The fake model for contenders that use pydantic-ai."""
