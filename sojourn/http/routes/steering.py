"""Routes for an operator to steer a run.

They are `/v1/runs/{run_id}/pause`, `/resume`, `/cancel`, `/retry-now`, `/set-aside` and `/fork`.
"""

from fastapi import APIRouter, Response

from sojourn.client.forking import MISSING
from sojourn.client.setting_aside import is_plan_under_way
from sojourn.http.bodies import NO_CHANGE, NO_NOTE, NO_REASON, ForkBody, ReasonBody, ResumeBody, SetAsideBody
from sojourn.http.replies import Acknowledgement, RetryAcknowledgement, SetAsideAcknowledgement, Started
from sojourn.http.routes.parameters import KnownQueryRoute, RunId, Serving, json_of, problems
from sojourn.http.security.principals import Asking, require

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=KnownQueryRoute)


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
