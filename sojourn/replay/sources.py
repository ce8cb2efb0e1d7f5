"""Find recorded runs to replay, in files and on the server.

A history is checked before it is replayed, since Temporal's core ends its worker for one that is damaged.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError

from sojourn.client.listing import Selection, query_literal
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.wire_names import SCHEDULED_MESSAGE, WORKFLOWS
from sojourn.errors import SojournError
from sojourn.events.one_run import fetch_histories, histories_in

__all__ = ["Source", "files_in", "runs_on_server", "source_of_file", "source_of_run"]

_AFTER_TASK_STARTED = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    }
)

_HOW = "write one with: sojourn export RUN --history FILE"


@dataclass(frozen=True, slots=True)
class Source:
    """A recorded run, which is read only when it is replayed."""

    name: str
    """The file, or the run's id."""
    read: Callable[[], Awaitable[list[WorkflowHistory]]]
    """Returns the histories of its executions, oldest first; raises ValueError if there is none that can be replayed."""


def files_in(path: Path) -> Sequence[Path]:
    """Return a file, or the `*.json` of a folder and of the folders in it, sorted.

    Raises:
        FileNotFoundError: There is no such file, or none in the folder.
    """
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise FileNotFoundError(f"{path} has no history; {_HOW}")
    return files


def source_of_file(path: Path) -> Source:
    """Return the run in a file.

    The file is one of `sojourn export --history`, or of `temporal workflow show --output json`.
    """

    async def read() -> list[WorkflowHistory]:
        return _read_file(path)

    return Source(str(path), read)


def source_of_run(client: Client, run_id: str) -> Source:
    """Return a run of the server, with all its executions that retention has left."""

    async def read() -> list[WorkflowHistory]:
        try:
            histories = await fetch_histories(client, run_id)
        except RPCError as error:
            raise ValueError(str(translate_error(error, run_id))) from error
        except SojournError as error:
            raise ValueError(str(error)) from error
        for history in histories:
            _check_whole(history)
        return histories

    return Source(run_id, read)


async def runs_on_server(client: Client, queue: str, since: datetime | None) -> AsyncGenerator[str]:
    """Yield the ids of a task queue's runs, the open ones first.

    With `since`, those that began since then and have ended follow.

    Raises:
        SojournError: The server is unavailable, or lacks what lists runs.
    """
    on_queue = f" AND TaskQueue = {query_literal(queue)}"
    queries = [Selection(status="running").query]
    if since is not None:
        queries.append(Selection(since=since).query + " AND ExecutionStatus != 'Running'")
    try:
        for query in queries:
            async for found in client.list_workflows(query + on_queue):
                yield found.id
    except RPCError as error:
        raise translate_error(error, None) from error


def _read_file(path: Path) -> list[WorkflowHistory]:
    try:
        histories = histories_in(path.read_text(encoding="utf-8"))
        for history in histories:
            _check_whole(history)
    except ValueError as error:
        raise ValueError(f"{path} is not a history ({error}); {_HOW}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    return histories


def _check_whole(history: WorkflowHistory) -> None:
    """Raise ValueError for a history that Temporal's core does not take."""
    events = history.events
    if not events or events[0].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        raise ValueError("it does not begin with the start of a run")
    started = events[0].workflow_execution_started_event_attributes
    if started.workflow_type.name not in {*WORKFLOWS, SCHEDULED_MESSAGE}:
        raise ValueError(
            f"it is one of the workflow {started.workflow_type.name or '(none)'!r}, not of a run"
        )
    if not started.original_execution_run_id:
        raise ValueError("its first event does not name the execution")
    begun = False
    for number, event in enumerate(events, 1):
        if begun and event.event_type not in _AFTER_TASK_STARTED:
            raise ValueError(f"event {number} is not the end of the workflow task that has begun")
        begun = event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
        if event.event_id != number:
            raise ValueError(f"event {number} is missing")
        if event.WhichOneof("attributes") is None:
            raise ValueError(f"event {number} is empty")
