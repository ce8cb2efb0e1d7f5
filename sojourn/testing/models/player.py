"""Player: a model that answers from a file, and asks no provider."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from temporalio.exceptions import ApplicationError

from sojourn.testing.models.answered import Answered, response_of
from sojourn.testing.models.asked import Asked, asked, steadied
from sojourn.testing.models.difference import difference
from sojourn.testing.models.exchanges import read

__all__ = ["Player"]


class Player(Model):
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
        self._model, exchanges = read(self._path)
        self._recorded = [Asked(steadied(each.asked.said, ignore), each.asked.tools) for each in exchanges]
        self._answers: defaultdict[str, list[Answered]] = defaultdict(list)
        for what, each in zip(self._recorded, exchanges, strict=True):
            self._answers[what.key].append(each.answer)

    @property
    def model_name(self) -> str:
        """The name of the model that was recorded."""
        return self._model.partition(":")[2]

    @property
    def system(self) -> str:
        """The provider that was recorded."""
        return self._model.partition(":")[0]

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,  # noqa: ARG002 - as `Model` has it
    ) -> list[ModelMessage]:
        """Leave them as they are, as a recorder does."""
        return messages

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
        what = asked(messages, model_request_parameters, self._ignore)
        answers = self._answers.get(what.key)
        if not answers:
            raise ApplicationError(self._missing(what), type="NotRecorded", non_retryable=True)
        return response_of(answers.pop(0) if len(answers) > 1 else answers[0])

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

    def _missing(self, what: Asked) -> str:
        return (
            f"{self._path} has no answer to what the model is asked now. If it is meant to be asked this, record anew "
            f"with SOJOURN_RECORD=1 and the provider's key.\n{difference(self._recorded, what)}"
        )
