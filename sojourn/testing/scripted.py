"""ScriptedPlanner: a planner that follows a list of steps, for tests and examples.

Planners run in activities: a plan may be retried, and the next one may run in
another process. So the next step is not counted in the object, it is read from
the transcript: a plan that the run accepted has left one assistant message.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable

from temporalio.exceptions import ApplicationError

from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, Turn

__all__ = ["ScriptedPlanner", "Step"]

Step = PlanResult | Callable[[Turn], PlanResult | Awaitable[PlanResult]]
"""A plan, or a function, sync or async, that makes one of the turn."""


class ScriptedPlanner:
    """Plays `steps` in order, one for each assistant message that the run has added.

    A refused plan adds no message, so its step is played again: a function can
    see the reason in `turn.reminders` and do better. For the same reason a step
    that only waits is played again after the wait, unless it is a function that decides otherwise.
    """

    def __init__(self, steps: Iterable[Step], *, given: int = 0) -> None:
        """Take the script.

        Args:
            steps: One for each plan.
            given: Assistant messages that the run is started with, which no step has made.
        """
        self._steps = tuple(steps)
        self._given = given
        self.turns: list[Turn] = []
        """Every turn that was asked of this object, the retried ones too."""

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Play the first step."""
        return await self._play(turn)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Play the step whose turn it is."""
        return await self._play(turn)

    async def _play(self, turn: Turn) -> PlanResult:
        self.turns.append(turn)
        position = sum(message.role == "assistant" for message in turn.messages) - self._given
        if not 0 <= position < len(self._steps):
            raise _off_script(
                f"the script of {turn.run.agent_id} has {len(self._steps)} steps, but run {turn.run.run_id} "
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
    """Return an error that is not retried: a script does not get better."""
    return ApplicationError(message, type="ScriptError", non_retryable=True)
