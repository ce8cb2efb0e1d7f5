"""Results: a reply as the result of a tool, its artifacts as resources, and its events as progress."""

from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote, unquote

from mcp_types import (
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    ResourceLink,
    TextContent,
)

from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import Event, PlanStartedEvent, ToolStartEvent, ToolUpdateEvent
from sojourn.contracts.principal import Principal
from sojourn.forms import elicitation_schema
from sojourn.http.deciding import decide, require_approver
from sojourn.http.problems import Problem
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.decision import check_fields
from sojourn.http.protocols.markup import without_tokens
from sojourn.http.protocols.reply import Reply
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.security import audit
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = [
    "ANSWER",
    "ARTIFACTS",
    "decided_of",
    "key_of",
    "looks_of",
    "progress_of",
    "ref_of",
    "request_of",
    "respond",
    "result_of",
    "then_of",
    "told_of",
]

ARTIFACTS = "sojourn://artifacts/"
"""What the addresses of artifacts begin with; a reference follows."""


def result_of(reply: Reply) -> CallToolResult:
    """The result of a reply that has ended: its answer, or why there is none."""
    meta = {"sojourn/run_id": reply.token.run_id}
    if reply.output is None:
        return failed(without_tokens(str(reply.error)), **meta)
    output = reply.output
    links = [
        ResourceLink(
            type="resource_link",
            name=artifact.kind,
            uri=ARTIFACTS + quote(artifact.ref, safe=""),
            mime_type="application/json",
        )
        for artifact in output.artifacts
        if artifact.ref
    ]
    result: object = output.result
    structured = cast("dict[str, Any]", result) if isinstance(result, dict) else None
    content: list[ContentBlock] = [TextContent(type="text", text=without_tokens(output.text)), *links]
    return CallToolResult(content=content, structured_content=structured, _meta=meta)


def failed(text: str, **meta: Any) -> CallToolResult:
    """The result of a call that has none."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True, _meta=meta or None)


def ref_of(uri: str) -> str | None:
    """The reference of an artifact's address; None where it is another one's."""
    return unquote(uri.removeprefix(ARTIFACTS)) if uri.startswith(ARTIFACTS) else None


def progress_of(event: Event) -> str | None:
    """What an event tells of the progress; None where it is none."""
    if isinstance(event, PlanStartedEvent):
        return f"{event.agent_id} plans"
    if isinstance(event, ToolStartEvent):
        return str(event.call.name)
    if isinstance(event, ToolUpdateEvent):
        return f"{event.tool_name}: {event.note}" if event.note else None
    return None


def key_of(asked: Asked) -> str:
    """The key of a request: of a call, also of its arguments, so that an approval is of what was shown."""
    wait = asked.wait
    bound = f"#{wait.payload_digest[:16]}" if isinstance(wait, AwaitConfirmation) else ""
    return f"{asked.run_id.partition('/')[2]}:{wait.id}{bound}"


def request_of(asked: Asked) -> ElicitRequest:
    """The request for a form that a client shows."""
    wait = asked.wait
    if isinstance(wait, AwaitClarification):
        schema = elicitation_schema(wait.form, wait.missing_fields) or _object(
            {"answer": {"type": "string"}}, ["answer"]
        )
        message = asked.shown
    else:
        decision: dict[str, Any] = {"type": "string", "enum": ["approve", "deny"]}
        schema = _object({"decision": decision, "reason": {"type": "string"}}, ["decision"])
        message = asked.shown
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


async def respond(
    service: Service, asking: Principal, asked: Asked, response: ElicitResult, token: ReplyToken
) -> bool:
    """Settle what is asked by a response; whether it did, since a dismissed form settles nothing.

    Args:
        service: The service.
        asking: Who responds.
        asked: What is asked.
        response: The response.
        token: The token of the task that asks.

    Raises:
        Problem: It is a call, and the principal is no approver.
        RunError: The run does not take the answer.
    """
    if response.action == "cancel":
        return False
    wait, content = asked.wait, dict(response.content or {})
    run = await service.run(asking, asked.run_id)
    if isinstance(wait, AwaitConfirmation):
        check_fields(content, ("decision", "reason"))
        approved = response.action == "accept" and content.get("decision") == "approve"
        audit.bind_answer(asked.run_id, wait.id, approved=approved, digest=wait.payload_digest)
        _require_approver(asking, asked, wait, token, approved=approved)
        reason = "" if approved else str(content.get("reason") or "")
        await decide(asking, run, wait, approved=approved, digest=wait.payload_digest, reason=reason)
        return True
    audit.bind_answer(asked.run_id, wait.id)
    require(asking, "user")
    if response.action == "decline":
        await run.decline(wait.id, principal=asking)
    elif elicitation_schema(wait.form, wait.missing_fields):
        values = {name: value for name, value in content.items() if value is not None}
        await run.answer(wait.id, values, principal=asking)
    else:
        await run.answer(wait.id, str(content.get("answer") or ""), principal=asking)
    return True


def _require_approver(
    asking: Principal, asked: Asked, wait: AwaitConfirmation, token: ReplyToken, *, approved: bool
) -> None:
    """Check that who responds may decide on a call; else say which call it is, who may, and how the task goes on."""
    try:
        require_approver(asking, wait, approved=approved)
    except Problem as problem:
        detail = f"{problem.detail}, which `{asked.wait.id}` of the run `{asked.run_id}` waits for"
        then = f"{decided_of(asked)} {looks_of(token)}"
        raise Problem(problem.status, problem.code, detail, then=then, run_id=asked.run_id) from None


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


ANSWER = "answer"
"""The tool by which a client that shows no forms answers a question."""


def told_of(waits: Sequence[Asked], token: ReplyToken) -> str:
    """What is asked, who settles it, and how the call goes on."""
    told = [
        f"{asked.shown}\n\n{decided_of(asked)}" if asked.code else without_tokens(asked.shown)
        for asked in waits
    ]
    return "\n\n".join([*told, then_of(waits, token)])


def then_of(waits: Sequence[Asked], token: ReplyToken) -> str:
    """What the client may do."""
    if all(asked.code for asked in waits):
        return (
            f"To deny, call the tool `{ANSWER}` with the answer `no` and a reason. Once it is decided, call it without an answer: "
            f"the agent goes on with task {token.text}."
        )
    return f"To answer, ask the user, and call the tool `{ANSWER}` with task {token.text}."


def looks_of(token: ReplyToken) -> str:
    """How the client looks whether the call goes on."""
    return f"To look whether it goes on, call the tool `{ANSWER}` without an answer, with task {token.text}."


def decided_of(asked: Asked) -> str:
    """Who decides on a call, and how."""
    return (
        f"It waits for somebody with the role `approver`, as `{asked.wait.id}` of the run `{asked.run_id}`. It is approved by "
        f"`sojourn approve {asked.run_id} {asked.wait.id}`, by `POST /v1/runs/{asked.run_id}/approvals` with the digest that "
        f"`GET /v1/runs/{asked.run_id}` shows, or in another client; not by the tool `{ANSWER}`."
    )
