"""Recorded models: a `Recorder` asks a model and writes its answers down, a `Player` gives them again and asks nobody."""

import copy
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from temporalio.exceptions import ApplicationError

from sojourn.models.response import was_cut_off
from sojourn.testing.models.cassette import read, response_json, write
from sojourn.testing.models.request import Json, Request, difference, request_of

__all__ = ["Player", "Recorder", "is_recording", "recorded"]


def recorded(path: str | PathLike[str], *, model: str | Model, ignore: Sequence[str] = ()) -> Model:
    """Return a model that plays a file; one that records it where `SOJOURN_RECORD` is 1.

    Nothing is recorded by itself: a test whose file is missing fails, and asks no provider.

    Args:
        path: The file, from the current folder.
        model: Who is asked while recording; not looked up otherwise.
        ignore: As for `Recorder`.

    Raises:
        FileNotFoundError: nothing is recorded there.
        ValueError: it is no file of exchanges.
    """
    return Recorder(model, path, ignore=ignore) if is_recording() else Player(path, ignore=ignore)


def is_recording() -> bool:
    """Whether `SOJOURN_RECORD` is 1: answers are recorded, and real requests are meant."""
    return os.environ.get("SOJOURN_RECORD") == "1"


class _Unprepared(Model):
    """A model that is given messages as they are: what a provider needs is no part of what is asked."""

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,  # noqa: ARG002 - as `Model` has it
    ) -> list[ModelMessage]:
        """Leave messages as they are."""
        return messages


class Recorder(_Unprepared, WrapperModel):
    """Asks a model, and records each answer.

    The file is written anew, after each answer. It holds the messages and the tools; no keys, headers or
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
        self._exchanges: list[tuple[Request, Json]] = []
        self._calls = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask, and record."""
        request = _request(messages, model_request_parameters, self._ignore)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        response = await self.wrapped.request(prepared, model_settings, model_request_parameters)
        self._record(request, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Ask, and record the streamed response once it is whole."""
        request = _request(messages, model_request_parameters, self._ignore)
        prepared = self.wrapped.prepare_messages(messages, model_request_parameters)
        async with self.wrapped.request_stream(
            prepared, model_settings, model_request_parameters, run_context
        ) as stream:
            yield stream
            response = stream.get()
        if response.state == "complete" and not was_cut_off(response):
            self._record(request, response)

    def _record(self, request: Request, response: ModelResponse) -> None:
        self._exchanges.append((request, response_json(response, self._calls + 1)))
        self._calls += len(response.tool_calls)
        write(self._path, self.model_id, self._exchanges)


class Player(_Unprepared):
    """Answers what was recorded as it was answered then, whichever run asks, and in whatever order runs ask.

    The same request asked more than once gets its answers in the order in which they were recorded, and then the
    last one again: a plan that is made anew is the same plan.

    Args:
        path: A file that a `Recorder` wrote.
        ignore: As for `Recorder`; it holds for what is in the file too.

    Raises:
        FileNotFoundError: nothing is recorded there.
        ValueError: it is no file of exchanges.
    """

    def __init__(self, path: str | PathLike[str], *, ignore: Sequence[str] = ()) -> None:
        super().__init__()
        self._path = Path(path)
        self._ignore = ignore
        self._model, exchanges = read(self._path, ignore)
        self._requests = [request for request, _ in exchanges]
        self._answers: defaultdict[str, list[ModelResponse]] = defaultdict(list)
        for request, response in exchanges:
            self._answers[request.key].append(response)

    @property
    def model_name(self) -> str:
        """The name of the model that was recorded."""
        return self._model.partition(":")[2]

    @property
    def system(self) -> str:
        """The provider that was recorded."""
        return self._model.partition(":")[0]

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,  # noqa: ARG002 - no part of what is asked
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Give the answer.

        Raises:
            ApplicationError: this was not asked then (`NotRecorded`); shows what differs, and is not retried.
        """
        request = _request(messages, model_request_parameters, self._ignore)
        answers = self._answers.get(request.key)
        if not answers:
            raise ApplicationError(
                f"{self._path} has no answer to this request. If the request is intended, record "
                "anew with SOJOURN_RECORD=1 and the provider's key.\n" + difference(self._requests, request),
                type="NotRecorded",
                non_retryable=True,
            )
        return copy.deepcopy(answers.pop(0) if len(answers) > 1 else answers[0])

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,  # noqa: ARG002 - as `Model` has it
    ) -> AsyncGenerator[StreamedResponse]:
        """Give the answer as a stream, each part in one piece."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def _request(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters, ignore: Sequence[str]
) -> Request:
    instructions = "\n\n".join(part.content for part in parameters.instruction_parts or ())
    return request_of(messages, [*parameters.function_tools, *parameters.output_tools], instructions, ignore)
