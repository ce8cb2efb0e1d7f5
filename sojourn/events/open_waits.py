"""The open waits of a run with their times, and the texts that introduce them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from temporalio.client import Client
from temporalio.converter import StorageDriver
from temporalio.service import RPCError

from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.awaits import Await
from sojourn.contracts.run import RunStatus
from sojourn.core.history.fold import Fold
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.events.one_run import events_of, present_execution, records_of
from sojourn.timeline import Timeline

__all__ = ["Waiting", "waiting_in_history"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run with its open waits."""

    status: RunStatus
    """Its `awaits` are the open waits, oldest first."""
    since: Mapping[str, datetime]
    """When each wait was opened, by its id; without those whose event is in a deleted execution."""
    asked: str
    """The text of the last user message of the current turn."""
    said: str
    """The text of the planner's last message that has one."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """The labels that the run was started with."""

    def wait(self, await_id: str) -> Await | None:
        return next((wait for wait in self.status.awaits if wait.id == await_id), None)


async def waiting_in_history(
    client: Client, run_id: str, storage: StorageDriver | None = None, *, execution: str = ""
) -> Waiting:
    """Return the open waits of a run, oldest first, without a worker.

    Executions before the present one are read only if a wait was opened there, or the message of its turn came there.
    """
    fold, timeline = Fold(run_id), Timeline(run_id)
    try:
        async for record, events in records_of(
            client, fold, execution or await present_execution(client, run_id), follow=False
        ):
            if isinstance(record.value, Continuation):
                timeline.last_user_text = _asked_in_origin(record.value)
            for event in events:
                timeline.feed(event)
    except RPCError as error:
        raise translate_error(error, run_id) from error
    status = fold.status()
    if timeline.last_user_text is None or not all(wait.id in timeline.open_waits for wait in status.awaits):
        timeline = Timeline(run_id)
        async for event in events_of(client, run_id, storage, follow=False):
            timeline.feed(event)
    return Waiting(
        status,
        {await_id: opened.since for await_id, opened in timeline.open_waits.items()},
        timeline.last_user_text or "",
        timeline.last_assistant_text,
        fold.state.opening.labels,
    )


def _asked_in_origin(begins: Continuation) -> str | None:
    """Return a fork's last user message from its origin, unless it is stored."""
    if begins.state.executions or begins.state.opening.forked_from is None:
        return None
    try:
        messages = Packed.unpacked(begins.transcript).messages()
    except ValueError:
        return None
    return next((message.text for message in reversed(messages) if message.role == "user"), None)
