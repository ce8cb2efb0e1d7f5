"""Waits: every open wait of every run, for one inbox, with what is needed to answer it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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

FRESH = 30.0
"""Seconds for which pages after the first one take a run as it was, unless it is on the page."""

MAX_TEXT = 2_000
"""Longest text of a wait's context, in characters."""

Pages = Callable[[str | None], Awaitable[Runs]]
"""Returns the page of waiting runs at a cursor."""

_LIST = "waits"
"""What the cursors are of."""

_Place = tuple[str, str, str]
"""Since when, the run, and the wait."""

_PLACE: TypeAdapter[_Place] = TypeAdapter(_Place)


@dataclass(slots=True)
class _Known:
    """What was read of a run."""

    version: tuple[str, int]
    """The execution, and the length of its history."""
    waiting: Waiting
    awaiting: str = ""
    """Its oldest wait by the store, when it was looked at."""
    at: float = 0.0
    """When that was."""


class Inbox:
    """The open waits; remembers those of each run until its history grows.

    The first page looks at every waiting run. Those after it look at the runs that are on the page, so that nothing is on it that was
    answered, and at those of which the store says something new, or which nobody has looked at for a while.

    Args:
        client: The client.
    """

    def __init__(self, client: Access) -> None:
        self._client = client
        self._known: dict[str, _Known] = {}
        """By run."""

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
        begin, since = _place(cursor), time.monotonic()
        awaiting, is_whole = await _waiting_runs(pages)
        oldest = since if begin is None else since - FRESH
        look = _Look(self, awaiting)
        found = await look.at(list(awaiting), oldest)
        placed = sorted(
            ((_place_of(wait), wait) for wait in found if fits(wait)),
            key=lambda each: each[0],
            reverse=newest,
        )
        if begin is not None:
            placed = [each for each in placed if (each[0] < begin if newest else each[0] > begin)]
        page: list[tuple[_Place, Wait]] = []
        while placed and len(page) < most:
            part, placed = placed[: most - len(page)], placed[most - len(page) :]
            now = await look.at(list(dict.fromkeys(wait.run_id for _, wait in part)), since)
            is_open = {(wait.run_id, wait.await_id) for wait in now}
            page += [each for each in part if (each[1].run_id, each[1].await_id) in is_open]
        after = opaque(json.dumps(page[-1][0]).encode(), _LIST) if page and placed else None
        return Waits(waits=[wait for _, wait in page], cursor=after, is_whole=is_whole)

    async def waits_of(self, run_id: str, awaiting: str, oldest: float) -> list[Wait]:
        """The open waits of a run.

        Args:
            run_id: The run.
            awaiting: Its oldest wait by the store.
            oldest: Since when somebody must have looked at the run; else it is looked at now.

        Raises:
            ServerUnavailable: The server does not answer.
        """
        known = self._known.get(run_id)
        if known is None or known.awaiting != awaiting or known.at < oldest:
            try:
                known = await self._looked(run_id)
            except (RunNotFound, RunUnreadable):
                return []  # deleted meanwhile, or of workers whose codec is not here: nobody can answer it by this service
            known.awaiting = awaiting
        return [_wait(known.waiting, each) for each in known.waiting.waits]

    async def _looked(self, run_id: str) -> _Known:
        at = time.monotonic()
        try:
            described = await self._client.temporal.get_workflow_handle(run_id).describe()
        except RPCError as error:
            raise translated(error, run_id) from error
        version = (described.run_id, described.history_length)
        known = self._known.pop(run_id, None)
        if known is None or known.version != version:
            read = await waiting_in_history(self._client.temporal, run_id, self._client.storage)
            started = (
                read.status.started_at or described.start_time
            )  # a history says it only of an execution before
            status = read.status.model_copy(update={"started_at": started})
            known = _Known(version, replace(read, status=status))
        known.at = at
        self._known[run_id] = known
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return known


class _Look:
    """The looks at runs for one page, few at the same time.

    Args:
        inbox: What looks.
        awaiting: By run, its oldest wait by the store.
    """

    def __init__(self, inbox: Inbox, awaiting: Mapping[str, str]) -> None:
        self._inbox = inbox
        self._awaiting = awaiting
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def at(self, run_ids: Sequence[str], oldest: float) -> list[Wait]:
        """The open waits of runs; raises as `Inbox.waits_of`."""

        async def look(run_id: str) -> list[Wait]:
            async with self._gate:
                return await self._inbox.waits_of(run_id, self._awaiting[run_id], oldest)

        found = await asyncio.gather(*(look(run_id) for run_id in run_ids))
        return [wait for waits in found for wait in waits]


async def _waiting_runs(pages: Pages) -> tuple[dict[str, str], bool]:
    """By the id of each waiting run its oldest wait, and whether these are all."""
    found: dict[str, str] = {}
    cursor: str | None = None
    while len(found) < MAX_RUNS:
        page = await pages(cursor)
        found |= {run.run_id: run.awaiting for run in page.runs}
        if (cursor := page.cursor) is None:
            return found, True
    return found, False


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
