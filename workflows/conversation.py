"""Conversation: a run that does not end at its answer.

Each message opens a turn, or joins the present one before its next plan. A turn that fails ends only itself.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.converter.failures import chain_of
from sojourn.core.run.introduction import TURN_ENDED

from .cancellation import stop_if_run_canceled
from .current_state import CurrentState
from .open_awaits import OpenAwaits

__all__ = ["Conversation"]


class Conversation:
    """Runs turn after turn until somebody closes the conversation.

    Args:
        current: The run's state.
        awaits: The open waits, which show that the run is idle.
        turn: Runs one turn to its output, and tells whether a plan recorded it; its first plan opens the turn.
        go_on: Goes on in a new execution, where the history is long.
    """

    def __init__(
        self,
        current: CurrentState,
        awaits: OpenAwaits,
        turn: Callable[[], Coroutine[Any, Any, tuple[RunOutput, bool]]],
        go_on: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._current = current
        self._awaits = awaits
        self._turn = turn
        self._go_on = go_on
        self._present: asyncio.Task[tuple[RunOutput, bool]] | None = None
        """The present turn, in a task of its own, which an interruption cancels."""

    def interrupt(self) -> None:
        """Cancel what the present turn does, after the state says that the turn is interrupted."""
        if self._current.state.interrupted is not None:
            self._awaits.abandon()
            if self._present is not None:
                self._present.cancel()

    async def run(self) -> RunOutput:
        """The output of the whole conversation, once it was closed."""
        while True:
            if self._current.state.is_idle:
                await self._until_message()
                if not self._current.state.inbox.waiting:
                    return self._current.state.closed(workflow.info().workflow_id)
            self._present = asyncio.create_task(self._turn())
            try:
                output, is_planned = await self._present
            except (asyncio.CancelledError, FailureError) as error:
                stop_if_run_canceled()
                if isinstance(error, ApplicationError):
                    self._end(chain_of(error))
                elif self._current.state.interrupted is not None:
                    self._end(self._current.state.interruption)
                else:
                    raise
            else:
                # A last turn that failed has an answer that no plan recorded.
                self._end(None, None if is_planned else output)

    async def _until_message(self) -> None:
        """Wait until a message has come or the conversation is closed; a long run goes on in a new execution meanwhile, or now."""
        self._awaits.show()
        while not self._is_over():
            stop_if_run_canceled()
            await workflow.wait_condition(lambda: self._is_over() or self._awaits.room.is_long)
            if not self._is_over():
                await self._go_on()
        stop_if_run_canceled()

    def _is_over(self) -> bool:
        state = self._current.state
        return state.paused is None if state.inbox.waiting else state.closing is not None

    def _end(self, failure: ToolError | None, output: RunOutput | None = None) -> None:
        """End a turn; how it ended is recorded where no plan says so."""
        ended: dict[str, Any] = {}
        if failure is not None:
            ended["error"] = failure.model_dump(mode="json", exclude_defaults=True)
        elif output is not None:
            ended["output"] = output.model_dump(mode="json", exclude_defaults=True)
        if ended:
            workflow.upsert_memo({TURN_ENDED: {"turn_id": self._current.state.turn_id, **ended}})
        self._current.state = self._current.state.turn_ended(failure)
