"""`/v1/runs/{run_id}/answers`, `/approvals` and `/tool-results`: settle what a run waits for."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Response

from sojourn.client.run import Run
from sojourn.errors import InvalidInput
from sojourn.http import deciding
from sojourn.http.asked import asked_of
from sojourn.http.bodies import AnswerBody, ApprovalBody, ToolResultsBody
from sojourn.http.problems import Problem
from sojourn.http.replies import Done
from sojourn.http.routes.answering import RunId, Serving, json_of, problems
from sojourn.http.routes.known_query import KnownQueryRoute
from sojourn.http.security import audit
from sojourn.http.security.principals import Asking, require

__all__ = ["answer", "decide", "provide", "routes"]

routes = APIRouter(prefix="/v1/runs", tags=["answers"], route_class=KnownQueryRoute)


@routes.post(
    "/{run_id:path}/answers",
    response_model=Done,
    responses=problems(400, 404, 409),
    summary="Answer a question",
)
async def answer(run_id: RunId, body: AnswerBody, asking: Asking, service: Serving) -> Response:
    """Answer a question of the run, or decline to; `by` is whoever asks."""
    audit.bind(await_id=body.await_id)
    require(asking, "user")
    run = await service.run(asking, run_id)
    by = asking.subject
    async with _of_kind("question", run, body.await_id):
        if body.answer is None:
            await_id = await run.decline(body.await_id, body.reason, principal=asking)
        else:
            await_id = await run.answer(body.await_id, body.answer, principal=asking)
    done = "declined" if body.declined else "answered"
    return json_of(Done(run_id=run.id, done=done, by=by, await_id=await_id))


@routes.post(
    "/{run_id:path}/approvals",
    response_model=Done,
    responses=problems(400, 404, 409),
    summary="Decide on a call",
)
async def decide(run_id: RunId, body: ApprovalBody, asking: Asking, service: Serving) -> Response:
    """Approve a call as it was seen, or deny it. A digest that does not fit the call any more is refused with 409."""
    audit.bind(await_id=body.await_id, approved=body.approved, approval_scope=body.scope, digest=body.digest)
    run = await service.asked_run(asking, run_id, body.await_id)
    by = asking.subject
    try:
        async with _of_kind("approval", run, body.await_id):
            await_id = await deciding.decide(
                asking,
                run,
                await deciding.open_call(run, body.await_id) or body.await_id,
                approved=body.approved,
                digest=body.digest,
                reason=body.reason,
                for_run=body.scope == "tool",
            )
    except InvalidInput as error:
        if await _is_stale(run, body):
            raise Problem(
                409,
                "stale_digest",
                f"{run.id}: {body.await_id} is about other arguments than those of this digest",
                then="GET /v1/waits has the call as it is now; decide on that one.",
                run_id=run.id,
            ) from error
        raise
    done = "approved" if body.approved else "denied"
    return json_of(Done(run_id=run.id, done=done, by=by, await_id=await_id))


_PATHS = {"question": "answers", "approval": "approvals", "tool_results": "tool-results"}
"""Where a kind of wait is answered."""


@asynccontextmanager
async def _of_kind(kind: str, run: Run, await_id: str) -> AsyncGenerator[None]:
    """Refuse an answer to a wait of another kind with the path of its answers, where the run would name an update of Temporal's.

    Raises:
        Problem: The wait is of another kind.
    """
    try:
        yield
    except InvalidInput as error:
        waits = [asked_of(wait) for wait in (await run.status()).awaits if wait.id == await_id]
        other = next((wait.kind for wait in waits if wait.kind != kind), None)
        if other is None:
            raise
        raise Problem(
            422,
            "invalid_input",
            f"{run.id}: {await_id} is of the kind {other}, and not {kind}",
            then=f"POST /v1/runs/{{run_id}}/{_PATHS[other]} answers it.",
            run_id=run.id,
        ) from error


async def _is_stale(run: Run, body: ApprovalBody) -> bool:
    wait = await deciding.open_call(run, body.await_id)
    return wait is not None and body.digest not in (None, wait.payload_digest)


@routes.post(
    "/{run_id:path}/tool-results",
    response_model=Done,
    responses=problems(400, 404, 409),
    summary="Send results of external calls",
)
async def provide(run_id: RunId, body: ToolResultsBody, asking: Asking, service: Serving) -> Response:
    """Results of calls that a program outside the run executes, all or some."""
    audit.bind(await_id=body.await_id)
    require(asking, "user")
    run = await service.run(asking, run_id)
    by = asking.subject
    async with _of_kind("tool_results", run, body.await_id):
        await_id = await run.provide_tool_results(body.await_id, body.results, principal=asking)
    return json_of(Done(run_id=run.id, done="provided", by=by, await_id=await_id))
