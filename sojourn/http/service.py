"""Start, fork, list and find runs for a principal, with access checks.

`Backend` has the connection behind it.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from temporalio.client import WorkflowExecutionDescription

from sojourn.attachments import MAX_ORIGINS, attachments_in, is_schedule, runs_read_by
from sojourn.authoring.app import App
from sojourn.client.bulk import MOST_FORKS, Retried, retry_once
from sojourn.client.client import Client
from sojourn.client.forking import MISSING, ForkReview, fork_id
from sojourn.client.listing import Selection, describe_run
from sojourn.client.quotas import quota_fault, read_quota_use
from sojourn.client.run import Run
from sojourn.client.sending import not_found, run_ended
from sojourn.client.session import Session
from sojourn.client.start import LOWEST_PRIORITY, USUAL_PRIORITY, is_start_of, validate_input
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent, MessageReceivedEvent, wait_in
from sojourn.contracts.principal import Principal, mark_of
from sojourn.contracts.quota import QuotaUse
from sojourn.contracts.run import ScheduleStatus
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.errors import (
    ArtifactNotFound,
    DefinitionError,
    InvalidInput,
    NoWorker,
    RunAlreadyExists,
    RunNotFound,
    RunUnreadable,
)
from sojourn.events.one_run import events_of
from sojourn.http.backend import Backend
from sojourn.http.bodies import ForkBody, StartBody
from sojourn.http.security import audit
from sojourn.http.security.limits import heavy_read
from sojourn.http.security.tenancy import View, may_look_at, may_see, run_id_for, view_of
from sojourn.reader import (
    Cache,
    FoundWait,
    FoundWaits,
    ListedRun,
    RecentSpending,
    Runs,
    Sight,
    StuckRuns,
    WaitingRuns,
    listed_run,
)
from sojourn.timeline import WaitEnd

__all__ = ["SeenDecisions", "Service"]

EVERY_RUN = Selection()

MAX_TENANTS = 1_000
"""Most tenants whose use of a quota is cached."""

QUOTA_FRESH = 0.5
"""Seconds for which it is cached."""

MAX_RUNS = 1_000
"""Most runs whose files are cached, since a page loads several of one run."""


class SeenDecisions(NamedTuple):
    """The decisions in a run that a principal may see."""

    decisions: list[WaitEnd]
    is_whole: bool
    """Whether all of the run's events were read."""
    is_hidden: bool
    """Whether the principal may not see the run, but only these decisions."""


class Service(Backend):
    """Decides what a principal may start and see.

    Every access check of the HTTP service is here.

    Args:
        app: The app, whose agents are the catalogue.
        client: The client. If None, the service makes its own from the standard settings.
        temporal_ui: The address of Temporal's UI.
        prefix: The prefix of all paths.

    Raises:
        DefinitionError: The address of Temporal's UI is not that of a web page.
    """

    def __init__(
        self, app: App, client: Client | None = None, temporal_ui: str | None = None, prefix: str = ""
    ) -> None:
        super().__init__(app, client)
        self.origins: Sequence[str] = ()
        """Origins whose pages may use the service."""
        self.has_pages = False
        """Whether the console is there."""
        self._temporal_ui = _page_address(temporal_ui) if temporal_ui else ""
        self._quotas: Cache[str, QuotaUse] = Cache(MAX_TENANTS, QUOTA_FRESH)
        self._files: Cache[str, dict[str, AttachmentRecord]] = Cache(MAX_RUNS)
        self.prefix = prefix
        """The prefix of all paths of the service."""

    # Starting and forking runs.

    async def quota_use(self, asking: Principal) -> QuotaUse:
        """Return how much of its quota the principal's tenant uses.

        Raises:
            NoWorker: No worker answers for it.
        """
        quota = self.app.tenants.quota_of(asking.tenant) if self.app.tenants else None
        if quota is None:
            return QuotaUse()

        async def read() -> QuotaUse:
            return await read_quota_use(self.client.temporal, self.app.name, asking.tenant, quota)

        return await self._quotas.get(asking.tenant, read)

    async def _check_quota(self, asking: Principal, run_id: str | None) -> None:
        # Only runs that could neither begin nor wait are refused here. One that slips through is refused by its worker.
        # A request that comes again gets the run that it has started.
        with suppress(NoWorker):
            fault = quota_fault(await self.quota_use(asking), asking.tenant)
            if fault and (run_id is None or await self._describe(run_id) is None):
                raise fault

    async def start(self, asking: Principal, body: StartBody, run_id: str | None) -> Run:
        """Start a run for the principal, as `Client.start` does.

        Raises:
            TenantQuotaExceeded: Its tenant has no place for the run, which may not wait for one.
            InvalidInput: The priority is for principals without a tenant: it would go before the work of other tenants.
        """
        chosen = self.choose_run_id(asking, run_id)
        await self._check_quota(asking, chosen)
        if asking.tenant and body.priority is not None and body.priority < USUAL_PRIORITY:
            raise InvalidInput(
                f"priority: a principal of a tenant chooses {USUAL_PRIORITY} to {LOWEST_PRIORITY}"
            )
        return await self.client.start(
            body.agent_id,
            body.opening,
            run_id=chosen,
            session_id=body.session_id,
            labels=body.labels,
            policy=body.policy,
            principal=asking,
            visibility=self.app.visibility_of(body.agent_id),
            priority=body.priority,
            attachments=body.attachments,
        )

    async def attachment(
        self, asking: Principal, run_id: str, attachment_id: str
    ) -> tuple[AttachmentRecord, AsyncGenerator[bytes]]:
        """Return a file of a run that the principal may see, and its content in chunks.

        Raises:
            ArtifactNotFound: The run has no such attachment, it was deleted, or it is of an origin that the principal may not see.
        """
        run = await self.run(asking, run_id)
        file = await self._file_of(run, attachment_id)
        if file is None:
            raise ArtifactNotFound(f"run {run.id} has no attachment {attachment_id[:100]}", run_id=run.id)
        stored, runs = self.client.attachments, runs_read_by(run.id)
        owner = await stored.owner_of(file)
        if owner not in runs:
            try:
                await self._check_owner(asking, run, owner)
            except RunNotFound as error:
                raise ArtifactNotFound(
                    f"run {run.id} has no attachment {attachment_id[:100]}", run_id=run.id
                ) from error
        return file, stored.read(file, {owner})

    async def _check_owner(self, asking: Principal, fork: Run, owner: str) -> None:
        """Raise RunNotFound unless the principal may see whose a fork's file is.

        The files of a schedule are those of each run that it started.
        """
        if not is_schedule(owner):
            await self.run(asking, owner)
            return
        run = fork
        for _ in range(MAX_ORIGINS):
            origin = (await run.status()).forked_from
            if origin is None:
                break
            run = await self.run(asking, origin.run_id)
            if owner in runs_read_by(run.id):
                return
        raise RunNotFound(f"no origin of {fork.id} has files of {owner}", run_id=fork.id)

    async def _file_of(self, run: Run, attachment_id: str) -> AttachmentRecord | None:
        """Return a file of a run, which has it for good once it has it."""
        found = self._files.peek(run.id) or {}
        if attachment_id in found:
            return found[attachment_id]
        async with heavy_read():
            found = {**found, **attachments_in(await run.transcript())}  # it may have had another branch
            if attachment_id not in found and (await run.status()).queued:
                events = run.events(follow=False)
                waiting = [event.message async for event in events if isinstance(event, MessageReceivedEvent)]
                found |= attachments_in(waiting)
        self._files.put(run.id, found)
        return found.get(attachment_id)

    async def fork(self, asking: Principal, run: Run, body: ForkBody, *, result: Any) -> Run:
        """Fork a run that the principal may see, as `Client.fork` does."""
        return await self._fork(asking, run, body, result, self.choose_run_id(asking, body.run_id))

    async def _fork(
        self, asking: Principal, run: Run, body: ForkBody, result: Any, new_run_id: str | None
    ) -> Run:
        return await self.client.fork(
            run.id,
            at=body.at,
            message=body.message,
            result=result,
            answer=body.answer,
            approve=body.approve,
            arguments=body.arguments,
            by=asking.subject,
            new_run_id=new_run_id,
            principal=asking,
            app=self.app,
            review=_audit_fork,
        )

    async def fork_once(self, asking: Principal, run: Run, body: ForkBody, *, result: Any, made: str) -> Run:
        """Fork a run, or return the fork that the same form has made.

        The fork's id is derived from `made`, the idempotency token of the form, and from the content of the form, which chooses no id.
        """
        parts = [asking.tenant, asking.subject, run.id, made, body.model_dump(mode="json")]
        if result is not MISSING:
            parts.append({"result": result})
        new_id = fork_id(await run.status(), *parts)
        try:
            return await self._fork(asking, run, body, result, new_id)
        except RunAlreadyExists:
            return await self.run(asking, new_id)

    async def retry_once(self, asking: Principal, run: Run) -> Retried:
        """Continue a run, as `sojourn.client.bulk.retry_once` does."""

        async def find(since: datetime | None) -> list[str]:
            forks = await self.runs(asking, Selection(fork_of=run.id, since=since), most=MOST_FORKS)
            return [fork.run_id for fork in forks.runs]

        async def fork(new_id: str) -> Run:
            return await self.client.fork(
                run.id, by=asking.subject, new_run_id=new_id, principal=asking, app=self.app
            )

        return await retry_once(run, find=find, fork=fork)

    def choose_run_id(self, asking: Principal, run_id: str | None) -> str | None:
        """Return `chosen_id` of the id that a request chooses, or None without one."""
        return None if run_id is None else run_id_for(asking, run_id)

    # Visibility: only the methods below check which principal may see which run.

    async def has_started(self, asking: Principal, run_id: str, body: StartBody) -> bool:
        """Return whether this request has already started a run of the principal."""
        await self.run(asking, run_id)
        same = validate_input(
            run_id,
            agent_id=body.agent_id,
            messages=await self.client.opening_of(
                body.opening, body.attachments, run_id=run_id, principal=asking
            ),
            session_id=body.session_id,
            labels=body.labels,
            policy=body.policy,
            principal=asking,
        )
        return await is_start_of(self.client.temporal, run_id, same)

    async def run(self, asking: Principal, run_id: str) -> Run:
        """Return the run of this id if the principal may see it.

        For any other run, the error is the same as for one that does not exist: `RunNotFound`.
        """
        run = self.client.get_run(run_id)
        await self._describe_seen(asking, run.id)
        return run

    async def open_run(self, asking: Principal, run_id: str, what: str) -> Run:
        """Return an open run that the principal may see.

        Args:
            asking: The principal.
            run_id: The run.
            what: What is to be done with it, such as `pause`.

        Raises:
            RunEnded: There is nothing to do.
        """
        run = await self.run(asking, run_id)
        status = await run.status()
        if not status.is_open:
            raise run_ended(run.id, status.status, what)
        return run

    async def listed_run(self, asking: Principal, run_id: str) -> ListedRun:
        """Return the run of this id as lists have it, without its worker. Raises as `run`."""
        return await listed_run(await self._describe_seen(asking, self.client.get_run(run_id).id))

    async def _describe_seen(self, asking: Principal, run_id: str) -> WorkflowExecutionDescription:
        described = await self._describe(run_id)
        if described is None or not await self._may_see(view_of(asking), described):
            raise not_found(run_id)
        return described

    async def run_with_wait(self, asking: Principal, run_id: str, await_id: str) -> Run:
        """Return the run of this id, to show one of its waits and answer it.

        A principal that may not see the run gets it if it may see this wait, because it may decide on it, or could have.
        """
        try:
            return await self.run(asking, run_id)
        except RunNotFound:
            if not (view_of(asking).deciding and await self._shows_wait(asking, run_id, await_id)):
                raise
            return self.client.get_run(run_id)

    async def _shows_wait(self, asking: Principal, run_id: str, await_id: str) -> bool:
        """Return whether the principal sees this wait of its tenant, open or closed."""
        described = await self._describe(run_id)
        if described is None or not await may_see(View(asking.tenant), described, self.app):
            return False
        waiting = await self.reader.waits.of_run(run_id)
        if wait := waiting.wait(await_id) if waiting else None:
            return may_look_at(asking, wait)
        temporal, storage = self.client.temporal, self.client.storage
        call: AwaitConfirmation | None = None
        async for event in events_of(temporal, run_id, storage, follow=False):
            opened_wait = wait_in(event)
            if isinstance(opened_wait, AwaitConfirmation) and opened_wait.id == await_id:
                call = opened_wait
            if isinstance(event, AwaitAnsweredEvent) and event.await_id == await_id:
                return may_look_at(asking, call, event)
        return call is not None and may_look_at(asking, call)

    async def _describe(self, run_id: str) -> WorkflowExecutionDescription | None:
        """Return a run as Temporal describes it, or None if there is none."""
        try:
            return await describe_run(self.client.temporal, run_id)
        except RunNotFound:
            return None

    async def _may_see(self, view: View, described: WorkflowExecutionDescription) -> bool:
        """Return whether a view includes a run. A child run is visible if the root run is."""
        seen = await may_see(view, described, self.app)
        if seen is False and view.viewer and described.root_id not in (None, described.id):
            seen = None
        if seen is not None:
            return seen
        if described.root_id not in (None, described.id):
            root = await self._describe(described.root_id)
            return root is not None and await self._may_see(view, root)
        # It began before its agent's runs became visible to their subjects only, or has no plan yet.
        status = await self.client.get_run(described.id).status()
        return status.principal is not None and mark_of(status.principal) == view.viewer

    async def runs(
        self,
        asking: Principal,
        selection: Selection,
        *,
        labels: Mapping[str, str] | None = None,
        most: int,
        cursor: str | None = None,
        fresh: float = 0.0,
    ) -> Runs:
        """Return a page of the runs that the principal may see, as `Reader.runs` does."""
        seen = self._restrict(selection, view_of(asking))
        return await self.reader.runs(seen, labels, most=most, cursor=cursor, fresh=fresh)

    async def find_stuck(
        self,
        asking: Principal,
        selection: Selection = EVERY_RUN,
        labels: Mapping[str, str] | None = None,
    ) -> StuckRuns:
        """Return the stuck ones among the newest runs that the principal may see."""
        return await self.reader.find_stuck(self._restrict(selection, view_of(asking)), labels)

    async def list_decided_runs(
        self, asking: Principal, selection: Selection, *, most: int, cursor: str | None
    ) -> Runs:
        """Return a page of the runs whose decisions a principal may see.

        A principal that decides on calls gets all runs of its tenant. In those that it may not see (`may_see`), it sees
        only the waits that `may_look_at` allows.
        """
        view = view_of(asking)
        view = View(asking.tenant) if view.deciding else view
        return await self.reader.runs(self._restrict(selection, view), most=most, cursor=cursor)

    async def decisions(self, asking: Principal, run_id: str) -> SeenDecisions:
        """Return the decisions in a run of `decided_runs` that the principal may see.

        Of a run that cannot be read, there are none. Raises ServerUnavailable.
        """
        view = view_of(asking)
        is_hidden = bool(view.deciding)
        try:
            described = await self._describe(run_id)
            if described is None:
                return SeenDecisions([], is_whole=False, is_hidden=is_hidden)
            is_hidden = is_hidden and not await self._may_see(view, described)
            found = await self.reader.decisions(described)
        except (RunNotFound, RunUnreadable):
            return SeenDecisions([], is_whole=False, is_hidden=is_hidden)
        seen = [
            each
            for each in found.decisions
            if not is_hidden
            or may_look_at(
                asking, each.wait if isinstance(each.wait, AwaitConfirmation) else None, each.event
            )
        ]
        return SeenDecisions(seen, found.is_whole, is_hidden)

    def _sight(self, asking: Principal) -> Sight:
        """Return what the principal sees of waiting runs.

        A principal that decides on calls sees those calls of runs that it may not see.
        """
        view = view_of(asking)
        tenant = partial(self._restrict, view=View(asking.tenant)) if view.deciding else None
        return Sight(view, partial(self._restrict, view=view), tenant, partial(may_look_at, asking))

    async def waiting_runs(self, asking: Principal, selection: Selection) -> WaitingRuns:
        """Return the waiting runs that the principal may see, as `WaitingLists.runs` does."""
        return await self._waits.runs(self._sight(asking), selection)

    async def waits(
        self,
        asking: Principal,
        selection: Selection,
        *,
        fits: Callable[[FoundWait], bool],
        newest: bool,
        most: int,
        cursor: str | None,
        patience: float | None = None,
    ) -> FoundWaits:
        """Return the open waits that the principal may see, as `WaitingLists.page` does."""
        sight = self._sight(asking)
        return await self._waits.page(
            sight, selection, fits=fits, newest=newest, most=most, cursor=cursor, patience=patience
        )

    async def count(self, asking: Principal, selection: Selection, *, fresh: float = 0.0) -> int:
        """Return how many runs of a selection the principal may see."""
        return await self.reader.count(self._restrict(selection, view_of(asking)), fresh=fresh)

    async def recent_spending(self, asking: Principal, *, patience: float) -> RecentSpending | None:
        """Return what runs used that the principal may see, as `SpendingReader.recent`."""
        return await self._spending.recent(self._restrict(Selection(), view_of(asking)), patience=patience)

    async def schedules(self, asking: Principal) -> Sequence[ScheduleStatus]:
        """Return the schedules, the next ones first, as `Reader.schedules` does.

        A schedule has no tenant and no viewers, so only an operator without a tenant sees them.
        """
        if not self.sees_deployment(asking) or view_of(asking).viewer:
            return ()
        return await self.reader.schedules()

    def _restrict(self, selection: Selection, view: View) -> Selection:
        return replace(selection, tenant=view.tenant, viewer=view.viewer, by_subject=self.app.subject_agents)

    async def count_waiting(self, asking: Principal, selection: Selection, *, fresh: float = 0.0) -> int:
        """Return the number of runs that wait for an answer, including child runs."""
        return await self._waits.count(self._sight(asking), selection, fresh=fresh)

    async def waiting_count(self, asking: Principal) -> int | None:
        """Return the count beside the inbox, or None without one of the last minute."""
        return await self._waits.recent_count(self._sight(asking))

    def note_answered(self, asking: Principal) -> None:
        """Count one waiting run less, before the store reflects the answer."""
        self._waits.note_answered(self._sight(asking))

    def execution_url(self, asking: Principal, workflow_id: str, execution: str) -> str:
        """Return the URL of an execution in Temporal's UI.

        Empty without a UI, or if the principal may not see the deployment.
        """
        if not self._temporal_ui or not self.sees_deployment(asking):
            return ""
        namespace = quote(self.client.temporal.namespace, safe="")
        place = "/".join(quote(each, safe="") for each in (workflow_id, execution) if each)
        return f"{self._temporal_ui}/namespaces/{namespace}/workflows/{place}"

    def sees_deployment(self, asking: Principal) -> bool:
        """Return whether the principal may see what all tenants share."""
        return not asking.tenant

    async def conversation(self, asking: Principal, agent_id: str, session_id: str) -> Run:
        """Return the run of a conversation, if the principal may see it."""
        return (await self.known_session(asking, agent_id, session_id)).run

    async def known_session(self, asking: Principal, agent_id: str, session_id: str) -> Session:
        """Return a handle of a conversation that exists, if the principal may see it."""
        session = self.client.session(agent_id, session_id, principal=asking)
        await self.run(asking, session.run.id)
        return session

    async def session(
        self,
        asking: Principal,
        agent_id: str,
        session_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        policy: RunPolicyOverride | None = None,
    ) -> Session:
        """Return a handle for messages to a conversation, which may not exist yet.

        Another principal may begin it before the handle's first message arrives. The run refuses that message then. A caller
        that reads the run, or answers it, before a message of the principal was accepted has to call `run` first.
        """
        session = self.client.session(
            agent_id,
            session_id,
            labels=labels,
            policy=policy,
            principal=asking,
            visibility=self.app.visibility_of(agent_id),
        )
        described = await self._describe(session.run.id) if view_of(asking).viewer else None
        if described is not None and not await self._may_see(view_of(asking), described):
            raise not_found(session.run.id)
        return session


def _page_address(url: str) -> str:
    """Return the address of a web page, as a prefix of links."""
    try:
        parts = urlsplit(url)
        is_page = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_page = is_page and not (parts.query or parts.fragment or " " in url) and url.isprintable()
    except ValueError:
        is_page = False
    if not is_page:
        raise DefinitionError(
            f"the address of Temporal's UI is an http or https URL, such as https://temporal.example.org, not {url!r}"
        )
    return url.rstrip("/")


async def _audit_fork(fork: ForkReview) -> None:
    """Record a fork's changes and digests in the audit log, which has no bodies."""
    left_out = {"given"}  # the audit log has no bodies
    changes = [
        each.model_dump(mode="json", exclude_defaults=True, exclude=left_out) for each in fork.origin.changes
    ]
    audit.bind(run_id=fork.origin.run_id, fork=fork.run_id, **({"changes": changes} if changes else {}))
