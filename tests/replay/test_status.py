"""The status that a worker returns equals the one folded from the history, at every workflow task of every stored history."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowRunner

from sojourn import RunStatus, data_converter
from sojourn.core.history.fold import Fold
from sojourn.events.history import HistoryReader
from sojourn.worker import shell
from tests.replay import folding, scenarios

HERE = Path(__file__).parent
OTHERS = {"notice_delivery.json", "tenant_ledger.json"}
"""Histories of workflows that are no runs."""
HISTORIES = sorted(path for path in (HERE / "histories").glob("*.json") if path.name not in OTHERS)


class StatusReader(WorkflowRunner):
    """Runs workflows without the sandbox, and reads the status of each after every activation, as a query would."""

    def __init__(self) -> None:
        self.statuses = defaultdict[str, dict[int, RunStatus]](dict)
        """By run id, and the id of the event that started the workflow task."""
        self._inner = UnsandboxedWorkflowRunner()

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self._inner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: Any) -> WorkflowInstance:
        instance: Any = self._inner.create_instance(det)
        statuses = self.statuses[det.info.run_id]
        activate = instance.activate

        def activate_and_read(activation: Any) -> Any:
            completion = activate(activation)
            if not any(job.HasField("remove_from_cache") for job in activation.jobs):
                statuses[activation.history_length] = status_in(instance)
            return completion

        instance.activate = activate_and_read
        return instance


def status_in(instance: Any) -> RunStatus:
    """The status, read within the workflow's own event loop."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(instance)
    try:
        return instance._object.status()
    finally:
        asyncio._set_running_loop(running)


async def queried(histories: list[WorkflowHistory]) -> dict[str, dict[int, RunStatus]]:
    """The workflow's own status at each workflow task, by run id."""
    runner = StatusReader()
    workflows = list(shell(scenarios.make_app()).workflows)

    async def every() -> AsyncIterator[WorkflowHistory]:
        for history in histories:
            yield history

    await Replayer(
        workflows=workflows, workflow_runner=runner, data_converter=data_converter
    ).replay_workflows(every())
    return runner.statuses


async def folded(history: WorkflowHistory) -> dict[int, RunStatus]:
    """The status folded from the history up to the end of each workflow task and the events of its commands."""
    reader, fold, statuses = HistoryReader(data_converter), Fold(history.workflow_id), dict[int, RunStatus]()
    task = 0
    for event, following in zip(history.events, [*history.events[1:], None], strict=True):
        record = await reader.record(event)
        if record:
            fold.feed(record)
        if event.HasField("workflow_task_completed_event_attributes"):
            task = event.workflow_task_completed_event_attributes.started_event_id
        if task and (following is None or not is_of_task(following)):
            statuses[task] = fold.status()
            task = 0
    return statuses


def is_of_task(event: HistoryEvent) -> bool:
    """Whether a workflow task wrote this event."""
    attributes = getattr(event, str(event.WhichOneof("attributes")))
    return bool(getattr(attributes, "workflow_task_completed_event_id", 0)) or any(
        event.HasField(name)
        for name in (
            "workflow_execution_update_accepted_event_attributes",
            "workflow_execution_update_completed_event_attributes",
        )
    )


def compared(status: RunStatus) -> dict[str, Any]:
    """A status as a dict, without two fields that differ.

    `failure` and its code are known only when the end is recorded. The time left differs by some milliseconds: the workflow
    measures it by its own clock, the fold by the times of the events.
    """
    fields = status.model_dump(mode="json", exclude={"failure", "failure_code"})
    fields["caps"].pop("time")
    return fields


def seconds_left(statuses: Sequence[RunStatus]) -> list[float]:
    """The time left of each status's time budget, in seconds; -1.0 without a budget."""
    return [status.caps.time.total_seconds() if status.caps.time is not None else -1.0 for status in statuses]


async def test_the_queried_status_is_the_folded_one(subtests: pytest.Subtests) -> None:
    """Phase, limits, rounds, calls, waits, notes and safeguards are equal at every workflow task."""
    statuses = await queried([folding.load(path) for path in HISTORIES])
    for path in HISTORIES:
        history = folding.load(path)
        live, read = statuses[history.run_id], await folded(history)
        tasks = sorted({*live} & {*read})
        if history.events[-1].HasField("workflow_execution_continued_as_new_event_attributes"):
            tasks.pop()  # after its last task the next execution answers queries
        with subtests.test(path.stem):
            assert len(tasks) >= len(live) - 1  # the last may have been lost with its worker
            if (
                path.stem == "cut_off_conversation"
            ):  # the history does not show a local plan that is under way
                under_way = [task for task in tasks if live[task].phase == "planning"]
                assert under_way
                tasks = [task for task in tasks if task not in under_way]
            for task in tasks:
                assert compared(live[task]) == compared(read[task]), f"at event {task}"
            assert seconds_left([live[task] for task in tasks]) == pytest.approx(
                seconds_left([read[task] for task in tasks]), abs=1.0
            )


async def test_the_comparison_sees_a_difference() -> None:
    """Statuses of different moments are not equal: the test above can fail."""
    (live,) = (await queried([folding.load(HERE / "histories" / "plain_calls.json")])).values()
    assert len({str(compared(status)) for status in live.values()}) > 1
