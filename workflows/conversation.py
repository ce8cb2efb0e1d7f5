"""A run that does not end at its answer.

Each message opens a turn, or joins the present one before its next plan. A turn that fails ends
only itself. The conversation ends when a caller closes it, or when it has reached a limit of its
`SessionPolicy`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import TURN_ENDED
from sojourn.converter.failures import chain_of
from sojourn.core.run.limits import idle_end
from sojourn.core.run.turns import closing_output, end_turn, interruption_error, session_limit
from sojourn.values.timers import IDLE, LONGEST

from .cancellation import stop_if_run_canceled
from .clock import wait_until
from .current_state import CurrentState, tells_doubt
from .notices import Notices
from .open_awaits import OpenAwaits

__all__ = ["Conversation", "NothingWaits"]


class NothingWaits(Exception):  # noqa: N818 - no failure
    """The message that was to open a turn was withdrawn meanwhile."""


class Conversation:
    """Runs turn after turn until a caller closes the conversation."""

    def __init__(
        self,
        current: CurrentState,
        awaits: OpenAwaits,
        notices: Notices,
        turn: Callable[[], Coroutine[Any, Any, tuple[RunOutput, bool]]],
        go_on: Callable[[datetime | None], Coroutine[Any, Any, None]],
        branch: Callable[[], Coroutine[Any, Any, None]],
        idle_since: datetime | None = None,
    ) -> None:
        self._current = current
        self._awaits = awaits
        self._notices = notices
        self._turn = turn
        self._go_on = go_on
        self._branch = branch
        self._idle_since = idle_since
        self._is_cut_off = False
        """Whether a plan of the present turn was cut off and the history has no record of it."""
        self._present: asyncio.Task[tuple[RunOutput, bool]] | None = None
        """The present turn, in a task of its own, which an interruption cancels."""

    def interrupt(self) -> None:
        if self._current.state.interrupted is not None:
            self._awaits.abandon()
            if self._present is not None:
                self._present.cancel()

    def plan_cut_off(self) -> None:
        """Note that the interruption cut off a plan that the history does not have."""
        self._is_cut_off = True

    async def run(self) -> RunOutput:
        while True:
            if self._current.state.is_idle:
                limit = self._limit or await self._until_message()
                if limit or not self._current.state.inbox.waiting:
                    return closing_output(self._current.state, workflow.info().workflow_id, limit)
            self._present = asyncio.create_task(self._turn())
            try:
                output, is_planned = await self._present
            except NothingWaits:
                continue
            except (asyncio.CancelledError, FailureError) as error:
                stop_if_run_canceled()
                if self._current.state.interrupted is not None:
                    # Also if the plan failed because its worker was lost while the plan was cancelled.
                    self._end(self._interruption)
                elif isinstance(error, ApplicationError):
                    self._end(chain_of(error))
                else:
                    raise
            else:
                self._end(None, output, is_planned=is_planned)

    @property
    def _interruption(self) -> ToolError:
        # The error says whether one of its calls may have taken effect.
        state = self._current.state
        error = interruption_error(state)
        return state.in_doubt(error) if tells_doubt(state.doubts) else error

    @property
    def _limit(self) -> Finalize | None:
        stop_if_run_canceled()
        return session_limit(self._current.state)

    async def _until_message(self) -> Finalize | None:
        while True:
            if self._current.state.branching is not None:
                await self._branch()
            limit = await self._until_next()
            if self._current.state.branching is None:
                return limit

    async def _until_next(self) -> Finalize | None:
        # A long run continues as new meanwhile, or now.
        self._awaits.show()
        while not self._is_over():
            stop_if_run_canceled()
            is_paused = self._is_paused
            self._idle_since = None if is_paused else self._idle_since or workflow.now()
            left = None if is_paused else self._idle_time_left
            try:
                await wait_until(
                    lambda: self._is_over() or self._awaits.room.is_long or self._is_paused != is_paused,  # noqa: B023 - awaited here
                    left,
                    IDLE,
                )
            except TimeoutError:
                session = self._current.state.policy.session
                if session and session.idle_timeout and not self._is_over():
                    return idle_end(session.idle_timeout)
            else:
                if not self._is_over():
                    await self._go_on(self._idle_since)
        self._idle_since = None
        stop_if_run_canceled()
        return None

    @property
    def _idle_time_left(self) -> timedelta | None:
        session = self._current.state.policy.session
        if session is None or session.idle_timeout is None or self._idle_since is None:
            return None
        left = session.idle_timeout - (workflow.now() - self._idle_since)
        return min(max(left, timedelta(0)), LONGEST)

    @property
    def _is_paused(self) -> bool:
        return self._current.state.paused is not None

    def _is_over(self) -> bool:
        state = self._current.state
        if state.branching is not None:
            return True
        return state.paused is None if state.inbox.waiting else state.closing is not None

    def _end(
        self, failure: ToolError | None, output: RunOutput | None = None, *, is_planned: bool = False
    ) -> None:
        # If the last turn failed, the answer is recorded too.
        self._notices.turn_ended(output, failure)
        ended: dict[str, Any] = {}
        if failure is not None:
            ended["error"] = failure.model_dump(mode="json", exclude_defaults=True)
        elif output is not None and not is_planned:
            ended["output"] = output.model_dump(mode="json", exclude_defaults=True)
        if self._is_cut_off:
            self._is_cut_off, ended["message_ids"] = False, list(self._current.state.taken)
        if ended:
            workflow.upsert_memo({TURN_ENDED: {"turn_id": self._current.state.turn_id, **ended}})
        self._current.state = end_turn(self._current.state, failure)
