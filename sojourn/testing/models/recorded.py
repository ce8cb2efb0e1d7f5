"""Models that record responses or play them back, in place of a planner's own."""

import copy
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from temporalio.exceptions import ApplicationError

from sojourn.authoring.agent import Agent
from sojourn.authoring.app import App
from sojourn.models import ModelPlanner
from sojourn.models.portable import one_system, portable
from sojourn.models.response import was_cut_off
from sojourn.testing.models.cassette import (
    Json,
    RecordedRequest,
    difference,
    read,
    request_of,
    response_json,
    write,
)

__all__ = ["Player", "Recorder", "is_recording", "recorded", "use_model"]


def recorded(path: str | PathLike[str], *, model: str | Model, ignore: Sequence[str] = ()) -> Model:
    """Return a model that plays a file, or records it if `SOJOURN_RECORD` is 1.

    Without that variable a test whose file is missing fails, and sends no request.

    Args:
        path: The file, relative to the current folder.
        model: The model to record; only used while recording.
        ignore: As for `Recorder`.

    Raises:
        FileNotFoundError: There is no such file, and nothing is to be recorded.
        ValueError: The file is not a cassette.
    """
    return Recorder(model, path, ignore=ignore) if is_recording() else Player(path, ignore=ignore)


def is_recording() -> bool:
    """Return whether `SOJOURN_RECORD` is 1."""
    return os.environ.get("SOJOURN_RECORD") == "1"


class _Unprepared(Model):
    """A model that gets messages as they are, without changes for a provider."""

    takes_any_message = True

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,  # noqa: ARG002 - as `Model` has it
    ) -> list[ModelMessage]:
        return messages


class Recorder(_Unprepared, WrapperModel):
    """Asks a model, and records each response.

    The whole file is rewritten after each response. It has the messages and the tools; no keys, headers or
    addresses. Secrets in prompts, arguments and results are written as they are: read the file before you
    share it. A request that fails is not recorded, and fails as it would without a recorder.

    Args:
        model: The model, as `ModelPlanner` takes it.
        path: The file.
        ignore: Regular expressions of text that changes from run to run, except ids and times, such as
            `Today is [^.]*`; in requests the file has `[...]` in its place.
    """

    def __init__(self, model: str | Model, path: str | PathLike[str], *, ignore: Sequence[str] = ()) -> None:
        super().__init__(model)
        self._path = Path(path)
        self._ignore = ignore
        self._exchanges: list[tuple[RecordedRequest, Json]] = []
        self._calls = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model, and record its response."""
        request = _request(messages, model_request_parameters, self._ignore)
        prepared, parameters = self._prepare(messages, model_request_parameters)
        response = await self.wrapped.request(prepared, model_settings, parameters)
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
        """Ask the model, and record the streamed response if it is complete."""
        request = _request(messages, model_request_parameters, self._ignore)
        prepared, parameters = self._prepare(messages, model_request_parameters)
        async with self.wrapped.request_stream(prepared, model_settings, parameters, run_context) as stream:
            yield stream
            response = stream.get()
        if response.state == "complete" and not was_cut_off(response):
            self._record(request, response)

    def _prepare(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[list[ModelMessage], ModelRequestParameters]:
        prepared = self.wrapped.prepare_messages(portable(messages, self.wrapped), parameters)
        return one_system(prepared, parameters, self.wrapped)

    def _record(self, request: RecordedRequest, response: ModelResponse) -> None:
        self._exchanges.append((request, response_json(response, self._calls + 1)))
        self._calls += len(response.tool_calls)
        write(self._path, self.model_id, self._exchanges)


class Player(_Unprepared):
    """Returns the recorded response to each request, from any run and in any order.

    A request that was recorded more than once gets its responses in the order in which they were recorded, and then
    the last one again, so that a retried plan is the same plan.

    Args:
        path: A file that a `Recorder` wrote.
        ignore: As for `Recorder`; also applied to the requests of the file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not a cassette.
    """

    def __init__(self, path: str | PathLike[str], *, ignore: Sequence[str] = ()) -> None:
        super().__init__()
        self._path = Path(path)
        self._ignore = ignore
        self._model, exchanges = read(self._path, ignore)
        self._requests = [request for request, _ in exchanges]
        self._responses: defaultdict[str, list[ModelResponse]] = defaultdict(list)
        for request, response in exchanges:
            self._responses[request.key].append(response)

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
        model_settings: ModelSettings | None,  # noqa: ARG002 - not compared
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded response.

        Raises:
            ApplicationError: This request was not recorded (`NotRecorded`); shows what differs, and is not retried.
        """
        request = _request(messages, model_request_parameters, self._ignore)
        responses = self._responses.get(request.key)
        if not responses:
            raise ApplicationError(
                f"{self._path} has no answer to this request. If the request is intended, record "
                "again with SOJOURN_RECORD=1 and the provider's key.\n" + difference(self._requests, request),
                type="NotRecorded",
                non_retryable=True,
            )
        return copy.deepcopy(responses.pop(0) if len(responses) > 1 else responses[0])

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,  # noqa: ARG002 - as `Model` has it
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the recorded response as a stream, each part in one piece."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def _request(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters, ignore: Sequence[str]
) -> RecordedRequest:
    instructions = "\n\n".join(part.content for part in parameters.instruction_parts or ())
    return request_of(messages, [*parameters.function_tools, *parameters.output_tools], instructions, ignore)


M = TypeVar("M", bound=str | Model)


@contextmanager
def use_model(of: App | Agent | ModelPlanner, model: M) -> Generator[M]:
    """Replace the model of planners, and its fallbacks, inside the block.

    Yields the new model. It applies to workers in this process, from their next plan on.

    Args:
        of: A planner, an agent with one, or an app, for every model planner of its agents.
        model: A model, or its name, as `ModelPlanner` takes it.

    Raises:
        LookupError: There is no `ModelPlanner` in it.
    """
    planners = list(_planners(of))
    if not planners:
        raise LookupError(f"{_name_of(of)} has no ModelPlanner whose model could be another one")
    with ExitStack() as stack:
        for planner in planners:
            stack.enter_context(planner.override(model))
        yield model


def _planners(of: object) -> Iterator[ModelPlanner]:
    """Yield the model planners, each once, also inside a `RepairingPlanner`."""
    if isinstance(of, App):
        found = (planner for id in of.list_agents() for planner in _planners(of.agent(id)))
        yield from {id(planner): planner for planner in found}.values()
    elif isinstance(of, Agent):
        yield from _planners(of.planner)
    elif isinstance(of, ModelPlanner):
        yield of
    elif inner := getattr(of, "inner", None):
        yield from _planners(inner)


def _name_of(of: object) -> str:
    return f"agent {of.id}" if isinstance(of, Agent) else f"this {type(of).__name__}"
