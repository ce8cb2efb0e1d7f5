"""Tasks extension for MCP.

A call returns a task at once, which the client polls by its id.

The SDK has the seam for extensions but not this extension. The wire format is that of SEP-2663
(`io.modelcontextprotocol/tasks`). A task is a token in the history of a run. So there is no store of
tasks, and a task lives as long as Temporal keeps the run.
"""

from datetime import UTC, datetime
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    ClientCapabilities,
    ElicitResult,
    MissingRequiredClientCapabilityErrorData,
    RequestParams,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import Field, ValidationError

from sojourn.http.problems import Problem
from sojourn.http.protocols.mcp.content import (
    Context,
    asking_of,
    elicitation_of,
    key_of,
    respond,
    result_of,
    with_mcp_errors,
)
from sojourn.http.protocols.messages import stop, token_of_task
from sojourn.http.protocols.reply import AgentReply, read
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.security import audit
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = ["TASKS", "declares_tasks", "serve_tasks", "task_result"]

TASKS = "io.modelcontextprotocol/tasks"
"""The name of the extension."""

POLL = 1_000
"""Milliseconds after which a client may ask again."""


class TaskParams(RequestParams):
    """The task that a request is about."""

    task_id: str


class UpdateParams(TaskParams):
    """Responses to a task's requests for input."""

    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


def declares_tasks(context: Context) -> bool:
    """Return whether the client of a request accepts a task in place of a result."""
    capabilities = context.session.client_capabilities
    return bool(capabilities and TASKS in (capabilities.extensions or {}))


def task_result(token: ReplyToken) -> dict[str, Any]:
    return {"resultType": "task", **_task(AgentReply(token), "working")}


def serve_tasks(server: Server[Any], service: Service) -> None:
    async def get(context: Context, params: TaskParams) -> dict[str, Any]:
        audit.bind_read(call="tasks/get")
        _check_request(context, params)
        asking = asking_of(context)
        require(asking, "viewer")
        token = await token_of_task(service, asking, params.task_id)
        audit.bind_read(run_id=token.run_id)
        reply = await read(service, token, is_task=True)
        return {"resultType": "complete", **_task_with_outcome(reply)}

    async def update(context: Context, params: UpdateParams) -> dict[str, Any]:
        audit.bind(call="tasks/update")
        _check_request(context, params)
        asking = asking_of(context)
        require(asking, "user")
        token = await token_of_task(service, asking, params.task_id)
        reply = await read(service, token, is_task=True)
        for view in reply.waits:
            response = params.input_responses.get(key_of(view))
            if response is not None:
                await respond(service, asking, view, _response(response), token)
        return {"resultType": "complete"}

    async def cancel(context: Context, params: TaskParams) -> dict[str, Any]:
        audit.bind(call="tasks/cancel")
        _check_request(context, params)
        asking = asking_of(context)
        token = await token_of_task(service, asking, params.task_id)
        if (await read(service, token, is_task=True)).state in ("open", "asked"):
            await stop(service, asking, token)
        return {"resultType": "complete"}

    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, with_mcp_errors(get))
    server.add_request_handler("tasks/update", UpdateParams, with_mcp_errors(update))
    server.add_request_handler("tasks/cancel", TaskParams, with_mcp_errors(cancel))


def _check_request(context: Context, params: TaskParams) -> None:
    """Check that a client has declared tasks, and names the task in the header.

    Proxies route by this header (SEP-2663).
    """
    if not declares_tasks(context):
        needed = ClientCapabilities(extensions={TASKS: {}})
        data = MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"the client has not declared the extension {TASKS}",
            data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    named = context.request.headers.get(MCP_NAME_HEADER) if context.request is not None else None
    if named is not None and decode_header_value(named) != params.task_id:
        raise MCPError(HEADER_MISMATCH, f"the header {MCP_NAME_HEADER} names another task than taskId")


def _response(value: Any) -> ElicitResult:
    try:
        return ElicitResult.model_validate(value)
    except ValidationError as error:
        raise Problem(
            422, "invalid_input", "a response is that of an elicitation", then="Send action and content."
        ) from error


def _task_with_outcome(reply: AgentReply) -> dict[str, Any]:
    if reply.state == "asked":
        requests = {
            key_of(view): elicitation_of(view).model_dump(by_alias=True, mode="json", exclude_none=True)
            for view in reply.waits
        }
        return {**_task(reply, "input_required"), "inputRequests": requests}
    if reply.state == "open":
        return _task(reply, "working")
    if reply.is_canceled:
        return _task(reply, "cancelled")
    result = result_of(reply).model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**_task(reply, "completed"), "result": result}


def _task(reply: AgentReply, status: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    begun = datetime.fromtimestamp(reply.begun_at, UTC) if reply.begun_at else now
    return {
        "taskId": reply.token.text,
        "status": status,
        "createdAt": begun.isoformat(),
        "lastUpdatedAt": (reply.at or begun).isoformat(),
        "ttlMs": None,
        "pollIntervalMs": POLL,
    }
