"""`/v1/sessions`: conversations by agent and session."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from sojourn.answers import StatusView, status_view
from sojourn.client.listing import Selection, StatusFilter, parse_labels
from sojourn.client.run import Run
from sojourn.client.session import Session, SessionTurn
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.errors import RunFailed, RunNotFound
from sojourn.http import answering
from sojourn.http.answering import answer_or_question, require_same, withdraw_message
from sojourn.http.bodies import (
    NO_REASON,
    PRESENT_TURN,
    EditBody,
    InterruptBody,
    MessageBody,
    ReasonBody,
    SessionBody,
    SwitchBody,
    WithdrawBody,
)
from sojourn.http.problems import Problem
from sojourn.http.replies import AcceptedMessage, Acknowledgement, Alternatives, AlternativeTurn, Sessions
from sojourn.http.routes.attachments import FORM, FilesRoute
from sojourn.http.routes.events import EVENTS, After, Children, Deltas, Most, events_answer
from sojourn.http.routes.parameters import (
    AgentId,
    CurrentScope,
    Limit,
    PageCursor,
    RequestScope,
    Serving,
    SessionId,
    json_of,
    problems,
)
from sojourn.http.routes.runs import Since, WaitSeconds
from sojourn.http.security import audit
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service

__all__ = ["routes"]

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    200: {"model": AcceptedMessage, "description": "The message was already accepted."},
    **problems(400, 404, 409, 429),
}

routes = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=FilesRoute)


@routes.get("", response_model=Sessions, responses=problems(), summary="List conversations")
async def list_sessions(
    asking: Asking,
    service: Serving,
    agent_id: Annotated[str | None, Query(max_length=200)] = None,
    session_id: Annotated[str | None, Query(max_length=200)] = None,
    status: StatusFilter | None = None,
    label: Annotated[
        list[str] | None,
        Query(description="A label, `NAME=VALUE`. Can be given several times.", max_length=20),
    ] = None,
    since: Since = None,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> Response:
    """List conversations, as `/v1/runs` lists runs."""
    require(asking, "viewer")
    selection = Selection(agent_id, session_id, status, since, children=False, only_sessions=True)
    page = await service.runs(asking, selection, labels=parse_labels(label or []), most=limit, cursor=cursor)
    return json_of(Sessions(sessions=page.runs, cursor=page.cursor))


@routes.post(
    "/{agent_id}/{session_id:path}/messages",
    status_code=201,
    response_model=AcceptedMessage,
    responses=_ACCEPTED,
    summary="Send a message",
    openapi_extra=FORM,
)
async def send_message(
    agent_id: AgentId,
    session_id: SessionId,
    body: MessageBody,
    asking: Asking,
    service: Serving,
    scope: CurrentScope,
    wait: WaitSeconds = 0,
) -> Response:
    """Send a message, and start the conversation if there is none. Sent again with its `message_id`, it is delivered once."""
    require(asking, "user")
    service.agent(agent_id)
    session = await service.session(asking, agent_id, session_id)
    return await _send(scope, session, body, asking, wait)


@routes.get(
    "/{agent_id}/{session_id:path}/events", summary="Read or follow a conversation's events", **EVENTS
)
async def get_events(
    agent_id: AgentId,
    session_id: SessionId,
    request: Request,
    asking: Asking,
    service: Serving,
    after: After = None,
    children: Children = False,
    deltas: Deltas = False,
    limit: Most = 1_000,
) -> Response:
    """Return or stream the events of all turns, as `/v1/runs/{run_id}/events` does."""
    require(asking, "viewer")
    run = await _conversation(service, asking, agent_id, session_id)
    return await events_answer(
        service, run, request, after=after, children=children, deltas=deltas, most=limit
    )


@routes.post(
    "/{agent_id}/{session_id:path}/withdraw",
    response_model=Acknowledgement,
    responses=problems(400, 404, 409),
    summary="Withdraw a message",
)
async def withdraw(
    agent_id: AgentId, session_id: SessionId, asking: Asking, service: Serving, body: WithdrawBody
) -> Response:
    """Take back a message whose turn has not begun: the caller's own, or as an operator any. Idempotent."""
    require(asking, "user")
    run = await _conversation(service, asking, agent_id, session_id)
    await withdraw_message(run, asking, body.message_id)
    return json_of(Acknowledgement(run_id=run.id, done="withdrawn", by=asking.subject))


@routes.post(
    "/{agent_id}/{session_id:path}/edit",
    status_code=201,
    response_model=AcceptedMessage,
    responses=_ACCEPTED,
    summary="Edit a message, or have it answered again",
)
async def edit_message(
    agent_id: AgentId,
    session_id: SessionId,
    body: EditBody,
    asking: Asking,
    service: Serving,
    scope: CurrentScope,
    wait: WaitSeconds = 0,
) -> Response:
    """Go on from the point before a message's turn, in another branch. A turn under way is interrupted, and messages that wait are withdrawn."""
    require(asking, "user")
    session = await _known(service, asking, agent_id, session_id)
    if wait:
        scope.count()
    turn = await answering.edit_message(
        session, asking, body.message_id, body.message, attachments=body.attachments, branches=body.branches
    )
    audit.bind(run_id=session.run.id)
    return await _accepted(scope, turn, wait)


@routes.post(
    "/{agent_id}/{session_id:path}/switch",
    response_model=Acknowledgement,
    responses=problems(400, 404, 409, 429),
    summary="Go on in another branch",
)
async def switch_branch(
    agent_id: AgentId, session_id: SessionId, asking: Asking, service: Serving, body: SwitchBody
) -> Response:
    """Let the next message come after the end of another branch. A turn under way is interrupted, and messages that wait are withdrawn."""
    require(asking, "user")
    session = await _known(service, asking, agent_id, session_id)
    await answering.switch_branch(session, body.at)
    return json_of(Acknowledgement(run_id=session.run.id, done="switched", by=asking.subject))


@routes.get(
    "/{agent_id}/{session_id:path}/alternatives",
    response_model=Alternatives,
    responses=problems(404, 502),
    summary="Read the branches of a conversation",
)
async def get_alternatives(
    agent_id: AgentId, session_id: SessionId, asking: Asking, service: Serving
) -> Response:
    """Return the turns of the present branch that have others in their place, such as other answers to a message."""
    require(asking, "viewer")
    session = await _known(service, asking, agent_id, session_id)
    timeline = await answering.read_branches(session)
    present = {turn.key for turn in timeline.path}
    found = [
        [
            AlternativeTurn(
                turn_id=each.id,
                message_id=each.messages[0].message_id if each.messages else "",
                text=each.messages[0].message.text if each.messages else "",
                is_present=each.key in present,
                at=timeline.tip(each),
            )
            for each in turns
        ]
        for turns in timeline.alternatives
    ]
    return json_of(Alternatives(run_id=session.run.id, branches=timeline.branches, alternatives=found))


@routes.post(
    "/{agent_id}/{session_id:path}/interrupt",
    response_model=Acknowledgement,
    responses=problems(400, 404, 409),
    summary="End the present turn",
)
async def interrupt(
    agent_id: AgentId,
    session_id: SessionId,
    asking: Asking,
    service: Serving,
    body: InterruptBody = PRESENT_TURN,
) -> Response:
    """End the present turn, or none if `turn_id` names another one. Waiting messages open the next turns."""
    require(asking, "user")
    run = await _conversation(service, asking, agent_id, session_id)
    had_turn = await run.interrupt(body.reason, by=asking.subject, turn_id=body.turn_id)
    done = "interrupted" if had_turn else "no_turn"
    return json_of(Acknowledgement(run_id=run.id, done=done, by=asking.subject))


@routes.post(
    "/{agent_id}/{session_id:path}/close",
    response_model=Acknowledgement,
    responses=problems(400, 404, 409),
    summary="Close a conversation",
)
async def close(
    agent_id: AgentId, session_id: SessionId, asking: Asking, service: Serving, body: ReasonBody = NO_REASON
) -> Response:
    """End the conversation as soon as no message waits."""
    require(asking, "user")
    run = await _conversation(service, asking, agent_id, session_id)
    await run.close(body.reason, by=asking.subject)
    return json_of(Acknowledgement(run_id=run.id, done="closed", by=asking.subject))


@routes.get(
    "/{agent_id}/{session_id:path}",
    response_model=StatusView,
    responses=problems(404, 502),
    summary="Read a conversation's status",
)
async def get_session(agent_id: AgentId, session_id: SessionId, asking: Asking, service: Serving) -> Response:
    """Return the status of the conversation, which is `idle` between two turns."""
    require(asking, "viewer")
    run = await _conversation(service, asking, agent_id, session_id)
    return json_of(status_view(await run.status()))


@routes.post(
    "/{agent_id}/{session_id:path}",
    status_code=201,
    response_model=AcceptedMessage,
    responses=_ACCEPTED,
    summary="Begin a conversation",
    openapi_extra=FORM,
)
async def begin_session(
    agent_id: AgentId,
    session_id: SessionId,
    body: SessionBody,
    asking: Asking,
    service: Serving,
    scope: CurrentScope,
    wait: WaitSeconds = 0,
) -> Response:
    """Send the first message, with the labels and limits of the conversation that it starts."""
    require(asking, "user")
    service.agent(agent_id)
    session = await service.session(asking, agent_id, session_id, labels=body.labels, policy=body.policy)
    return await _send(scope, session, body, asking, wait)


async def _conversation(service: Service, asking: Principal, agent_id: str, session_id: str) -> Run:
    return (await _known(service, asking, agent_id, session_id)).run


async def _known(service: Service, asking: Principal, agent_id: str, session_id: str) -> Session:
    try:
        return await service.known_session(asking, agent_id, session_id)
    except RunNotFound as error:
        raise Problem(
            404,
            "run_not_found",
            f"{agent_id} has no conversation {session_id!r}",
            then="GET /v1/sessions lists the conversations that you may see; the first message starts one.",
            run_id=error.run_id,
        ) from error


async def _send(
    scope: RequestScope,
    session: Session,
    body: MessageBody,
    asking: Principal,
    wait: float,
) -> Response:
    if wait:
        scope.count()
    by, files = asking.subject, body.attachments
    turn = await session.send(
        body.message, message_id=body.message_id, mode=body.mode, by=by, attachments=files
    )
    audit.bind(run_id=session.run.id)
    if turn.is_repeated:
        message = Message.user(body.message) if isinstance(body.message, str) else body.message
        if files:
            bind = session.run.client.with_attachments
            message = await bind(message, files, run_id=session.run.id, principal=asking)
        await require_same(turn, message)
    return await _accepted(scope, turn, wait)


async def _accepted(scope: RequestScope, turn: SessionTurn, wait: float) -> Response:
    sent = AcceptedMessage(run_id=turn.run.id, message_id=turn.message_id, after=turn.after)
    reply = sent.model_copy(update=await _reply_fields(scope, turn, wait) if wait else {})
    return json_of(reply, 200 if turn.is_repeated else 201)


async def _reply_fields(scope: RequestScope, turn: SessionTurn, wait: float) -> dict[str, Any]:
    try:
        found = await wait_for_answer(scope, turn, wait)
    except RunFailed as error:
        return {"error": error.error or ToolError.new(str(error), code=error.code)}
    if isinstance(found, RunOutput):
        return {"output": found}
    status = status_view(found)
    return {"status": status.status, "awaits": status.awaits, "child_awaits": status.child_awaits}


async def wait_for_answer(scope: RequestScope, turn: SessionTurn, seconds: float) -> RunOutput | RunStatus:
    """Wait for a message's answer, or until its conversation needs one itself.

    Returns the status if the conversation or a child run has an open wait, the time is over, or this process shuts down.
    """
    try:
        return await scope.wait(
            answer_or_question(scope.service, turn.run, turn.result, after=turn.after), seconds
        )
    except TimeoutError:
        return await turn.run.status()
