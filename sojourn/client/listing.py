"""Listing: runs and conversations from Temporal's visibility store, by what it knows of them."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from sojourn import search_attributes
from sojourn.client.conversation_id import is_conversation
from sojourn.client.labels import with_labels
from sojourn.client.memo import message_of, started_at_of
from sojourn.client.run import status_name
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.run import ForkedFrom, RunStatus
from sojourn.errors import InvalidInput

__all__ = ["Page", "Selection", "count_of", "listed", "page_of", "quoted"]

MAX_PAGES = 10
"""Most pages of the store that are read for one page with a run in it."""

MAX_PAGES_OF_TEXT = 20
"""The same where a text is looked for, which the store cannot."""

_BY_AWAITING = {
    "paused": f"= '{search_attributes.PAUSED}'",
    "idle": f"= '{search_attributes.IDLE}'",
    "waiting": f"IS NOT NULL AND SojournAwaiting != '{search_attributes.IDLE}'",
}
"""Statuses of open runs that the store knows by `SojournAwaiting`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs are listed; each argument is as that of `Client.list_runs`."""

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
    """With a viewer: agents of which runs that do not say who may see them are left out; None for all agents."""
    awaits: str = ""
    """Only runs of which the oldest wait has an id that begins so."""
    only_sessions: bool = False
    """Only conversations that a `Session` finds by its ids: not their forks."""
    text: str = ""
    """Only runs whose message has this text, in capitals or not; the store has the beginning of each message."""

    @property
    def query(self) -> str:
        """The query of the store, which may find more."""
        clauses = ["WorkflowType = 'AgentRun'"]
        if self.since:
            clauses.append(f"StartTime >= '{self.since.astimezone(UTC).isoformat()}'")
        if not self.children:
            clauses.append("ParentWorkflowId IS NULL")
        if self.agent_id:
            clauses.append(f"SojournAgent = {quoted(self.agent_id)}")
        if self.session_id:
            clauses.append(f"SojournSession = {quoted(self.session_id)}")
        elif self.only_sessions:
            clauses.append("SojournSession IS NOT NULL")
        if self.fork_of:
            clauses.append(f"SojournForkOf = {quoted(self.fork_of)}")
        if self.tenant is not None:
            clauses.append(
                f"SojournTenant = {quoted(self.tenant)}" if self.tenant else "SojournTenant IS NULL"
            )
        clauses += self._seen
        if which := _BY_AWAITING.get(self.status or ""):
            clauses.append(f"SojournAwaiting {which} AND ExecutionStatus = 'Running'")
        elif self.status:
            clauses.append(f"ExecutionStatus = {quoted(_visibility_name(self.status))}")
        else:
            clauses.append("ExecutionStatus != 'ContinuedAsNew'")
        return " AND ".join(clauses)

    @property
    def _seen(self) -> list[str]:
        """The clauses of the runs that the viewer may see; child runs, which have the marks of their parents, too."""
        awaits = [f"SojournAwaiting STARTS_WITH {quoted(self.awaits)}"] if self.awaits else []
        if not self.viewer:
            return awaits
        marked = f"SojournVisibleTo = {quoted(self.viewer)}"
        if self.by_subject is None:
            return [*awaits, marked]
        agents = ", ".join(quoted(agent_id) for agent_id in sorted(self.by_subject))
        others = f" AND SojournAgent NOT IN ({agents})" if agents else ""
        return [*awaits, f"({marked} OR (SojournVisibleTo IS NULL{others}))"]

    @property
    def is_exact(self) -> bool:
        """Whether all that the query finds is wanted."""
        return self.since is None and not self.only_sessions

    def takes(self, run: RunStatus, asked: str = "") -> bool:
        """Whether a run that the query found is wanted: the store selects by the start of the last execution, and knows no conversations."""
        if self.since and (run.started_at is None or run.started_at < self.since):
            return False
        if self.text.casefold() not in asked.casefold():
            return False
        return not self.only_sessions or is_conversation(run.run_id, run.agent_id, run.session_id)


async def listed(client: Client, selection: Selection, limit: int | None) -> AsyncGenerator[RunStatus]:
    """The runs of a selection, with the fields that the store has.

    Raises:
        ServerUnavailable: The server does not answer.
        InvalidInput: The search attributes are not registered on this server.
    """
    left = limit
    try:
        found = client.list_workflows(selection.query, limit=limit if selection.is_exact else None)
        async for each in found:
            run = await _run_of(each)
            if not selection.takes(run):
                continue
            if left is not None and (left := left - 1) < 0:
                return
            yield run
    except RPCError as error:
        if search_attributes.is_unknown(error):
            raise InvalidInput(search_attributes.HOW_TO_REGISTER) from error
        raise translated(error, None) from error


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the runs of a selection, and where the next ones begin."""

    runs: list[RunStatus]
    after: bytes | None
    """The store's token of the next page; None where there is none."""
    asked: Mapping[str, str]
    """By run, the beginning of its message; empty where nobody can read it here."""


async def page_of(
    client: Client, selection: Selection, labels: Mapping[str, str], most: int, after: bytes | None
) -> Page:
    """A page of the runs of a selection; it may have fewer than `most` though others follow, since the store does not know all that is selected by.

    Args:
        client: The client.
        selection: The selection.
        labels: The labels that a run needs.
        most: Most runs of the page.
        after: The token of the page before.

    Raises:
        ServerUnavailable: The server does not answer.
        InvalidInput: The search attributes are not registered on this server; or the token is not one of the store's.
    """
    runs: list[RunStatus] = []
    asked: dict[str, str] = {}
    try:
        found = client.list_workflows(selection.query, page_size=most, next_page_token=after)
        for _ in range(MAX_PAGES_OF_TEXT if selection.text else MAX_PAGES):
            await found.fetch_next_page()
            page = found.current_page or ()
            asked = {each.id: await message_of(each) for each in page}
            listed = [await _run_of(each) for each in page]
            runs = [run for run in listed if selection.takes(run, asked[run.run_id])]
            if labels:
                runs = [run async for run in with_labels(client, _each(runs), labels)]
            if runs or not found.next_page_token:
                break
        return Page(runs, found.next_page_token or None, {run.run_id: asked[run.run_id] for run in runs})
    except RPCError as error:
        if search_attributes.is_unknown(error):
            raise InvalidInput(search_attributes.HOW_TO_REGISTER) from error
        raise translated(error, None) from error


async def count_of(client: Client, selection: Selection) -> int:
    """The number of runs that the store finds for a selection; raises as `page_of`."""
    try:
        return (await client.count_workflows(selection.query)).count
    except RPCError as error:
        if search_attributes.is_unknown(error):
            raise InvalidInput(search_attributes.HOW_TO_REGISTER) from error
        raise translated(error, None) from error


async def _each(runs: list[RunStatus]) -> AsyncGenerator[RunStatus]:
    for run in runs:
        yield run


async def _run_of(found: WorkflowExecution) -> RunStatus:
    attributes = found.typed_search_attributes
    origin = attributes.get(search_attributes.FORK_OF)
    return RunStatus(
        run_id=found.id,
        agent_id=attributes.get(search_attributes.AGENT) or "",
        session_id=attributes.get(search_attributes.SESSION) or "",
        forked_from=ForkedFrom(run_id=origin, event_id="") if origin else None,
        status=_status_of(found),
        awaiting="" if found.close_time else attributes.get(search_attributes.AWAITING) or "",
        started_at=await started_at_of(found),
        closed_at=found.close_time,
    )


def _status_of(found: WorkflowExecution) -> str:
    status = status_name(found.status)
    awaiting = found.typed_search_attributes.get(search_attributes.AWAITING)
    if status != "running" or not awaiting:
        return status
    return {search_attributes.PAUSED: "paused", search_attributes.IDLE: "idle"}.get(awaiting, "waiting")


def quoted(text: str) -> str:
    """A text as a quoted literal in a visibility query.

    Raises:
        InvalidInput: It has a NUL, where a store takes a query to end.
    """
    if "\0" in text:
        raise InvalidInput("what is listed by has no NUL character")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _visibility_name(status: str) -> str:
    return "".join(part.title() for part in status.split("_"))
