"""A planner that follows a list of steps, for tests and examples.

A plan may be retried, and the next one may run in another process. So the planner counts not its steps but
the assistant messages of the transcript: each plan that the run accepted adds one.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable

from temporalio.exceptions import ApplicationError

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.values.text import count_noun

__all__ = ["ScriptedPlanner", "Step"]

Step = PlanResult | Callable[[Turn], PlanResult | Awaitable[PlanResult]]
"""A plan, or a function of the turn, sync or async, that returns one."""


class ScriptedPlanner:
    """Returns `steps` in order, one for each assistant message that the run has added.

    A refused plan adds no message, so its step is used again: a function can read the
    reason in `turn.reminders` and return another plan. A step that only waits adds no
    message either, and is used again after the wait: make it a function that tells them apart.
    """

    def __init__(self, steps: Iterable[Step], *, given: int = 0) -> None:
        self._steps = tuple(steps)
        self._given = given
        self.turns: list[Turn] = []
        """Every turn that this object has received, retries included."""

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Return the plan of the first step.

        Raises:
            ApplicationError: The script has no such step, or its function returned no plan (`ScriptError`).
        """
        return await self._plan(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Return the plan of the step that is next by the transcript.

        Raises:
            ApplicationError: As for `plan_start`.
        """
        return await self._plan(turn)

    async def _plan(self, turn: Turn) -> PlanResult:
        self.turns.append(turn)
        position = sum(message.role == "assistant" for message in turn.messages) - self._given
        if not 0 <= position < len(self._steps):
            raise _off_script(
                f"the script of {turn.run.agent_id} has {count_noun(len(self._steps), 'step')}, but run {turn.run.run_id} "
                f"asks for step {position + 1}; add a step, or end with `PlanResult.final(...)`"
                + (f"; `given` is {self._given}" if self._given else "")
            )
        step = self._steps[position]
        if isinstance(step, PlanResult):
            return step
        plan = step(turn)
        if inspect.isawaitable(plan):
            plan = await plan
        if not isinstance(plan, PlanResult):  # pyright: ignore[reportUnnecessaryIsInstance] - a test's own function
            raise _off_script(f"step {position + 1} of the script returned {plan!r}, not a PlanResult")
        return plan


def _off_script(message: str) -> ApplicationError:
    return ApplicationError(message, type="ScriptError", non_retryable=True)
