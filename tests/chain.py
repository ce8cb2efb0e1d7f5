"""The history of a run over all of its executions, and runs that go on in a new execution after a few events.

`SOJOURN_CONTINUE=60 make test` lets every run of the suite, also those of worker processes, go on after 60 events.
"""

import importlib
import os

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn.events.one_run import fetch_histories
from workflows.agent_run import AgentRun

__all__ = ["SHORT", "SHORTEN", "history_of", "replay", "shorten"]

SHORT = int(os.environ.get("SOJOURN_CONTINUE", "0"))
"""Number of events after which runs go on; 0 for the usual number."""

SHORTEN = ("tests.chain",) if SHORT else ()
"""Modules that a worker process imports first, for short executions."""


def shorten() -> None:
    """Let the runs of this process go on after `SHORT` events."""
    importlib.import_module("workflows.history_budget").CONTINUE_EVENTS = SHORT


async def history_of(client: Client, run_id: str) -> list[HistoryEvent]:
    """Every event of the run's executions, oldest first."""
    execution: str | None = None
    whole: list[HistoryEvent] = []
    while execution != "":
        handle = client.get_workflow_handle(run_id, run_id=execution)
        events = [event async for event in handle.fetch_history_events()]
        whole = [*events, *whole]
        execution = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return whole


async def replay(client: Client, run_id: str) -> int:
    """Replay every execution of a run on today's code, with the client's converter, and return how many there are."""
    replayer = Replayer(
        workflows=[AgentRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=client.data_converter,
    )
    histories = await fetch_histories(client, run_id)
    for history in histories:
        await replayer.replay_workflow(history)
    return len(histories)


if SHORT:
    shorten()
