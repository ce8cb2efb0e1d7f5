"""List the open waits and the decisions of all runs, and answer waits.

The answers are `/v1/runs/{run_id}/answers`, `/approvals` and `/tool-results`; `/v1/waits/decisions` takes
decisions on calls of several runs.
"""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict

from sojourn.answers import Asker, DecisionResult, WaitRef, wait_view
from sojourn.client.listing import Selection
from sojourn.contracts.awaits import KindName
from sojourn.contracts.principal import Principal
from sojourn.http.answering import decide_each, submit_answer
from sojourn.http.bodies import AnswerBody, ApprovalBody, DecisionsBody, ToolResultsBody
from sojourn.http.problems import ProblemDetails, problem_of
from sojourn.http.replies import (
    AnswerAcknowledgement,
    DecisionAcknowledgement,
    DecisionPage,
    DecisionView,
    WaitPage,
)
from sojourn.http.routes.parameters import (
    KnownQueryRoute,
    Limit,
    PageCursor,
    RunId,
    Serving,
    json_of,
    problems,
)
from sojourn.http.routes.runs import Since
from sojourn.http.security.limits import heavy_read
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service
from sojourn.reader import FoundWait, ListedRun
from sojourn.timeline import WaitEnd

__all__ = ["routes"]

routes = APIRouter(tags=["answers"], route_class=KnownQueryRoute)


@routes.post(
    "/v1/runs/{run_id:path}/answers",
    response_model=AnswerAcknowledgement,
    responses=problems(400, 404, 409),
    summary="Answer a question",
)
async def answer(run_id: RunId, body: AnswerBody, asking: Asking, service: Serving) -> Response:
    """Answer a question of the run, or decline to answer. The run records the principal as the sender."""
    return await _acknowledge(service, asking, run_id, body)


@routes.post(
    "/v1/runs/{run_id:path}/approvals",
    response_model=DecisionAcknowledgement,
    responses=problems(400, 404, 409),
    summary="Decide on a call",
)
async def decide(run_id: RunId, body: ApprovalBody, asking: Asking, service: Serving) -> Response:
    """Approve a call as it was displayed, or deny it. If its digest no longer fits the call: 409."""
    return await _acknowledge(service, asking, run_id, body)


@routes.post(
    "/v1/runs/{run_id:path}/tool-results",
    response_model=AnswerAcknowledgement,
    responses=problems(400, 404, 409),
    summary="Send results of external calls",
)
async def provide(run_id: RunId, body: ToolResultsBody, asking: Asking, service: Serving) -> Response:
    """Send results of calls that a program outside the run executes: all of them, or some."""
    return await _acknowledge(service, asking, run_id, body)


async def _acknowledge(
    service: Service, asking: Principal, run_id: str, body: AnswerBody | ApprovalBody | ToolResultsBody
) -> Response:
    done = await submit_answer(service, asking, WaitRef(run_id, body.await_id), body.submission)
    known: dict[str, Any] = {
        "run_id": done.run_id,
        "done": done.outcome,
        "by": done.by,
        "await_id": done.await_id,
    }
    known["already"] = done.already
    if isinstance(body, ApprovalBody):
        return json_of(DecisionAcknowledgement(**known, left=done.left))
    return json_of(AnswerAcknowledgement(**known))


class DecisionOutcome(BaseModel):
    """What came of one decision."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run_id: str
    """The run."""
    await_id: str
    """The wait."""
    done: Literal["approved", "denied"] | None = None
    """How the call was decided; null if this decision was refused."""
    already: bool = False
    """Whether the call had this decision already; then `by` gave it first."""
    by: str | None = None
    """Who decided."""
    left: int = 0
    """Approvals that the call still needs, if it needs several."""
    problem: ProblemDetails | None = None
    """Why the decision was refused: the problem that a request of its own would have had."""


class DecisionOutcomes(BaseModel):
    """What came of each decision."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    results: list[DecisionOutcome]
    """In the order of the request."""


@routes.post(
    "/v1/waits/decisions",
    response_model=DecisionOutcomes,
    responses=problems(400),
    summary="Decide on several calls",
)
async def decide_on_several(body: DecisionsBody, asking: Asking, service: Serving) -> Response:
    """Decide on up to 100 calls of any runs, each by itself: a refused one stops no other.

    It can be sent again: a decision that a call has already is marked as `already`.
    """
    decisions = [(WaitRef(each.run_id, each.await_id), each.submission) for each in body.decisions]
    results = await decide_each(service, asking, decisions)
    return json_of(DecisionOutcomes(results=[_outcome(each) for each in results]))


def _outcome(result: DecisionResult) -> DecisionOutcome:
    fields: dict[str, Any] = {"run_id": result.run_id, "await_id": result.await_id}
    if result.error:
        return DecisionOutcome(**fields, problem=ProblemDetails(**problem_of(result.error).members))
    assert result.answered is not None
    by, left = result.answered.by or None, result.left
    return DecisionOutcome.model_validate(
        {**fields, "done": result.outcome, "already": result.already, "by": by, "left": left}
    )


AT_ONCE = 8
"""Most runs of a page of decisions that are read at the same time."""


@routes.get("/v1/decisions", response_model=DecisionPage, responses=problems(), summary="List decisions")
async def list_decisions(
    asking: Asking,
    service: Serving,
    agent_id: Annotated[str | None, Query(max_length=200)] = None,
    session_id: Annotated[str | None, Query(max_length=200)] = None,
    kind: KindName | None = None,
    since: Since = None,
    limit: Annotated[int, Query(ge=1, le=100, description="The maximum number of runs to read.")] = 50,
    cursor: PageCursor = None,
) -> Response:
    """List who answered and decided what, in a page of the runs, newest first. A page may be short, or empty, though there are more."""
    require(asking, "viewer")
    selection = Selection(agent_id, session_id, since=since)
    found: list[DecisionView] = []
    is_whole = True
    async with heavy_read():
        page = await service.list_decided_runs(asking, selection, most=limit, cursor=cursor)
        for begin in range(0, len(page.runs), AT_ONCE):
            runs = page.runs[begin : begin + AT_ONCE]
            seen = await asyncio.gather(*(service.decisions(asking, run.run_id) for run in runs))
            for run, its in zip(runs, seen, strict=True):
                found += [_decision(run, each) for each in its.decisions]
                is_whole = is_whole and (its.is_whole or its.is_hidden)
    found = [each for each in found if kind in (None, each.wait and each.wait.kind)]
    found.sort(key=lambda each: each.decided_at, reverse=True)
    return json_of(DecisionPage(decisions=found, cursor=page.cursor, is_whole=is_whole))


def _decision(run: ListedRun, ended: WaitEnd) -> DecisionView:
    event = ended.event
    return DecisionView(
        run_id=event.run_id,
        await_id=event.await_id,
        agent_id=run.agent_id,
        session_id=run.session_id,
        verdict=ended.verdict,
        by=event.by or "",
        principal=event.principal and Asker(subject=event.principal.subject, tenant=event.principal.tenant),
        decided_at=ended.at,
        text=event.text or "",
        wait=ended.wait
        and wait_view(ended.wait, event.run_id, since=ended.opened.since if ended.opened else None),
    )


@routes.get("/v1/waits", response_model=WaitPage, responses=problems(), summary="List open waits")
async def list_waits(
    asking: Asking,
    service: Serving,
    agent_id: Annotated[str | None, Query(max_length=200)] = None,
    session_id: Annotated[str | None, Query(max_length=200)] = None,
    kind: KindName | None = None,
    order: Annotated[Literal["newest", "oldest"], Query(description="Which waits come first.")] = "newest",
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> Response:
    """List the open waits of all runs and child runs, each with all that an answer needs. A new one appears within about a second."""
    require(asking, "viewer")

    def fits(found: FoundWait) -> bool:
        return kind in (None, found.view.kind)

    async with heavy_read():
        found = await service.waits(
            asking,
            Selection(agent_id, session_id),
            fits=fits,
            newest=order == "newest",
            most=limit,
            cursor=cursor,
        )
    return json_of(
        WaitPage(waits=[each.view for each in found.waits], cursor=found.cursor, is_whole=found.is_whole)
    )
