"""Last messages of conversations, and how many turns each has had: from the history of the last execution, with no query to a worker."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.service import RPCError

from sojourn.client.client import Client
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.contracts.run import RunStatus
from sojourn.core.history.fold import Fold
from sojourn.errors import RunNotFound, RunUnreadable
from sojourn.events.one_run import executions_before, present_execution, records_of

__all__ = ["Said", "last_messages", "to_fields"]

AT_ONCE = 8
"""Most conversations that are read at the same time."""

MAX_BEFORE = 2
"""Most executions before the last one that are read, where nobody sent a message in it."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a conversation's history says of it."""

    turns: int
    """Turns that have ended."""
    queued: int
    """Messages that wait for their turn."""
    last: MessageReceivedEvent | None = None
    """The last message that it accepted; None where that is long ago, or there was none."""


def to_fields(said: Said | None) -> dict[str, Any]:
    """Return the fields that `--json` prints; each is null for a conversation that could not be read."""
    if said is None:
        return {"turns": None, "queued": None, "last_message": None}
    last = said.last and {
        "message_id": said.last.message_id,
        "text": said.last.message.text,
        "by": said.last.by,
        "at": said.last.time.isoformat(),
    }
    return {"turns": said.turns, "queued": said.queued, "last_message": last}


async def last_messages(client: Client, sessions: Sequence[RunStatus]) -> list[Said | None]:
    """Return what each conversation's history says, in their order; None for one that cannot be read.

    Raises:
        ServerUnavailable: The server does not answer.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(session: RunStatus) -> Said | None:
        async with gate:
            try:
                return await _read(client, session.run_id)
            except RunUnreadable:
                return None
            except RPCError as error:
                told = translated(error, session.run_id)
                if isinstance(told, RunNotFound):  # deleted since it was listed
                    return None
                raise told from error

    return await asyncio.gather(*(read(session) for session in sessions))


async def _read(client: Client, run_id: str) -> Said:
    present = await present_execution(client.temporal, run_id)
    said = await _folded(client, run_id, present)
    if said.last is not None or not said.turns:
        return said
    for before in await executions_before(client.temporal, run_id, present, MAX_BEFORE):
        said = await _folded(client, run_id, before)
        if said.last is not None:
            break
    return said


async def _folded(client: Client, run_id: str, execution: str) -> Said:
    """What an execution and those after it say."""
    fold, last = Fold(run_id), None
    async for _, events in records_of(client.temporal, fold, execution, follow=False):
        last = next((each for each in reversed(events) if isinstance(each, MessageReceivedEvent)), last)
    status = fold.status()
    return Said(status.turns, status.queued, last)
