"""A run's status is one: what its worker tells is what its history tells, at every workflow task of every stored history."""

import asyncio
import importlib.util
import sys
from collections.abc import Sequence
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

HERE = Path(__file__).parent
HISTORIES = sorted((HERE / "histories").glob("*.json"))


def beside(name: str) -> Any:
    """A module of this folder."""
    if loaded := sys.modules.get(f"replay_{name}"):
        return loaded
    spec = importlib.util.spec_from_file_location(f"replay_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


folding = beside("folding")
scenarios = beside("scenarios")


class Asking(WorkflowRunner):
    """Runs workflows bare, and asks each for its status after every activation, as a query would."""

    def __init__(self) -> None:
        self.told = dict[int, RunStatus]()
        """By the number of the event that started the workflow task."""
        self._inner = UnsandboxedWorkflowRunner()

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self._inner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: Any) -> WorkflowInstance:
        instance: Any = self._inner.create_instance(det)
        activate = instance.activate

        def asked(activation: Any) -> Any:
            completion = activate(activation)
            if not any(job.HasField("remove_from_cache") for job in activation.jobs):
                self.told[activation.history_length] = status_in(instance)
            return completion

        instance.activate = asked
        return instance


def status_in(instance: Any) -> RunStatus:
    """The status, asked within the workflow's own event loop."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(instance)
    try:
        return instance._object.status()
    finally:
        asyncio._set_running_loop(running)


async def asked(history: WorkflowHistory) -> dict[int, RunStatus]:
    """What the workflow answers at each workflow task."""
    runner = Asking()
    workflows = list(shell(scenarios.make_app()).workflows)
    await Replayer(
        workflows=workflows, workflow_runner=runner, data_converter=data_converter
    ).replay_workflow(history)
    return runner.told


async def folded(history: WorkflowHistory) -> dict[int, RunStatus]:
    """What the history tells once each workflow task is recorded, with the commands it gave."""
    reader, fold, told = HistoryReader(data_converter), Fold(history.workflow_id), dict[int, RunStatus]()
    task = 0
    for event, following in zip(history.events, [*history.events[1:], None], strict=True):
        record = await reader.record(event)
        if record:
            fold.feed(record)
        if event.HasField("workflow_task_completed_event_attributes"):
            task = event.workflow_task_completed_event_attributes.started_event_id
        if task and (following is None or not is_of_task(following)):
            told[task] = fold.status()
            task = 0
    return told


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
    """All of a status but two fields.

    Why a run ended is known when the end is recorded. Time is the workflow's own clock here, and that of the
    events there; they are some milliseconds apart.
    """
    told = status.model_dump(mode="json", exclude={"failure"})
    told["caps"].pop("time")
    return told


def seconds_left(statuses: Sequence[RunStatus]) -> list[float]:
    """What is left of the time budgets."""
    return [status.caps.time.total_seconds() if status.caps.time is not None else -1.0 for status in statuses]


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_the_queried_status_is_the_folded_one(path: Path) -> None:
    """Phase, limits, rounds, calls, waits, notes and safeguards are equal at every workflow task."""
    history = folding.load(path)
    live, told = await asked(history), await folded(history)
    tasks = sorted({*live} & {*told})
    assert len(tasks) >= len(live) - 1  # the last may have been lost with its worker
    for task in tasks:
        assert compared(live[task]) == compared(told[task]), f"at event {task}"
    assert seconds_left([live[task] for task in tasks]) == pytest.approx(
        seconds_left([told[task] for task in tasks]), abs=1.0
    )


async def test_the_comparison_sees_a_difference() -> None:
    """Statuses of different moments are not equal: the test above can fail."""
    live = await asked(folding.load(HERE / "histories" / "plain_calls.json"))
    assert len({str(compared(status)) for status in live.values()}) > 1
