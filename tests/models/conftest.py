"""Fixtures: a stand-in for providers over HTTP, its protocols, and requests to it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
from pydantic_ai import ModelRequest, ModelResponse, ToolDefinition
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from sojourn.testing.providers import PROTOCOLS, Protocol, ProviderServer

Ask = Callable[..., Awaitable[ModelResponse]]


@pytest.fixture
async def standin() -> AsyncIterator[ProviderServer]:
    """A stand-in for one test: set `standin.script`, and send requests with `standin.model(protocol)`."""
    async with ProviderServer() as standin:
        yield standin
    for error in standin.errors:
        raise error


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """Each protocol of the stand-in."""
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    """Whether the response is streamed."""
    return request.param


@pytest.fixture
def ask() -> Ask:
    """Send messages, by default a greeting, to a model, and return its response, streamed or not."""

    async def send(
        model: Model,
        messages: Sequence[ModelMessage] = (),
        *,
        streamed: bool = False,
        tools: Sequence[ToolDefinition] = (),
    ) -> ModelResponse:
        sent = messages or [ModelRequest.user_text_prompt("Hello")]
        # Few tokens: Anthropic's SDK streams a request by itself if it may take long.
        settings = ModelSettings(max_tokens=1000)
        offered = ModelRequestParameters(function_tools=list(tools))
        if not streamed:
            return await model_request(model, sent, model_settings=settings, model_request_parameters=offered)
        async with model_request_stream(
            model, sent, model_settings=settings, model_request_parameters=offered
        ) as stream:
            async for _ in stream:
                pass
            return stream.get()

    return send
