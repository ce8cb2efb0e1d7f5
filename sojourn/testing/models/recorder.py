"""Recorder: a model that makes the real requests, and writes down what was asked and answered."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from sojourn.models.response import was_cut_off
from sojourn.testing.models.answered import answered
from sojourn.testing.models.asked import Asked, asked
from sojourn.testing.models.exchanges import Exchange, write

__all__ = ["Recorder"]


class Recorder(WrapperModel):
    """Asks a model, and records each answer.

    The file is written anew, after each answer. It holds what was said and the tools; no keys, headers or
    addresses. Secrets in prompts, arguments and results are written as they are: look at the file before it is shared.
    A request that fails is not recorded, and fails as it would without a recorder.

    Args:
        model: Who is asked, as `ModelPlanner` takes it.
        path: The file.
        ignore: Patterns (of `re`) of what changes from run to run beside ids and times, such as
            `Today is [^.]*`; in the file stands `[...]`.
    """

    def __init__(self, model: str | Model, path: str | PathLike[str], *, ignore: Sequence[str] = ()) -> None:
        super().__init__(model)
        self._path = Path(path)
        self._ignore = ignore
        self._exchanges: list[Exchange] = []
        self._calls = 0

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,  # noqa: ARG002 - as `Model` has it
    ) -> list[ModelMessage]:
        """Leave them as they are until they were written down: what a provider needs is no part of what is asked."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask, and record."""
        what = asked(messages, model_request_parameters, self._ignore)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        response = await self.wrapped.request(prepared, model_settings, model_request_parameters)
        self._record(what, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Ask, and record what was streamed, once it is whole."""
        what = asked(messages, model_request_parameters, self._ignore)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        async with self.wrapped.request_stream(
            prepared, model_settings, model_request_parameters, run_context
        ) as stream:
            yield stream
            response = stream.get()
        if response.state == "complete" and not was_cut_off(response):
            self._record(what, response)

    def _record(self, what: Asked, response: ModelResponse) -> None:
        answer = answered(response, self._calls + 1)
        self._calls += len(answer.message.tool_calls)
        self._exchanges.append(Exchange(what, answer))
        write(self._path, self.model_id, self._exchanges)
