"""`/v1/runs`: start, list, read, follow and steer runs."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, TypeAdapter

from sojourn.answers import StatusView, status_view
from sojourn.client.listing import Selection, StatusFilter, parse_labels
from sojourn.client.stuck import MAX_CHECKED
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact
from sojourn.errors import InvalidInput, RunAlreadyExists, RunFailed, RunNotFound
from sojourn.http.answering import answer_or_question
from sojourn.http.bodies import StartBody
from sojourn.http.problems import Problem, redact, redact_text
from sojourn.http.replies import Outcome, Started
from sojourn.http.routes.attachments import FORM, FilesRoute
from sojourn.http.routes.events import EVENTS, After, Children, Deltas, Most, events_answer
from sojourn.http.routes.parameters import (
    CurrentScope,
    Limit,
    PageCursor,
    RunId,
    Serving,
    json_of,
    problems,
)
from sojourn.http.security import audit
from sojourn.http.security.limits import heavy_read
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service
from sojourn.reader import ListedRun, Runs, StuckReason, StuckRuns
from sojourn.serving.pace import Pace

__all__ = ["Since", "WaitSeconds", "routes"]

LONGEST_WAIT = 60
"""The longest wait for an answer, in seconds."""

WaitSeconds = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the answer.")]


def _is_text(value: Any) -> Any:
    """Refuse a number, which pydantic would read as seconds since 1970."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("a moment is as 2027-01-02T03:04:05Z")
    return value


def _in_utc(value: datetime | None) -> datetime | None:
    """Return the moment in UTC, which has no year 0 and none after 9999."""
    try:
        return value and value.astimezone(UTC)
    except OverflowError:
        raise ValueError("a moment is in the years 1 to 9999") from None


Since = Annotated[
    AwareDatetime | None,
    BeforeValidator(_is_text),
    AfterValidator(_in_utc),
    Query(description="Only runs that started then or later.", examples=["2027-01-02T03:04:05Z"]),
]

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)

routes = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=FilesRoute)


# The id of a child run has slashes. So the paths with a word at their end come before the plain one, and the
# run of a call that a planner has called `output` is found only by its other paths.


@routes.post(
    "",
    status_code=201,
    response_model=Started,
    responses={
        200: {"model": Started, "description": "The same request has already started the run."},
        **problems(400, 409),
    },
    summary="Start a run",
    openapi_extra=FORM,
)
async def start_run(
    body: StartBody,
    asking: Asking,
    service: Serving,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="The run's id. Sent again with the same body, it names the same run.", max_length=300
        ),
    ] = None,
) -> Response:
    """Start a run of an agent. If the connection breaks, send the request again with the same `Idempotency-Key`."""
    require(asking, "user")
    key = idempotency_key.strip().strip('"') if idempotency_key is not None else None
    if key == "" or (key and body.run_id not in (None, key)):
        raise InvalidInput("Idempotency-Key: it is the run's id, so run_id is equal to it, or is left out")
    if service.app.agent(body.agent_id) is None:
        raise Problem(
            422,
            "unknown_agent",
            f"agent_id: the app has no agent {body.agent_id!r}{service.similar_agent(body.agent_id)}",
            then="GET /v1/agents lists the agents.",
        )
    run_id = service.choose_run_id(asking, key or body.run_id)
    try:
        run = await service.start(asking, body, run_id)
    except RunAlreadyExists:
        if not key or run_id is None or not await _is_same(service, asking, run_id, body):
            raise
        audit.bind(run_id=run_id)
        return json_of(Started(run_id=run_id, agent_id=body.agent_id))
    audit.bind(run_id=run.id)
    return json_of(Started(run_id=run.id, agent_id=body.agent_id), 201)


async def _is_same(service: Service, asking: Principal, run_id: str, body: StartBody) -> bool:
    """Return whether a run of the principal began with this body.

    Raises a problem if it began with another one.
    """
    try:
        if await service.has_started(asking, run_id, body):
            return True
    except RunNotFound:
        return False  # the run is another principal's
    raise Problem(
        409,
        "idempotency_key_reused",
        f"the run {run_id} was started by another request with this Idempotency-Key",
        then="Send the same body, or another Idempotency-Key.",
        run_id=run_id,
    )


@routes.get("", response_model=Runs, responses=problems(), summary="List runs")
async def list_runs(
    asking: Asking,
    service: Serving,
    agent_id: Annotated[str | None, Query(max_length=200)] = None,
    session_id: Annotated[str | None, Query(max_length=200)] = None,
    status: Annotated[
        StatusFilter | Literal["stuck"] | None,
        Query(
            description="`running` includes waiting, paused and idle runs, `waiting` includes paused ones, `completed` "
            f"those that `answered` and those that `gave_up`. `stuck` checks the newest {MAX_CHECKED} open runs that wait for nothing and has no further page."
        ),
    ] = None,
    fork_of: Annotated[
        str | None, Query(max_length=1_000, description="Only forks and retries of this run.")
    ] = None,
    label: Annotated[
        list[str] | None,
        Query(
            description="A label, `NAME=VALUE`. Can be given several times.",
            examples=[["desk=3"]],
            max_length=20,
        ),
    ] = None,
    since: Since = None,
    children: Annotated[bool, Query(description="Include child runs.")] = True,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> Response:
    """List the runs: open ones before ended ones, the newest first. The list lags by about a second."""
    require(asking, "viewer")
    selection = Selection(agent_id, session_id, status, since, children, fork_of)
    labels = parse_labels(label or [])
    if status == "stuck":
        if cursor:
            raise InvalidInput("cursor: stuck runs are one page")
        async with heavy_read():
            found = await service.find_stuck(asking, replace(selection, status=None), labels)
            return json_of(_stuck(found, limit))
    async with heavy_read() if labels else nullcontext():  # the store has no labels
        return json_of(await service.runs(asking, selection, labels=labels, most=limit, cursor=cursor))


def _stuck(found: StuckRuns, most: int) -> Runs:
    runs: list[ListedRun] = []
    for run in found.stuck[:most]:
        reason = StuckReason.model_validate(found.why[run.run_id])
        reason.reason = redact_text(reason.reason)
        runs.append(run.model_copy(update={"status": "stuck", "stuck": reason}))
    return Runs(runs=runs, cursor=None, is_whole=found.is_whole and len(found.stuck) <= most)


@routes.get(
    "/{run_id:path}/output",
    response_model=Outcome,
    responses={202: {"model": Outcome, "description": "The run has not ended."}, **problems(404, 429, 502)},
    summary="Wait for a run's answer",
)
async def get_output(
    run_id: RunId, asking: Asking, service: Serving, scope: CurrentScope, wait: WaitSeconds = 0
) -> Response:
    """Return 200 with the answer, or the reason why there is none, once the run has ended.

    Until then, and as soon as the run or a child run waits: 202, with the open waits.
    """
    require(asking, "viewer")
    run = await service.run(asking, run_id)
    try:
        if not wait and (status := await run.status()).is_open:
            return json_of(_open(status), 202)
        waits = answer_or_question(service, run, run.result) if wait else None
        found = await (scope.wait(waits, wait) if waits else run.result())
        if isinstance(found, RunStatus):
            return json_of(_open(found), 202)
        return json_of(Outcome(run_id=run.id, status="completed", output=found))
    except RunFailed as error:
        status = await run.status()
        failure = error.error or ToolError.new(str(error), code=error.code)
        return json_of(Outcome(run_id=run.id, status=status.status, error=failure))
    except TimeoutError:
        return json_of(_open(await run.status()), 202)


def _open(status: RunStatus) -> Outcome:
    shown = status_view(status)
    return Outcome(
        run_id=shown.run_id, status=shown.status, awaits=shown.awaits, child_awaits=shown.child_awaits
    )


@routes.get(
    "/{run_id:path}/transcript",
    response_model=list[Message],
    responses=problems(404, 502),
    summary="Read a run's transcript",
)
async def get_transcript(run_id: RunId, asking: Asking, service: Serving) -> Response:
    """Return the messages, calls and results so far, as the planner receives them."""
    require(asking, "viewer")
    run = await service.run(asking, run_id)
    async with heavy_read():
        pace, parts = Pace(), list[bytes]()
        for message in await run.transcript():
            with pace:
                parts.append(_MESSAGE.dump_json(redact(message)))
            await pace.rest()
        return Response(b"[" + b",".join(parts) + b"]", media_type="application/json")


@routes.get("/{run_id:path}/events", summary="Read or follow a run's events", **EVENTS)
async def get_events(
    run_id: RunId,
    request: Request,
    asking: Asking,
    service: Serving,
    after: After = None,
    children: Children = False,
    deltas: Deltas = False,
    limit: Most = 1_000,
) -> Response:
    """Return the events so far as an array, or stream them to the run's end. Any process of the service can resume a stream."""
    require(asking, "viewer")
    run = await service.run(asking, run_id)
    return await events_answer(
        service, run, request, after=after, children=children, deltas=deltas, most=limit
    )


@routes.get(
    "/{run_id:path}/artifacts/{ref:path}",
    response_model=Artifact,
    responses=problems(404, 502),
    summary="Read an artifact",
)
async def get_artifact(
    run_id: RunId,
    ref: Annotated[
        str,
        Path(
            description="The reference of an artifact of the run or of a child run, or its part after the `#`.",
            examples=["call_1/chart"],
        ),
    ],
    asking: Asking,
    service: Serving,
) -> Response:
    """Return an artifact with its data."""
    require(asking, "viewer")
    run = await service.run(asking, run_id)
    owner = ref.partition("#")[0] if "#" in ref else run.id
    if owner != run.id and not owner.startswith(f"{run.id}/"):
        raise InvalidInput(f"{ref[:300]!r} is not of run {run.id} or of a child run of it", run_id=run.id)
    async with heavy_read():
        return json_of(await run.artifact(ref if "#" in ref else f"{run.id}#{ref}"))


@routes.get(
    "/{run_id:path}", response_model=StatusView, responses=problems(404, 502), summary="Read a run's status"
)
async def get_run(run_id: RunId, asking: Asking, service: Serving) -> Response:
    """Return the run's status: its open waits and those of child runs, its calls, and what remains of its limits."""
    require(asking, "viewer")
    run = await service.run(asking, run_id)
    return json_of(status_view(await run.status()))
