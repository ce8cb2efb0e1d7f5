"""Stored histories replay on today's code, and have the same events as when they were stored.

A failure here means that a run begun by a stored version would stop at its next workflow task.
Mend the code so that both histories replay; `record.py` says when histories may be recorded anew.
"""

import importlib
import importlib.util
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import (
    SandboxedWorkflowRunner,
    SandboxRestrictions,
    _runner,
)
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext
from temporalio.workflow import NondeterminismError

from sojourn import App, data_converter
from sojourn.contracts.wire_names import PATCHES
from sojourn.events import Event
from sojourn.worker import shell
from tests.replay import folding, scenarios
from workflows.current_state import VERSION

HERE = Path(__file__).parent
HISTORIES = sorted((HERE / "histories").glob("*.json"))
MAX_BYTES = 200_000


# The sandbox forbids clocks, randomness and I/O in all modules that it loads anew:
# the shell and `sojourn.core`. The contracts and other libraries are passed through, since loading them takes
# most of a second; one test loads them too. pytest rewrites our modules to import pytest, which is passed through.
STRICT = SandboxRestrictions.default.with_passthrough_modules("_pytest")
SANDBOX = STRICT.with_passthrough_modules(
    "sojourn.contracts", "attr", "jsonschema", "re2", "referencing", "structlog"
)
RUNNERS = {
    "bare": UnsandboxedWorkflowRunner(),
    "sandbox": SandboxedWorkflowRunner(restrictions=SANDBOX),
}


def replayer_in(runner: WorkflowRunner) -> Replayer:
    app: App = scenarios.make_app()
    return Replayer(
        workflows=list(shell(app).workflows), workflow_runner=runner, data_converter=data_converter
    )


@pytest.fixture(scope="module", autouse=True)
def shared_imports() -> Iterator[None]:
    """The sandbox imports the workflow once for all histories, not a quarter of a second for each."""
    made: dict[tuple[int, str | None], Importer] = {}

    def importer(
        restrictions: SandboxRestrictions, context: RestrictionContext, workflow_module_name: str | None
    ) -> Importer:
        key = id(restrictions), workflow_module_name
        if key not in made:
            made[key] = Importer(restrictions, context, workflow_module_name)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_runner, "Importer", importer)
        yield


@pytest.mark.parametrize("runner", RUNNERS)
async def test_every_stored_history_replays(runner: str) -> None:
    """Today's code makes the same decisions from the same history, as the worker runs workflows and in the sandbox."""

    async def every() -> AsyncIterator[WorkflowHistory]:
        for path in HISTORIES:
            yield folding.load(path)

    replayed = await replayer_in(RUNNERS[runner]).replay_workflows(every(), raise_on_replay_failure=False)
    assert {
        path.stem: failure
        for path in HISTORIES
        if (failure := replayed.replay_failures.get(folding.load(path).run_id))
    } == {}


def test_each_history_has_a_run_id_of_its_own() -> None:
    """The run id, by which the failure of a replay is found, is unique."""
    assert len({folding.load(path).run_id for path in HISTORIES}) == len(HISTORIES)


@pytest.fixture(scope="module")
async def folds() -> dict[str, list[Event]]:
    """The events of every stored history, by its name."""
    return {path.stem: await folding.folded(folding.load(path)) for path in HISTORIES}


def test_every_stored_history_has_the_same_events(
    folds: dict[str, list[Event]], subtests: pytest.Subtests
) -> None:
    """The fold of a history has the same events in every version."""
    for name, events in folds.items():
        stored = json.loads((HERE / "events" / f"{name}.json").read_text())
        with subtests.test(name):
            assert folding.lines_of(events) == stored


def test_every_call_of_a_stored_history_ends(
    folds: dict[str, list[Event]], subtests: pytest.Subtests
) -> None:
    """In every stored run each call starts once and ends once, with ascending event ids (SR-66)."""
    for name, events in folds.items():
        started = [event.call.tool_call_id for event in events if event.type == "tool_start"]
        ended = [event.result.tool_call_id for event in events if event.type == "tool_end"]
        ids = [event.event_id for event in events]
        with subtests.test(name):
            assert sorted(started) == sorted(ended)
            assert len(set(started)) == len(started)
            assert ids == sorted(set(ids))
            assert events[-1].type in {"run_stream_end", "run_continued"}


@pytest.mark.parametrize("runner", RUNNERS)
async def test_a_replay_finds_another_decision(runner: str) -> None:
    """A history in which a call has another activity id does not replay: the test above can fail."""
    stored = json.loads((HERE / "histories" / "plain_calls.json").read_text())
    for event in stored["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes", {})
        if scheduled.get("activityType", {}).get("name") == "ExecuteToolActivity":
            scheduled["activityId"] = "another"
            break
    wrong = WorkflowHistory.from_json("plain_calls", stored)

    async def histories() -> AsyncIterator[WorkflowHistory]:
        yield wrong

    replayed = await replayer_in(RUNNERS[runner]).replay_workflows(histories(), raise_on_replay_failure=False)
    assert isinstance(replayed.replay_failures[wrong.run_id], NondeterminismError)


async def test_a_history_replays_with_all_of_sojourn_in_the_sandbox() -> None:
    """Here no module of Sojourn is passed through, so that the sandbox checks the contracts too."""
    through = {module.split(".")[0] for module in STRICT.passthrough_modules}
    assert not {"sojourn", "workflows", "jsonschema", "re2", "structlog"} & through
    replayer = replayer_in(SandboxedWorkflowRunner(restrictions=STRICT))
    await replayer.replay_workflow(folding.load(HERE / "histories" / "child_agent.json"))


async def test_the_sandbox_finds_a_forbidden_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow that reads the clock is stopped: the tests above can fail."""
    monkeypatch.syspath_prepend(HERE)  # the sandbox imports the workflow by its name
    forbidden = importlib.import_module("forbidden_clock").LooksAtTheClock
    runner = SandboxedWorkflowRunner(restrictions=SANDBOX)
    replayer = Replayer(workflows=[forbidden], workflow_runner=runner, data_converter=data_converter)
    with pytest.raises(RuntimeError, match=r"Cannot access time\.time"):
        await replayer.replay_workflow(folding.load(HERE / "histories" / "plain_calls.json"))


def test_every_scenario_is_stored() -> None:
    """Each scenario has its history, and each history its events."""
    stored = {path.stem for path in HISTORIES}
    assert {*scenarios.SCENARIOS, "no_input"} <= stored
    assert stored == {path.stem for path in (HERE / "events").glob("*.json")}


def test_every_later_change_has_a_stored_history() -> None:
    """Each patch after the present version is a marker of some stored history, so a replay follows it."""
    marked = "".join(map(str, map(markers_of, HISTORIES)))
    later = {change for change, version in PATCHES.items() if version > VERSION}
    assert {change for change in later if f'"{change}"' not in marked} == set()


def markers_of(path: Path) -> list[bytes]:
    """Return what the markers of a history hold."""
    return [
        payload.data
        for event in folding.load(path).events
        if event.HasField("marker_recorded_event_attributes")
        for details in event.marker_recorded_event_attributes.details.values()
        for payload in details.payloads
    ]


def test_stored_histories_are_small_and_of_no_machine() -> None:
    """Histories are kept for ever, so they are small, and without paths of the machine that recorded them."""
    texts = {path.stem: path.read_text() for path in HISTORIES}
    assert [name for name, text in texts.items() if len(text.encode()) >= MAX_BYTES] == []
    assert [name for name, text in texts.items() if "stackTrace" in text] == []
    assert [name for name, text in texts.items() if str(HERE.parents[1]) in text] == []
