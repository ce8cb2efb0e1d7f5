"""The principal of an MCP request, and Sojourn's errors as errors of the protocol."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of
from sojourn.http.request_scope import RequestScope
from sojourn.http.security import audit
from sojourn.http.security.principals import principal_of
from sojourn.http.service import Service

__all__ = ["Context", "asking_of", "request_scope_of", "with_mcp_errors"]

Params = TypeVar("Params")
Answer = TypeVar("Answer")

Context = ServerRequestContext[Any, Any]


def asking_of(context: Context) -> Principal:
    """Return the principal that sent a request.

    Raises:
        RuntimeError: The request passed no security middleware.
    """
    found = principal_of(context.request.scope) if context.request is not None else None
    if found is None:
        raise RuntimeError("the request has passed no security middleware")
    return found


def request_scope_of(service: Service, context: Context) -> RequestScope:
    """Return the `RequestScope` of a request.

    Raises:
        RuntimeError: The request passed no security middleware.
    """
    if context.request is None:
        raise RuntimeError("the request has passed no security middleware")
    return RequestScope(service, context.request.scope)


def with_mcp_errors(
    handle: Callable[[Context, Params], Awaitable[Answer]],
) -> Callable[[Context, Params], Awaitable[Answer]]:
    """Return a handler that raises problems as errors of the protocol."""

    async def handled(context: Context, params: Params) -> Answer:
        try:
            return await handle(context, params)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            audit.bind(code=problem.code)
            code = INTERNAL_ERROR if problem.status >= 500 else INVALID_PARAMS
            data = {"code": problem.code, "then": problem.then, **problem.more}
            raise MCPError(code, problem.detail, data) from error

    return handled
