"""Inputs: what a run asks as an elicitation of MCP, and the response to it as the answer."""

from typing import Any, cast

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.http.deciding import decide, require_approver
from sojourn.http.locks.noted import note_settled
from sojourn.http.locks.principals import require
from sojourn.http.problems import Problem
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.decision import check_fields
from sojourn.http.protocols.mcp.formless import decided_of, looks_of
from sojourn.http.protocols.place import Place
from sojourn.http.service import Service

__all__ = ["key_of", "request_of", "respond"]

_SIMPLE = ("string", "number", "integer", "boolean")
_KEYWORDS = (
    "type",
    "title",
    "description",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "format",
    "default",
)


def key_of(asked: Asked) -> str:
    """The key of a request: of a call, also of its arguments, so that an approval is of what was shown."""
    wait = asked.wait
    bound = f"#{wait.payload_digest[:16]}" if isinstance(wait, AwaitConfirmation) else ""
    return f"{asked.run_id.partition('/')[2]}:{wait.id}{bound}"


def request_of(asked: Asked) -> ElicitRequest:
    """The request for a form that a client shows."""
    wait = asked.wait
    if isinstance(wait, AwaitClarification):
        schema = _form_of(wait) or _object({"answer": {"type": "string"}}, ["answer"])
        message = asked.shown
    else:
        decision: dict[str, Any] = {"type": "string", "enum": ["approve", "deny"]}
        schema = _object({"decision": decision, "reason": {"type": "string"}}, ["decision"])
        message = asked.shown
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


async def respond(
    service: Service, asking: Principal, asked: Asked, response: ElicitResult, place: Place
) -> bool:
    """Settle what is asked by a response; whether it did, since a dismissed form settles nothing.

    Args:
        service: The service.
        asking: Who responds.
        asked: What is asked.
        response: The response.
        place: The place of the task that asks.

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
        note_settled(asked.run_id, wait.id, approved=approved, digest=wait.payload_digest)
        _require_approver(asking, asked, wait, place, approved=approved)
        reason = "" if approved else str(content.get("reason") or "")
        await decide(asking, run, wait, approved=approved, digest=wait.payload_digest, reason=reason)
        return True
    note_settled(asked.run_id, wait.id)
    require(asking, "user")
    if response.action == "decline":
        await run.decline(wait.id, principal=asking)
    elif _form_of(wait):
        values = {name: value for name, value in content.items() if value is not None}
        await run.answer(wait.id, values, principal=asking)
    else:
        await run.answer(wait.id, str(content.get("answer") or ""), principal=asking)
    return True


def _require_approver(
    asking: Principal, asked: Asked, wait: AwaitConfirmation, place: Place, *, approved: bool
) -> None:
    """Check that who responds may decide on a call; else say which call it is, who may, and how the task goes on."""
    try:
        require_approver(asking, wait, approved=approved)
    except Problem as problem:
        detail = f"{problem.detail}, which `{asked.wait.id}` of the run `{asked.run_id}` waits for"
        then = f"{decided_of(asked)} {looks_of(place)}"
        raise Problem(problem.status, problem.code, detail, then=then, run_id=asked.run_id) from None


def _form_of(wait: AwaitClarification) -> dict[str, Any] | None:
    """The form of a question; None where it has none that is flat, as an elicitation's is."""
    fields = cast("dict[str, Any]", (wait.form or {}).get("properties") or {})
    names = [name for name in wait.missing_fields if name in fields] or list(fields)
    if not names or any(cast("dict[str, Any]", fields[name]).get("type") not in _SIMPLE for name in names):
        return None
    kept = {name: {word: fields[name][word] for word in _KEYWORDS if word in fields[name]} for name in names}
    required = [name for name in names if name in wait.missing_fields]
    return _object(kept, required)


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}
