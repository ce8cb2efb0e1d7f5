"""Pages of runs, and the cursors of lists."""

import base64
import binascii
import hashlib
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict
from temporalio.client import WorkflowExecution

from sojourn.client.listing import message_of, run_of
from sojourn.contracts.run import ForkedFrom
from sojourn.errors import InvalidInput

__all__ = ["NO_CURSOR", "ListedRun", "Runs", "StuckReason", "decode_cursor", "encode_cursor", "listed_run"]

NO_CURSOR = "cursor: it is not the `cursor` of an answer to the same request without it"

_CHECKSUM = 6
"""Bytes of a cursor's checksum."""


class StuckReason(BaseModel):
    """Why an open run makes no progress."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True)

    kind: Literal["task", "planner", "blocked", "unserved"]
    """`task`: its workflow task fails; `planner`: its planner; `blocked`: a call blocks its worker's event loop; `unserved`: no worker polls."""
    attempt: int
    """The number of the current attempt."""
    since: datetime | None
    """The start of the problem, or null if unknown."""
    reason: str
    """The reason that the history or the server gives; empty if they give none."""
    queue: str
    """The run's task queue."""


class ListedRun(BaseModel):
    """A run in a list. `GET /v1/runs/{run_id}` has more fields."""

    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True)

    run_id: str
    """The run."""
    agent_id: str
    """The agent that runs."""
    session_id: str
    """The run's session, or empty."""
    status: str
    """As in `RunStatus`."""
    asked: str = ""
    """The beginning of the run's first user message, or empty if this process cannot read it."""
    awaiting: str
    """The id of the oldest wait, or `(paused)`; empty for a run that waits for nothing."""
    gave_up: str = ""
    """The limit or safeguard that ended a completed run; empty if it answered."""
    forked_from: ForkedFrom | None
    """In a fork: the run it was forked from, without the place."""
    started_at: datetime | None
    """When the run started."""
    closed_at: datetime | None
    """When the run ended; null while it is open."""
    stuck: StuckReason | None = None
    """In a list of stuck runs: why it makes no progress. Its `status` there is `stuck`."""


async def listed_run(described: WorkflowExecution) -> ListedRun:
    """Return a described run as lists have it."""
    run = ListedRun.model_validate(await run_of(described))
    run.asked = await message_of(described)
    return run


class Runs(BaseModel):
    """A page of runs; it may be short, or empty, though there are more: it is the last one where `cursor` is null."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    runs: list[ListedRun]
    """Open ones before ended ones, each newest first."""
    cursor: str | None
    """The cursor of the next page, or null after the last one."""
    is_whole: bool = True
    """In a list of stuck runs: false if there may be more of them, because only the newest open runs were checked, or `limit` cut the list."""


def encode_cursor(position: bytes, of: str) -> str:
    """Encode a position in a list for a URL."""
    return base64.urlsafe_b64encode(_checksum(position, of) + position).decode().rstrip("=")


def decode_cursor(cursor: str | None, of: str) -> bytes | None:
    """Decode a cursor, or None for the beginning of the list."""
    if not cursor:
        return None
    try:
        read = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        read = b""
    position = read[_CHECKSUM:]
    if not position or _checksum(position, of) != read[:_CHECKSUM]:
        raise InvalidInput(NO_CURSOR)
    return position


def _checksum(position: bytes, of: str) -> bytes:
    """Return a checksum: Temporal takes 6 s to refuse a token of another list."""
    return hashlib.sha256(of.encode() + b"\0" + position).digest()[:_CHECKSUM]
