"""pydantic-ai's models, which use the providers' SDKs, with a stand-in's URL."""

from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.models.standin import wire
from tests.models.standin.request import Protocol


def model_of(
    protocol: Protocol,
    url: str,
    name: str | None = None,
    *,
    settings: ModelSettings | None = None,
    **client_options: Any,
) -> tuple[Model, AsyncOpenAI | AsyncAnthropic]:
    """Return a model, and the SDK's client, which the caller must close.

    The SDK does not retry. `client_options` are those of the SDK's client, such as `timeout` in seconds. For a request
    without `max_tokens`, Anthropic's SDK streams even a plain request, since the response may take long.
    """
    name = name or wire.MODELS[protocol]
    options: dict[str, Any] = {"api_key": wire.KEY, "max_retries": 0, **client_options}
    if protocol == "anthropic":
        anthropic = AsyncAnthropic(base_url=url, **options)
        return AnthropicModel(
            name, provider=AnthropicProvider(anthropic_client=anthropic), settings=settings
        ), anthropic
    openai = AsyncOpenAI(base_url=f"{url}/v1", **options)
    kind = OpenAIChatModel if protocol == "openai-chat" else OpenAIResponsesModel
    return kind(name, provider=OpenAIProvider(openai_client=openai), settings=settings), openai
