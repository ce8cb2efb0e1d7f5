"""List runs and conversations from Temporal's visibility store.

Labels never change, so each is read once from the input of its run, however many callers ask, and cached for a while.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeVar
from weakref import WeakKeyDictionary

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from sojourn import search_attributes
from sojourn.client.conversation_id import is_conversation
from sojourn.client.readable_run import limit_of_end, status_name
from sojourn.client.sending import not_found
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.run import ForkedFrom, RunInput, RunStatus
from sojourn.contracts.wire_names import AGENT_RUN, MESSAGE, STARTED_AT, STARTED_BY, TIME_ZONE
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.scheduled_time import fill_text
from sojourn.errors import InvalidInput
from sojourn.events.history import HistoryReader

__all__ = [
    "AT_WORK",
    "Page",
    "Selection",
    "StatusFilter",
    "count_of",
    "describe_run",
    "each_of",
    "find_runs",
    "find_waiting",
    "labels_of_run",
    "message_of",
    "newest_of",
    "page_of",
    "parse_labels",
    "query_literal",
    "run_of",
    "start_of",
    "with_labels",
]


async def start_of(found: WorkflowExecution) -> datetime:
    """Return the start of the run, by the server's clock.

    If the memo cannot be read or is not Sojourn's, this is the start of its last execution.
    """
    try:
        told = await found.memo_value(STARTED_AT, None)
        started = datetime.fromisoformat(told) if isinstance(told, str) else found.start_time
        return min(found.start_time, started)
    except Exception:  # noqa: BLE001 - the memo is untrusted, and a codec may raise anything
        return found.start_time


async def message_of(found: WorkflowExecution) -> str:
    """Return the beginning of the last user message that the run was started with.

    Empty if the memo cannot be read or is not Sojourn's. `{scheduled_at}` is filled in.
    """
    text, time_zone = await _memo_of(found, MESSAGE), await _memo_of(found, TIME_ZONE)
    return fill_text(text, time_zone, found.id) if time_zone else text


async def _memo_of(found: WorkflowExecution, name: str) -> str:
    try:
        told = await found.memo_value(name, "")
    except Exception:  # noqa: BLE001 - as above
        return ""
    return told if isinstance(told, str) else ""


AT_ONCE = 20
"""Most runs whose input is read at the same time."""

MAX_KNOWN = 20_000
"""Most runs whose labels are cached."""

MAX_CHARS = 1_000
"""Longest labels to cache, in characters. Those of twenty thousand runs have 20 MB at most."""

_Start = tuple[str, str]
"""A run id and its start, because a run id may be used again."""


class Listed(Protocol):
    """A run in a list."""

    @property
    def run_id(self) -> str: ...

    @property
    def started_at(self) -> datetime | None: ...


AnyRun = TypeVar("AnyRun", bound=Listed)


async def with_labels(
    client: Client, runs: AsyncIterator[AnyRun], labels: Mapping[str, str], limit: int | None = None
) -> AsyncGenerator[AnyRun]:
    """Yield the runs that were started with all of these labels, in their order.

    A run that was deleted meanwhile has no labels.
    """
    found = 0
    known_labels = _KNOWN.setdefault(client, _KnownLabels())
    async for group in _groups(runs):
        known = await asyncio.gather(*(known_labels.of(client, run) for run in group))
        for run, its in zip(group, known, strict=True):
            if labels.items() <= its.items():
                found += 1
                yield run
                if found == limit:
                    return


async def _groups(runs: AsyncIterator[AnyRun]) -> AsyncGenerator[list[AnyRun]]:
    group: list[AnyRun] = []
    async for run in runs:
        group.append(run)
        if len(group) == AT_ONCE:
            yield group
            group = []
    if group:
        yield group


class _KnownLabels:
    def __init__(self) -> None:
        self._known: OrderedDict[_Start, dict[str, str]] = OrderedDict()
        self._reading: dict[_Start, asyncio.Task[dict[str, str]]] = {}

    async def of(self, client: Client, run: Listed) -> dict[str, str]:
        start = (run.run_id, run.started_at.isoformat() if run.started_at else "")
        if start in self._known:
            self._known.move_to_end(start)
            return self._known[start]
        task = self._reading.get(start)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._reading[start] = asyncio.create_task(self._read(client, start))
            task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # for the case that every reader has gone
        return await asyncio.shield(task)

    async def _read(self, client: Client, start: _Start) -> dict[str, str]:
        try:
            found = await labels_of_run(client, start[0])
            size = sum(len(name) + len(value) for name, value in found.items())
            if start[1] and size <= MAX_CHARS:
                self._known[start] = found
                while len(self._known) > MAX_KNOWN:
                    self._known.popitem(last=False)
            return found
        finally:
            del self._reading[start]


_KNOWN: WeakKeyDictionary[Client, _KnownLabels] = WeakKeyDictionary()


def parse_labels(pairs: Sequence[str]) -> dict[str, str]:
    """Return labels from pairs `NAME=VALUE`.

    Raises:
        InvalidInput: An item is not such a pair.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise InvalidInput(f"label: {pair[:100]!r} is not NAME=VALUE")
        found[name] = value
    return found


async def labels_of_run(client: Client, run_id: str) -> dict[str, str]:
    """Return the labels in a run's input. Empty if it cannot be read."""
    reader = HistoryReader(client.data_converter)
    try:
        async for event in client.get_workflow_handle(run_id).fetch_history_events(page_size=1):
            record = await reader.record(event)
            match record and record.value:
                case RunInput(labels=labels):
                    return labels
                case Continuation(state=state):
                    return state.opening.labels
                case _:
                    return {}
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise translate_error(error, run_id) from error
    return {}


StatusFilter = Literal[
    "running",
    "waiting",
    "paused",
    "idle",
    "completed",
    "answered",
    "gave_up",
    "failed",
    "canceled",
    "terminated",
    "timed_out",
]
"""What runs are listed by: a status of `RunStatus`, or one of the two kinds of completed runs."""

MAX_PAGES = 10
"""Most pages of the store that are read for one page with a run in it."""

MAX_PAGES_OF_TEXT = 20
"""The same limit for a search for text, which the store cannot do."""

MAX_BY_IDS = 200
"""Most runs that a search finds by the beginning of their id or session."""

WAITING_PAGE = 1_000
"""Page size of the store, when listing all waiting runs."""

AT_WORK = "at_work"
"""Selects open runs that are not waiting, paused or idle. No run has it as its status."""

_BY_AWAITING = {
    "paused": f"= '{search_attributes.PAUSED}'",
    "idle": f"= '{search_attributes.IDLE}'",
    "waiting": f"IS NOT NULL AND SojournAwaiting != '{search_attributes.IDLE}'",
    AT_WORK: "IS NULL",
}
"""Statuses of open runs that the store knows by `SojournAwaiting`."""

_BY_GIVING_UP = {"answered": "IS NULL", "gave_up": "IS NOT NULL"}
"""The two kinds of completed runs, which the store knows by `SojournGaveUp`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters that select runs, as the arguments of `Client.list_runs`."""

    agent_id: str | None = None
    session_id: str | None = None
    status: str | None = None
    since: datetime | None = None
    children: bool = True
    fork_of: str | None = None
    tenant: str | None = None
    viewer: str = ""
    """Only runs that the subject with this mark may see; empty for all."""
    by_subject: frozenset[str] | None = frozenset()
    """With a viewer: agents whose runs are left out unless they say who may see them; None for all agents."""
    awaits: str = ""
    """Only runs whose oldest wait has an id with this prefix."""
    only_sessions: bool = False
    """Only conversations that a `Session` finds by its ids: not their forks."""
    text: str = ""
    """Only runs with this text in the beginning of their message or in their starter's name, ignoring case, or at the
    beginning of their id or session.
    """
    until: datetime | None = None
    """Only runs that started before this moment."""
    ended_since: datetime | None = None
    """Only runs that ended at this moment or later."""

    @property
    def query(self) -> str:
        """The query of the store, which may find more."""
        clauses = ["WorkflowType = 'AgentRun'"]
        if self.since:
            clauses.append(f"StartTime >= '{self.since.astimezone(UTC).isoformat()}'")
        if self.until:
            clauses.append(f"StartTime < '{self.until.astimezone(UTC).isoformat()}'")
        if self.ended_since:
            clauses.append(f"CloseTime >= '{self.ended_since.astimezone(UTC).isoformat()}'")
        if not self.children:
            clauses.append("ParentWorkflowId IS NULL")
        if self.agent_id:
            clauses.append(f"SojournAgent = {query_literal(self.agent_id)}")
        if self.session_id:
            clauses.append(f"SojournSession = {query_literal(self.session_id)}")
        elif self.only_sessions:
            clauses.append("SojournSession IS NOT NULL")
        if self.fork_of:
            clauses.append(f"SojournForkOf = {query_literal(self.fork_of)}")
        if self.tenant is not None:
            clauses.append(
                f"SojournTenant = {query_literal(self.tenant)}" if self.tenant else "SojournTenant IS NULL"
            )
        return " AND ".join([*clauses, *self._viewer_queries, self._in_status])

    @property
    def _in_status(self) -> str:
        if not self.status:
            return "ExecutionStatus != 'ContinuedAsNew'"
        if which := _BY_AWAITING.get(self.status):
            return f"SojournAwaiting {which} AND ExecutionStatus = 'Running'"
        if which := _BY_GIVING_UP.get(self.status):
            return f"SojournGaveUp {which} AND ExecutionStatus = 'Completed'"
        return f"ExecutionStatus = {query_literal(_visibility_name(self.status))}"

    @property
    def _viewer_queries(self) -> list[str]:
        """The runs that the viewer may see. Child runs have their parents' marks."""
        awaits = [f"SojournAwaiting STARTS_WITH {query_literal(self.awaits)}"] if self.awaits else []
        if not self.viewer:
            return awaits
        marked = f"SojournVisibleTo = {query_literal(self.viewer)}"
        if self.by_subject is None:
            return [*awaits, marked]
        agents = ", ".join(query_literal(agent_id) for agent_id in sorted(self.by_subject))
        others = f" AND SojournAgent NOT IN ({agents})" if agents else ""
        return [*awaits, f"({marked} OR (SojournVisibleTo IS NULL{others}))"]

    @property
    def is_exact(self) -> bool:
        """Whether every run that the query finds belongs to the selection."""
        return self.since is None and not self.only_sessions and not self.text

    @property
    def query_of_ids(self) -> str:
        """The query for the runs whose id or session begins with the text."""
        begin = f"STARTS_WITH {query_literal(self.text)}"
        return f"{self.query} AND (WorkflowId {begin} OR SojournSession {begin})"

    def is_of_ids(self, run: RunStatus) -> bool:
        return run.run_id.startswith(self.text) or run.session_id.startswith(self.text)

    def takes(self, run: RunStatus, asked: str = "", by: str = "") -> bool:
        """Return whether a run that the query found belongs to the selection.

        The store selects by the start of the last execution, and does not know which runs are
        conversations.
        """
        if self.since and (run.started_at is None or run.started_at < self.since):
            return False
        text = self.text.casefold()
        if text and text not in asked.casefold() and text not in by.casefold():
            return False
        return not self.only_sessions or is_conversation(run.run_id, run.agent_id, run.session_id)


async def find_runs(client: Client, selection: Selection, limit: int | None) -> AsyncGenerator[RunStatus]:
    """Yield the runs of a selection, with the fields that the store has."""
    left = limit
    try:
        found = client.list_workflows(selection.query, limit=limit if selection.is_exact else None)
        async for each in found:
            run = await run_of(each)
            if not selection.takes(run):
                continue
            if left is not None and (left := left - 1) < 0:
                return
            yield run
    except RPCError as error:
        raise translate_error(error, None) from error


async def find_waiting(client: Client, selection: Selection, most: int) -> tuple[dict[str, str], bool]:
    """Return the oldest wait of each waiting run by its id, and whether these are all.

    The store has to know the selection by itself: no memo is read, which would take longer than all else.
    """
    waiting = replace(selection, status="waiting")
    assert waiting.is_exact, "the store does not know this selection"
    found: dict[str, str] = {}
    try:
        async for run in client.list_workflows(waiting.query, page_size=WAITING_PAGE):
            if len(found) == most:
                return found, False
            found[run.id] = run.typed_search_attributes.get(search_attributes.AWAITING) or ""
    except RPCError as error:
        raise translate_error(error, None) from error
    return found, True


async def newest_of(found: AsyncGenerator[RunStatus], most: int) -> tuple[list[RunStatus], bool]:
    """Return the first runs of a list, and whether there are more."""
    runs: dict[str, RunStatus] = {}
    async with aclosing(found):
        async for run in found:
            if len(runs) == most and run.run_id not in runs:
                return list(runs.values()), True
            runs.setdefault(run.run_id, run)  # a run that continues as new is listed several times
    return list(runs.values()), False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the runs of a selection, with the token of the next one."""

    runs: list[RunStatus]
    after: bytes | None
    """The store's token of the next page, or None after the last page."""
    asked: Mapping[str, str]
    """The beginning of each run's message, by run id; empty if it cannot be read here."""


async def page_of(
    client: Client, selection: Selection, labels: Mapping[str, str], most: int, after: bytes | None
) -> Page:
    """Return a page of the runs of a selection.

    It may have fewer than `most` runs even if others follow, since the store does not know all the
    filters.
    """
    runs: list[RunStatus] = []
    asked: dict[str, str] = {}
    try:
        first, asked_first = await _by_ids(client, selection) if selection.text and not after else ([], {})
        found = client.list_workflows(selection.query, page_size=most, next_page_token=after)
        for _ in range(MAX_PAGES_OF_TEXT if selection.text else MAX_PAGES):
            await found.fetch_next_page()
            page = found.current_page or ()
            asked = {each.id: await message_of(each) for each in page} | asked_first
            listed = [(await run_of(each), await _memo_of(each, STARTED_BY)) for each in page]
            runs = [run for run, by in listed if selection.takes(run, asked[run.run_id], by)]
            if selection.text:
                runs = [*first, *(run for run in runs if not selection.is_of_ids(run))]
            if labels:
                runs = [run async for run in with_labels(client, each_of(runs), labels)]
            if runs or not found.next_page_token:
                break
        return Page(runs, found.next_page_token or None, {run.run_id: asked[run.run_id] for run in runs})
    except RPCError as error:
        raise translate_error(error, None) from error


async def _by_ids(client: Client, selection: Selection) -> tuple[list[RunStatus], dict[str, str]]:
    """Return the newest runs whose id or session begins with the text.

    With them comes the beginning of each one's message.
    """
    found = [each async for each in client.list_workflows(selection.query_of_ids, limit=MAX_BY_IDS)]
    runs = [await run_of(each) for each in found]
    taken = [run for run in runs if replace(selection, text="").takes(run)]
    return taken, {each.id: await message_of(each) for each in found}


async def count_of(client: Client, selection: Selection) -> int:
    """Return the number of runs that the store finds for a selection.

    Raises as `page_of`.
    """
    try:
        return (await client.count_workflows(selection.query)).count
    except RPCError as error:
        raise translate_error(error, None) from error


async def each_of(runs: Iterable[AnyRun]) -> AsyncGenerator[AnyRun]:
    for run in runs:
        yield run


async def describe_run(client: Client, run_id: str) -> WorkflowExecutionDescription:
    """Return a run as Temporal describes it.

    Raises:
        RunNotFound: There is no such run.
    """
    try:
        found = await client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        raise translate_error(error, run_id) from error
    if found.workflow_type != AGENT_RUN:
        raise not_found(run_id)
    return found


async def run_of(found: WorkflowExecution) -> RunStatus:
    """Return a run with the fields that the store has."""
    attributes = found.typed_search_attributes
    origin = attributes.get(search_attributes.FORK_OF)
    return RunStatus(
        run_id=found.id,
        agent_id=attributes.get(search_attributes.AGENT) or "",
        session_id=attributes.get(search_attributes.SESSION) or "",
        tenant=attributes.get(search_attributes.TENANT) or "",
        forked_from=ForkedFrom(run_id=origin, event_id="") if origin else None,
        status=_status_of(found),
        awaiting="" if found.close_time else attributes.get(search_attributes.AWAITING) or "",
        gave_up=limit_of_end(found),
        started_at=await start_of(found),
        closed_at=found.close_time,
    )


def _status_of(found: WorkflowExecution) -> str:
    status = status_name(found.status)
    awaiting = found.typed_search_attributes.get(search_attributes.AWAITING)
    if status != "running" or not awaiting:
        return status
    return {search_attributes.PAUSED: "paused", search_attributes.IDLE: "idle"}.get(awaiting, "waiting")


def query_literal(text: str) -> str:
    """Return a text as a quoted literal in a visibility query."""
    if "\0" in text:
        raise InvalidInput("a value to list by has no NUL character")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _visibility_name(status: str) -> str:
    return "".join(part.title() for part in status.split("_"))
