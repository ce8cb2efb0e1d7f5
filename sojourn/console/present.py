"""Present: a run as it is now, from one reading of its present execution, however many came before and whatever its page shows of it."""

import asyncio
from dataclasses import dataclass

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from sojourn.client.listing import message_of
from sojourn.client.run import status_name
from sojourn.client.stuck import Stuck, stuck_of
from sojourn.connection.rpc_errors import OutageRetry, is_page_outdated, translated
from sojourn.console.views.about_run import AboutRun
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_in, place_of
from sojourn.contracts.run import RunStatus
from sojourn.core.history.fold import Fold
from sojourn.events.one_run import records_of
from sojourn.http.service import Service
from sojourn.timeline import Spent, Timeline

__all__ = ["PresentRun", "may_be_stuck", "present_run"]


@dataclass(frozen=True, slots=True)
class PresentRun:
    """What is known of a run."""

    timeline: Timeline
    earlier: str
    """Where the part of the run before the timeline ends; empty where the timeline begins with the run."""
    status: RunStatus
    about: AboutRun
    stuck: Stuck | None
    """Why it does not go on; None where it does."""


async def present_run(service: Service, run_id: str, *, most: int) -> PresentRun:
    """A run as it is now.

    Args:
        service: The service.
        run_id: The run.
        most: Most entries of the timeline.

    Raises:
        RunNotFound: There is no such run.
        RunUnreadable: The run's records cannot be decoded here.
        ServerUnavailable: The server does not answer.
    """
    try:
        described = await service.client.temporal.get_workflow_handle(run_id).describe()
        (fold, events), asked = await asyncio.gather(
            _read(service, run_id, described.run_id), message_of(described)
        )
    except RPCError as error:
        raise translated(error, run_id) from error
    timeline = Timeline(run_id, most)
    for event in events:
        timeline.feed(event)
    began = place_of(events[0].event_id)[0] if events else 0
    if began:
        timeline.spent = Spent.of(fold.totals())
    is_known = timeline.is_over and described.status != WorkflowExecutionStatus.RUNNING
    status = _ended(fold, described) if is_known else await service.client.get_run(run_id).status()
    about = AboutRun(asked, fold.state.opening.labels, described.run_id)
    stuck = await stuck_of(service.client, described) if may_be_stuck(status) else None
    return PresentRun(timeline, place_in(began, 0) if began else "", status, about, stuck)


def may_be_stuck(status: RunStatus) -> bool:
    """Whether a run is to go on by itself: nobody is waited for."""
    return status.status == "running" and not (status.awaits or status.child_awaits)


async def _read(service: Service, run_id: str, execution: str) -> tuple[Fold, list[Event]]:
    """The fold of an execution and of those that continue it meanwhile, and their events."""
    outage = OutageRetry()
    while True:
        fold, found = Fold(run_id), list[Event]()
        try:
            async for _, events in records_of(service.client.temporal, fold, execution, follow=False):
                found += events
            return fold, found
        except RPCError as error:
            if not (is_page_outdated(error) and await outage.may_retry(error)):
                raise


def _ended(fold: Fold, described: WorkflowExecutionDescription) -> RunStatus:
    """The status of a run that has ended, as `Run.status` has it."""
    found = fold.status()
    more = {"status": status_name(described.status), "closed_at": described.close_time}
    return found.model_copy(update={**more, "started_at": found.started_at or described.start_time})
