"""Routes that answer the waits of a run.

They are `/v1/runs/{run_id}/answers`, `/approvals` and `/tool-results`.
"""

from fastapi import APIRouter, Response

from sojourn.answers import AlreadyAnswered, WaitRef
from sojourn.contracts.principal import Principal
from sojourn.errors import AwaitClosed
from sojourn.http.answering import submit_answer
from sojourn.http.bodies import AnswerBody, ApprovalBody, ToolResultsBody
from sojourn.http.replies import Done
from sojourn.http.routes.answering import RunId, Serving, json_of, problems
from sojourn.http.routes.known_query import KnownQueryRoute
from sojourn.http.security.principals import Asking
from sojourn.http.service import Service

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/runs", tags=["answers"], route_class=KnownQueryRoute)


@routes.post(
    "/{run_id:path}/answers",
    response_model=Done,
    responses=problems(400, 404, 409),
    summary="Answer a question",
)
async def answer(run_id: RunId, body: AnswerBody, asking: Asking, service: Serving) -> Response:
    """Answer a question of the run, or decline to; `by` is whoever asks."""
    return await _done(service, asking, run_id, body)


@routes.post(
    "/{run_id:path}/approvals",
    response_model=Done,
    responses=problems(400, 404, 409),
    summary="Decide on a call",
)
async def decide(run_id: RunId, body: ApprovalBody, asking: Asking, service: Serving) -> Response:
    """Approve a call as it was seen, or deny it. A digest that does not fit the call any more is refused with 409."""
    return await _done(service, asking, run_id, body)


@routes.post(
    "/{run_id:path}/tool-results",
    response_model=Done,
    responses=problems(400, 404, 409),
    summary="Send results of external calls",
)
async def provide(run_id: RunId, body: ToolResultsBody, asking: Asking, service: Serving) -> Response:
    """Results of calls that a program outside the run executes, all or some."""
    return await _done(service, asking, run_id, body)


async def _done(
    service: Service, asking: Principal, run_id: str, body: AnswerBody | ApprovalBody | ToolResultsBody
) -> Response:
    done = await submit_answer(service, asking, WaitRef(run_id, body.await_id), body.given)
    if isinstance(done, AlreadyAnswered):
        raise AwaitClosed(f"{run_id}: {body.await_id} was {done.done} before, by you", run_id=run_id)
    return json_of(Done(run_id=done.run_id, done=done.done, by=asking.subject, await_id=done.await_id))
