"""The floor: the benchmark's work in bare Temporal, as the simplest workflow with the same activities.

It plans and calls as a run does, without validation, hints, bounds or records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import temporalio.client
from temporalio import activity, workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import sojourn
from bench import load
from sojourn.worker import MAX_EAGER

__all__ = ["TIMEOUT", "FloorInput", "FloorRun", "floor_plan", "floor_tool", "tuned"]

TIMEOUT = timedelta(minutes=2)


def tuned(
    client: temporalio.client.Client,
    task_queue: str,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]],
) -> Worker:
    """A plain Temporal worker with the settings of Sojourn's: the same runner, slots, cache and build id."""
    return Worker(
        client,
        task_queue=task_queue,
        workflows=workflows,
        activities=activities,
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id=sojourn.__version__,
        max_cached_workflows=2_000,
        max_concurrent_activities=500,
        max_eager_activity_reservations_per_workflow_task=MAX_EAGER,
        graceful_shutdown_timeout=timedelta(seconds=1),
    )


@dataclass
class FloorInput:
    """The input of a run: the number of calls, one a step."""

    calls: int


@dataclass
class FloorTurn:
    """A plan's input: the number of the step, of all calls, and the last result."""

    step: int
    calls: int
    result: str | None = None


@dataclass
class FloorPlan:
    """A plan: a call, or the answer."""

    tool: str | None = None
    text: str | None = None
    answer: str | None = None


@activity.defn
async def floor_plan(turn: FloorTurn) -> FloorPlan:
    """Return the next call, or the answer once all calls were made."""
    if turn.step < turn.calls:
        return FloorPlan(tool="bench.load.echo", text=load.argument(turn.step))
    return FloorPlan(answer="done")


@activity.defn
async def floor_tool(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


@workflow.defn(sandboxed=False)
class FloorRun:
    """The workflow: plan and call until a plan is an answer."""

    @workflow.run
    async def run(self, given: FloorInput) -> str:
        """Plan and call, one call a plan."""
        last: str | None = None
        for step in range(given.calls + 1):
            plan = await workflow.execute_activity(
                floor_plan, FloorTurn(step, given.calls, last), start_to_close_timeout=TIMEOUT
            )
            if plan.answer is not None:
                return plan.answer
            last = await workflow.execute_activity(
                floor_tool, plan.text or "", start_to_close_timeout=TIMEOUT
            )
        return "done"
