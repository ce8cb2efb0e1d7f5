"""pydantic-ai's models, which use the providers' SDKs, with a stand-in's URL.

The SDKs are imported when a model is made: to import Anthropic's takes a second, in each process that collects tests.
"""

import ssl
from functools import cache
from typing import Any

from pydantic_ai.models import Model
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
) -> tuple[Model, Any]:
    """Return a model, and the SDK's client, which the caller must close.

    The SDK does not retry. `client_options` are those of the SDK's client, such as `timeout` in seconds. For a request
    without `max_tokens`, Anthropic's SDK streams even a plain request, since the response may take long.
    """
    name = name or wire.MODELS[protocol]
    options: dict[str, Any] = {"api_key": wire.KEY, "max_retries": 0, **client_options}
    if protocol == "anthropic":
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        http_client = DefaultAsyncHttpxClient(verify=_certificates())
        anthropic = AsyncAnthropic(base_url=url, http_client=http_client, **options)
        return AnthropicModel(
            name, provider=AnthropicProvider(anthropic_client=anthropic), settings=settings
        ), anthropic
    if protocol == "google":
        return _google(name, url, settings, options)
    import openai as openai_sdk
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    http_client = openai_sdk.DefaultAsyncHttpxClient(verify=_certificates())
    openai = openai_sdk.AsyncOpenAI(base_url=f"{url}/v1", http_client=http_client, **options)
    kind = OpenAIChatModel if protocol == "openai-chat" else OpenAIResponsesModel
    return kind(name, provider=OpenAIProvider(openai_client=openai), settings=settings), openai


def _google(
    name: str, url: str, settings: ModelSettings | None, options: dict[str, Any]
) -> tuple[Model, Any]:
    import httpx2
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    client = httpx2.AsyncClient(verify=_certificates(), timeout=options.get("timeout", 600))
    client.close = client.aclose  # type: ignore[attr-defined] - as the clients of the other SDKs are closed
    provider = GoogleProvider(api_key=options["api_key"], http_client=client, base_url=url)
    return GoogleModel(name, provider=provider, settings=settings), client


@cache
def _certificates() -> ssl.SSLContext:
    """Read the certificates once: an SDK reads them for each client, which takes 60 ms, and a stand-in needs none."""
    return ssl.create_default_context()
