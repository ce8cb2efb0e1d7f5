"""Fixtures: a provider that speaks real HTTP, the protocols that it speaks, and how to ask it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
from pydantic_ai import ModelRequest, ModelResponse, ToolDefinition
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from tests.models.standin import PROTOCOLS, Protocol, Standin

Ask = Callable[..., Awaitable[ModelResponse]]


@pytest.fixture
async def standin() -> AsyncIterator[Standin]:
    """A provider of its own for the test: set `standin.script`, ask `standin.model(protocol)`."""
    async with Standin() as standin:
        yield standin
    for error in standin.errors:
        raise error


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """Each protocol in turn."""
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    """Whether the answer is streamed."""
    return request.param


@pytest.fixture
def ask() -> Ask:
    """Ask a model for its next message, plain or streamed; by default it reads a greeting."""

    async def send(
        model: Model,
        messages: Sequence[ModelMessage] = (),
        *,
        streamed: bool = False,
        tools: Sequence[ToolDefinition] = (),
    ) -> ModelResponse:
        read = messages or [ModelRequest.user_text_prompt("Hello")]
        # Few tokens: the SDK of Anthropic streams a plain request that may take long.
        settings = ModelSettings(max_tokens=1000)
        offered = ModelRequestParameters(function_tools=list(tools))
        if not streamed:
            return await model_request(model, read, model_settings=settings, model_request_parameters=offered)
        async with model_request_stream(
            model, read, model_settings=settings, model_request_parameters=offered
        ) as stream:
            async for _ in stream:
                pass
            return stream.get()

    return send
