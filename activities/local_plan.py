"""Local plans: which turns a local activity can plan, and how long that may take.

While a local activity runs, its workflow task is open: the run cannot be asked for its transcript, and gets no message.
So a turn that is not planned at once, from what this worker has in memory, is left to an ordinary activity.
"""

from datetime import timedelta

import structlog
from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.contracts.dispatch import LOCAL_PLAN_LIMIT, NOT_LOCAL
from sojourn.contracts.run_policy import Limits
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.core.values.wire import MAX_LOCAL_BYTES, size_of

from .transcripts import Key, Transcripts

__all__ = ["check_local", "is_quick", "local_outcome", "within_local_limit"]

_log = structlog.get_logger("sojourn.activity")


def check_local(app: App, transcripts: Transcripts, key: Key, task: PlanTask) -> None:
    """Return if this worker can plan the turn at once.

    Raises:
        ApplicationError: `NOT_LOCAL`: this worker lacks the agent, or the run's transcript, as after a lost worker.
    """
    lacks = "agent" if app.agent(task.agent_id) is None else "transcript"
    if lacks == "agent" or not transcripts.has(key, task):
        raise ApplicationError(f"this worker does not have the {lacks}", type=NOT_LOCAL, non_retryable=True)


def within_local_limit(limits: Limits) -> Limits:
    """The limits of a turn that a local activity plans."""
    return limits.model_copy(update={"plan_timeout": min(limits.plan_timeout, LOCAL_PLAN_LIMIT)})


def local_outcome(task: PlanTask, outcome: PlanOutcome, seconds: float) -> PlanOutcome:
    """The outcome of a local activity that took so long, with its input, which Temporal does not record.

    Raises:
        ApplicationError: `NOT_LOCAL`: the plan is too large to be sent with the results of its calls.
    """
    if size_of(outcome) > MAX_LOCAL_BYTES:
        raise ApplicationError("the plan is large", type=NOT_LOCAL, non_retryable=True)
    return outcome.model_copy(update={"task": task.recorded(), "spent_ms": round(seconds * 1_000)})


def is_quick(agent_id: str, seconds: float) -> bool:
    """Whether a turn of a local agent took so little time that a local activity may plan the next one."""
    if timedelta(seconds=seconds) < LOCAL_PLAN_LIMIT:
        return True
    _log.warning("local_planner_slow", agent_id=agent_id, seconds=round(seconds, 1))
    return False
