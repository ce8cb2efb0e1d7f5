"""The open waits of a run, each with the moment since when it is open, and with what the run is about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from temporalio.client import Client
from temporalio.converter import StorageDriver
from temporalio.service import RPCError

from sojourn.connection.rpc_errors import translated
from sojourn.contracts.awaits import Await
from sojourn.contracts.event import (
    AssistantMessageEvent,
    Event,
    MessageReceivedEvent,
    RunResumedEvent,
    RunStartedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.contracts.run import RunStatus
from sojourn.core.awaits.kinds import wait_in
from sojourn.core.history.fold import Fold
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.events.one_run import events_of, present_execution, records_of

__all__ = ["OpenWait", "Waiting", "waiting_in_history"]


@dataclass(frozen=True, slots=True)
class OpenWait:
    """An open wait, and since when."""

    wait: Await
    since: datetime | None
    """None where the event is in an execution that is deleted."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run, and whom it waits for."""

    status: RunStatus
    waits: list[OpenWait]
    asked: str
    """The text of the last user message that the present turn has."""
    said: str
    """The text of the planner's last message that has one."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """The labels with which the run was started."""


@dataclass(slots=True)
class _Seen:
    """What the events so far say of waits and messages."""

    since: dict[str, datetime] = field(default_factory=dict[str, datetime])
    asked: str | None = None
    """None where the message came in an execution before; empty where it has no text."""
    said: str = ""
    received: dict[str, str] = field(default_factory=dict[str, str])
    """By id, the texts of messages that no turn has yet."""

    def take(self, event: Event) -> None:
        """Take the next event."""
        if wait := wait_in(event):
            self.since[wait.id] = event.time
        match event:
            case RunStartedEvent(message=message) if message:
                self.asked = message.text
            case MessageReceivedEvent(message=message, message_id=message_id):
                self.received[message_id] = message.text
            case (
                TurnStartedEvent(message_ids=[*others, last]) | TurnSteeredEvent(message_ids=[*others, last])
            ):
                for message_id in others:
                    self.received.pop(message_id, None)
                self.asked = self.received.pop(last, None)
            case RunResumedEvent(messages=[*_, last]):
                self.asked = last
            case AssistantMessageEvent(message=message) if message.text:
                self.said = message.text
            case _:
                pass


async def waiting_in_history(
    client: Client, run_id: str, storage: StorageDriver | None = None, *, execution: str = ""
) -> Waiting:
    """The open waits of a run, oldest first, without a worker.

    The present execution's history is read, and those before it only where a wait was opened there, or the message of its turn came.

    Args:
        client: The client.
        run_id: The run.
        storage: Where the archive is.
        execution: The present execution, where it is known.

    Raises:
        RunNotFound: There is no such run.
        RunUnreadable: The run's records cannot be decoded here.
        ServerUnavailable: The server does not answer.
    """
    fold, seen = Fold(run_id), _Seen()
    try:
        async for record, events in records_of(
            client, fold, execution or await present_execution(client, run_id), follow=False
        ):
            if isinstance(record.value, Continuation):
                seen.asked = _asked_in_origin(record.value)
            for event in events:
                seen.take(event)
    except RPCError as error:
        raise translated(error, run_id) from error
    status = fold.status()
    if seen.asked is None or not all(wait.id in seen.since for wait in status.awaits):
        seen = _Seen()
        async for event in events_of(client, run_id, storage, follow=False):
            seen.take(event)
    waits = [OpenWait(wait, seen.since.get(wait.id)) for wait in status.awaits]
    return Waiting(status, waits, seen.asked or "", seen.said, fold.state.opening.labels)


def _asked_in_origin(begins: Continuation) -> str | None:
    """The last user message that a fork has from its origin; None for another continuation, or a transcript in external storage."""
    if begins.state.executions or begins.state.opening.forked_from is None:
        return None
    try:
        messages = Packed.unpacked(begins.transcript).messages()
    except ValueError:
        return None
    return next((message.text for message in reversed(messages) if message.role == "user"), None)
