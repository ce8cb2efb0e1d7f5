"""Render a reply as MCP content, and read an elicitation's response as the answer.

The content is results, progress and elicitations.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    ResourceLink,
    TextContent,
)

from sojourn.answers import GivenAnswer, WaitView, parse_decision, parse_payload
from sojourn.contracts.event import Event, PlanStartedEvent, ToolStartEvent, ToolUpdateEvent
from sojourn.contracts.principal import Principal
from sojourn.errors import InvalidInput, NotApprover, SojournError
from sojourn.forms import elicitation_schema
from sojourn.http.answering import submit_answer
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.reply import AgentReply
from sojourn.http.protocols.reply_token import ReplyToken, remove_tokens
from sojourn.http.protocols.waits import chat_text
from sojourn.http.routes.parameters import RequestScope
from sojourn.http.security import audit
from sojourn.http.security.principals import principal_of
from sojourn.http.service import Service

__all__ = [
    "ANSWER",
    "ARTIFACTS",
    "Context",
    "asking_of",
    "elicitation_of",
    "error_result",
    "explain_look",
    "explain_next",
    "explain_waits",
    "key_of",
    "progress_of",
    "ref_of",
    "request_scope_of",
    "respond",
    "result_of",
    "with_mcp_errors",
]


ARTIFACTS = "sojourn://artifacts/"
"""Prefix of the URIs of artifacts. The artifact's reference follows."""


DECISIONS = ("approve", "deny")
"""The decisions on a call, as a form offers them."""


def result_of(reply: AgentReply) -> CallToolResult:
    """Return the result of a reply that has ended: its answer, or its error."""
    meta = {"sojourn/run_id": reply.token.run_id}
    if reply.output is None:
        return error_result(remove_tokens(str(reply.error)), **meta)
    output = reply.output
    links = [
        ResourceLink(
            type="resource_link",
            name=file.name if (file := artifact.attachment) else artifact.kind,
            uri=ARTIFACTS + quote(artifact.ref, safe=""),
            mime_type=file.media_type if file else "application/json",
            size=file.size if file else None,
        )
        for artifact in output.artifacts
        if artifact.ref
    ]
    result: object = output.result
    structured = cast("dict[str, Any]", result) if isinstance(result, dict) else None
    content: list[ContentBlock] = [TextContent(type="text", text=remove_tokens(output.text)), *links]
    return CallToolResult(content=content, structured_content=structured, _meta=meta)


def error_result(text: str, **meta: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True, _meta=meta or None)


def ref_of(uri: str) -> str | None:
    return unquote(uri.removeprefix(ARTIFACTS)) if uri.startswith(ARTIFACTS) else None


def progress_of(event: Event) -> str | None:
    if isinstance(event, PlanStartedEvent):
        return f"{event.agent_id} plans"
    if isinstance(event, ToolStartEvent):
        return str(event.call.name)
    if isinstance(event, ToolUpdateEvent):
        return f"{event.tool_name}: {event.note}" if event.note else None
    return None


def key_of(view: WaitView) -> str:
    """Return the key of a wait.

    The key of a call includes a digest of its arguments, so an approval covers only the call that was
    displayed.
    """
    bound = f"#{view.digest[:16]}" if view.digest else ""
    return f"{view.run_id.partition('/')[2]}:{view.await_id}{bound}"


def elicitation_of(view: WaitView) -> ElicitRequest:
    if view.call is None:
        schema = _form_of(view) or _object({"answer": {"type": "string"}}, ["answer"])
    else:
        decision: dict[str, Any] = {"type": "string", "enum": list(DECISIONS)}
        schema = _object({"decision": decision, "reason": {"type": "string"}}, ["decision"])
    return ElicitRequest(params=ElicitRequestFormParams(message=chat_text(view), requested_schema=schema))


async def respond(
    service: Service, asking: Principal, view: WaitView, response: ElicitResult, token: ReplyToken
) -> bool:
    """Submit a response as the answer, and return whether it answered the wait.

    A dismissed form answers nothing. A refusal names the call and those who may decide, and says how to continue.
    """
    if response.action == "cancel":
        return False
    try:
        await submit_answer(service, asking, view, _answer_of(view, response))
    except NotApprover as error:
        detail = f"{error}, which `{view.await_id}` of the run `{view.run_id}` waits for"
        then = f"{explain_decision(view)} {explain_look(token)}"
        raise Problem(403, "forbidden", detail, then=then, run_id=view.run_id) from None
    return True


def _answer_of(view: WaitView, response: ElicitResult) -> GivenAnswer:
    content = dict(response.content or {})
    if view.call:
        return _decision_of(view, content, is_declined=response.action == "decline")
    values = {name: value for name, value in content.items() if value is not None}
    given = values if _form_of(view) else str(content.get("answer") or "")
    return parse_payload(view, given, declined=response.action == "decline")


def _decision_of(view: WaitView, content: dict[str, Any], *, is_declined: bool) -> GivenAnswer:
    word = "deny" if is_declined else content.get("decision")
    if word not in DECISIONS:
        message = f"`decision` on {view.await_id} is `approve` or `deny`, and not {json.dumps(word)[:80]}"
        raise InvalidInput(message, run_id=view.run_id)
    return parse_decision(view, content, ("decision", "reason"), approved=word == "approve")


def _form_of(view: WaitView) -> dict[str, Any] | None:
    """Return the form of a question if it is flat, as elicitations require."""
    return elicitation_schema(view.form, view.missing_fields)


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


# For clients without forms. A model calls the tool `answer`, which passes on the user's answer and may deny a call.
# A person approves a call elsewhere.

ANSWER = "answer"
"""Name of the tool that a client without forms calls to answer a question."""


def explain_waits(views: Sequence[WaitView], token: ReplyToken) -> str:
    texts = [
        f"{chat_text(view)}\n\n{explain_decision(view)}" if view.call else remove_tokens(chat_text(view))
        for view in views
    ]
    return "\n\n".join([*texts, explain_next(views, token)])


def explain_next(views: Sequence[WaitView], token: ReplyToken) -> str:
    if all(view.call for view in views):
        return (
            f"To deny, call the tool `{ANSWER}` with the answer `no` and a reason. Once it is decided, call it without an answer: "
            f"the agent goes on with task {token.text}."
        )
    return f"To answer, ask the user, and call the tool `{ANSWER}` with task {token.text}."


def explain_look(token: ReplyToken) -> str:
    return f"To look whether it goes on, call the tool `{ANSWER}` without an answer, with task {token.text}."


def explain_decision(view: WaitView) -> str:
    return (
        f"It waits for a principal with the role `approver`, as `{view.await_id}` of the run `{view.run_id}`. It is approved by "
        f"`sojourn approve {view.run_id} {view.await_id}`, by `POST /v1/runs/{view.run_id}/approvals` with the digest that "
        f"`GET /v1/runs/{view.run_id}` shows, or in another client; not by the tool `{ANSWER}`."
    )


Params = TypeVar("Params")
Response = TypeVar("Response")

Context = ServerRequestContext[Any, Any]


def asking_of(context: Context) -> Principal:
    found = principal_of(context.request.scope) if context.request is not None else None
    if found is None:
        raise RuntimeError("the request has passed no security middleware")
    return found


def request_scope_of(service: Service, context: Context) -> RequestScope:
    if context.request is None:
        raise RuntimeError("the request has passed no security middleware")
    return RequestScope(service, context.request.scope)


def with_mcp_errors(
    handle: Callable[[Context, Params], Awaitable[Response]],
) -> Callable[[Context, Params], Awaitable[Response]]:
    """Return a handler that raises problems as errors of the protocol."""

    async def handle_request(context: Context, params: Params) -> Response:
        try:
            return await handle(context, params)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            audit.bind(code=problem.code)
            code = INTERNAL_ERROR if problem.status >= 500 else INVALID_PARAMS
            data = {"code": problem.code, "then": problem.then, **problem.more}
            raise MCPError(code, problem.detail, data) from error

    return handle_request
