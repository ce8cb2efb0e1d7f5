"""Waits: every open wait of every run, for one inbox, with what is needed to answer it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.errors import InvalidInput, RunNotFound, RunUnreadable
from sojourn.events.open_waits import OpenWait, Waiting, waiting_in_history
from sojourn.http.cursors import NO_CURSOR, opaque, opened
from sojourn.http.replies import Runs, Wait, WaitContext, Waits

__all__ = ["Inbox", "fields_of"]

AT_ONCE = 16
"""Most runs that are read at the same time."""

PAGE = 1_000
"""Runs of a page of the store."""

MAX_RUNS = 5_000
"""Most waiting runs that are looked at."""

MAX_KNOWN = 10_000
"""Most runs whose waits are remembered."""

MAX_TEXT = 2_000
"""Longest text of a wait's context, in characters."""

Pages = Callable[[str | None], Awaitable[Runs]]
"""Returns the page of waiting runs at a cursor."""

_LIST = "waits"
"""What the cursors are of."""

_Place = tuple[str, str, str]
"""Since when, the run, and the wait."""

_PLACE: TypeAdapter[_Place] = TypeAdapter(_Place)


class Inbox:
    """The open waits; remembers those of each run until its history grows.

    Args:
        client: The client.
    """

    def __init__(self, client: Access) -> None:
        self._client = client
        self._known: dict[str, tuple[tuple[str, int], Waiting]] = {}
        """By run: the execution and the length of the history that was read, and what it says."""

    async def page(
        self, pages: Pages, *, fits: Callable[[Wait], bool], newest: bool, most: int, cursor: str | None
    ) -> Waits:
        """A page of the open waits of the runs in `pages`.

        Args:
            pages: Returns the pages of waiting runs.
            fits: Whether a wait is asked for.
            newest: Whether the newest come first, else the oldest.
            most: Most waits of the page.
            cursor: The cursor of the page before.

        Raises:
            InvalidInput: The cursor is none of this list.
            ServerUnavailable: The server does not answer.
        """
        begin = _place(cursor)
        run_ids, is_whole = await _waiting_runs(pages)
        gate = asyncio.Semaphore(AT_ONCE)

        async def look(run_id: str) -> list[Wait]:
            async with gate:
                return await self._waits_of(run_id)

        found = await asyncio.gather(*(look(run_id) for run_id in run_ids))
        placed = sorted(
            ((_place_of(wait), wait) for waits in found for wait in waits if fits(wait)),
            key=lambda each: each[0],
            reverse=newest,
        )
        if begin is not None:
            placed = [each for each in placed if (each[0] < begin if newest else each[0] > begin)]
        page, more = placed[:most], len(placed) > most
        after = opaque(json.dumps(page[-1][0]).encode(), _LIST) if page and more else None
        return Waits(waits=[wait for _, wait in page], cursor=after, is_whole=is_whole)

    async def _waits_of(self, run_id: str) -> list[Wait]:
        try:
            waiting = await self._waiting(run_id)
        except (RunNotFound, RunUnreadable):
            return []  # deleted meanwhile, or of workers whose codec is not here: nobody can answer it by this service
        return [_wait(waiting, each) for each in waiting.waits]

    async def _waiting(self, run_id: str) -> Waiting:
        try:
            described = await self._client.temporal.get_workflow_handle(run_id).describe()
        except RPCError as error:
            raise translated(error, run_id) from error
        version = (described.run_id, described.history_length)
        known = self._known.pop(run_id, None)
        if known is None or known[0] != version:
            known = version, await waiting_in_history(self._client.temporal, run_id, self._client.storage)
        self._known[run_id] = known
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return known[1]


async def _waiting_runs(pages: Pages) -> tuple[list[str], bool]:
    """The ids of waiting runs, and whether these are all."""
    found: dict[str, None] = {}
    cursor: str | None = None
    while len(found) < MAX_RUNS:
        page = await pages(cursor)
        found |= dict.fromkeys(run.run_id for run in page.runs)
        if (cursor := page.cursor) is None:
            return list(found), True
    return list(found), False


def _place(cursor: str | None) -> _Place | None:
    place = opened(cursor, _LIST)
    if place is None:
        return None
    try:
        return _PLACE.validate_json(place)
    except ValidationError as error:
        raise InvalidInput(NO_CURSOR) from error


def _place_of(wait: Wait) -> _Place:
    since = wait.since or datetime.min.replace(tzinfo=UTC)
    return since.astimezone(UTC).isoformat(timespec="microseconds"), wait.run_id, wait.await_id


def _wait(waiting: Waiting, opened: OpenWait) -> Wait:
    status, wait = waiting.status, opened.wait
    expires = opened.since + wait.expires_after if opened.since and wait.expires_after else None
    context = WaitContext(
        asked=waiting.asked[:MAX_TEXT],
        said=waiting.said[:MAX_TEXT],
        started_at=status.started_at,
        paused=status.paused,
    )
    common: dict[str, Any] = {
        "run_id": status.run_id,
        "await_id": wait.id,
        "agent_id": status.agent_id,
        "session_id": status.session_id,
        "since": opened.since,
        "expires_at": expires,
        "context": context,
    }
    return Wait(**common, **fields_of(wait))


def fields_of(wait: Await) -> dict[str, Any]:
    """What is asked, as fields of a `Wait`."""
    if isinstance(wait, AwaitClarification):
        return {
            "kind": "question",
            "prompt": "\n".join(filter(None, (wait.question, wait.clarifying_prompt))),
            "tool": wait.restrict_to_tool,
            "tool_call_id": wait.tool_call_id,
            "form": wait.form,
            "missing_fields": wait.missing_fields,
            "example": wait.example_input,
        }
    if isinstance(wait, AwaitConfirmation):
        return {
            "kind": "approval",
            "title": wait.title,
            "prompt": wait.prompt,
            "tool": wait.tool,
            "tool_call_id": wait.tool_call_id,
            "tags": wait.tags,
            "payload": wait.payload,
            "digest": wait.payload_digest,
            "changes": wait.changes,
        }
    return {"kind": "tool_results", "calls": wait.items}
