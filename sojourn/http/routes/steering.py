"""Routes for an operator to steer a run.

They are `/v1/runs/{run_id}/pause`, `/resume`, `/cancel`, `/retry-now`, `/set-aside` and `/fork`; `/v1/runs/actions` takes
several runs.
"""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict

from sojourn.client.bulk import ACTIONS, BulkAction, BulkResult
from sojourn.client.forking import MISSING
from sojourn.client.setting_aside import is_plan_under_way
from sojourn.http.bodies import (
    NO_CHANGE,
    NO_NOTE,
    NO_REASON,
    ActionsBody,
    ForkBody,
    ReasonBody,
    ResumeBody,
    SetAsideBody,
)
from sojourn.http.bulk import act_on_runs
from sojourn.http.problems import ProblemDetails, problem_of
from sojourn.http.replies import Acknowledgement, RetryAcknowledgement, SetAsideAcknowledgement, Started
from sojourn.http.routes.parameters import KnownQueryRoute, RunId, Serving, json_of, problems
from sojourn.http.security.principals import Asking, require

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=KnownQueryRoute)


class ActionOutcome(BaseModel):
    """What came of an action on one run."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run_id: str
    """The run."""
    done: Literal["cancel_requested", "retried", "retried_now"] | None = None
    """What was done; null if the run was left as it is."""
    new_run_id: str | None = None
    """With `retried`: the run that continues it."""
    already: bool = False
    """With `retried`: whether `new_run_id` was there before, and no run was started."""
    attempts: int | None = None
    """With `retried_now`: attempts of a plan or of calls that begin now."""
    problem: ProblemDetails | None = None
    """Why the run was left as it is: the problem that a request of its own would have had."""


class ActionOutcomes(BaseModel):
    """What came of the action on each run."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    results: list[ActionOutcome]
    """In the order of the request."""


@routes.post(
    "/actions", response_model=ActionOutcomes, responses=problems(400), summary="Cancel or retry several runs"
)
async def act_on_several(body: ActionsBody, asking: Asking, service: Serving) -> Response:
    """Act on up to 100 runs, each by itself: one that is left as it is stops no other.

    It can be sent again: a run that was retried since it ended is not retried again.
    """
    run_ids = list(dict.fromkeys(body.run_ids))
    results = await act_on_runs(service, asking, body.action, run_ids, reason=body.reason)
    return json_of(ActionOutcomes(results=[_outcome(body.action, each) for each in results]))


def _outcome(action: BulkAction, result: BulkResult) -> ActionOutcome:
    if result.error:
        problem = ProblemDetails(**problem_of(result.error).members)
        return ActionOutcome(run_id=result.run_id, problem=problem)
    outcome = ActionOutcome.model_validate(
        {"run_id": result.run_id, "done": ACTIONS[action], "attempts": result.attempts}
    )
    if result.retried:
        outcome.new_run_id, outcome.already = result.retried.run_id, result.retried.already
    return outcome


@routes.post(
    "/{run_id:path}/pause",
    response_model=Acknowledgement,
    responses=problems(400, 404, 409),
    summary="Pause a run",
)
async def pause_run(
    run_id: RunId, asking: Asking, service: Serving, body: ReasonBody = NO_REASON
) -> Response:
    """Start nothing new until `/resume`. Calls in progress finish, and child runs pause too."""
    require(asking, "operator")
    run = await service.open_run(asking, run_id, "pause")
    await run.pause(body.reason, by=asking.subject)
    return json_of(Acknowledgement(run_id=run.id, done="paused", by=asking.subject))


@routes.post(
    "/{run_id:path}/resume",
    response_model=Acknowledgement,
    responses=problems(400, 404, 409),
    summary="Resume a run",
)
async def resume_run(run_id: RunId, asking: Asking, service: Serving, body: ResumeBody = NO_NOTE) -> Response:
    """Continue after a pause. Messages begin a new user turn."""
    require(asking, "operator")
    run = await service.open_run(asking, run_id, "resume")
    await run.resume(body.note, messages=body.messages, by=asking.subject, principal=asking)
    return json_of(Acknowledgement(run_id=run.id, done="resumed", by=asking.subject))


@routes.post(
    "/{run_id:path}/cancel",
    status_code=202,
    response_model=Acknowledgement,
    responses=problems(400, 404, 409),
    summary="Cancel a run",
)
async def cancel_run(
    run_id: RunId, asking: Asking, service: Serving, body: ReasonBody = NO_REASON
) -> Response:
    """Request that the run cancels. It cancels and answers its calls in flight, and cancels its child runs."""
    require(asking, "operator")
    run = await service.open_run(asking, run_id, "cancel")
    await run.cancel(body.reason, by=asking.subject)
    return json_of(Acknowledgement(run_id=run.id, done="cancel_requested", by=asking.subject), 202)


@routes.post(
    "/{run_id:path}/retry-now",
    response_model=RetryAcknowledgement,
    responses=problems(400, 404, 409),
    summary="Retry a run's plan and calls now",
)
async def retry_now(run_id: RunId, asking: Asking, service: Serving) -> Response:
    """Begin the next attempts of its plan and its calls at once, without the rest of their backoff.

    They keep their number of attempts. For a run that has failed, `/fork` continues in a new run.
    """
    require(asking, "operator")
    run = await service.open_run(asking, run_id, "retry now")
    attempts = len(await run.retry_now())
    reply = RetryAcknowledgement(run_id=run.id, done="retried_now", by=asking.subject, attempts=attempts)
    return json_of(reply)


@routes.post(
    "/{run_id:path}/set-aside",
    response_model=SetAsideAcknowledgement,
    responses=problems(400, 404, 409),
    summary="Set a message or a result aside",
)
async def set_aside(run_id: RunId, asking: Asking, service: Serving, body: SetAsideBody) -> Response:
    """Hide a message or a result from planners, from the next plan on. The transcript keeps it. Idempotent."""
    require(asking, "operator")
    run = await service.open_run(asking, run_id, "set aside")
    await run.set_aside(body.what, body.reason, by=asking.subject)
    note = _STILL_READ if is_plan_under_way(await run.status()) else None
    return json_of(SetAsideAcknowledgement(run_id=run.id, done="set_aside", by=asking.subject, note=note))


_STILL_READ = "The plan under way still has it; POST /v1/sessions/{agent_id}/{session_id}/interrupt ends it in a conversation."


@routes.post(
    "/{run_id:path}/fork",
    status_code=201,
    response_model=Started,
    responses=problems(400, 404, 409, 502),
    summary="Fork a run",
)
async def fork_run(run_id: RunId, asking: Asking, service: Serving, body: ForkBody = NO_CHANGE) -> Response:
    """Start a new run that continues from a point of this one, with one change. This run stays as it is."""
    require(asking, "operator")
    run = await service.run(asking, run_id)
    given = {name: getattr(body, name) for name in body.model_fields_set & {"result"}}
    fork = await service.fork(asking, run, body, result=given.get("result", MISSING))
    return json_of(Started(run_id=fork.id, agent_id=(await fork.status()).agent_id), 201)
