"""Errors in the shape that OpenAI's clients turn into exceptions."""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of

__all__ = ["OpenAIRoute", "answer_of", "error_of", "refused"]

_log = structlog.get_logger("sojourn.http")


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with its errors as responses in OpenAI's format."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return _of_validation(error)
            except (Problem, SojournError, HTTPException) as error:
                return _answer(error)
            except Exception as error:  # noqa: BLE001 - the application's own response would have another shape
                _log.error("request_failed", path=request.url.path, exc_info=error)
                return _answer(error)

        return handled


def _answer(error: Exception) -> JSONResponse:
    return answer_of(problem_of(error))


def answer_of(problem: Problem) -> JSONResponse:
    """Return a problem as a response."""
    return JSONResponse(error_of(problem), problem.status, headers=problem.headers)


def refused(
    message: str, param: str | None = None, *, status: int = 400, code: str = "invalid_value"
) -> Problem:
    """Return the problem of a request that the service cannot fulfill."""
    return Problem(status, code, message, then="Correct the request.", param=param)


_NO_PATH = "this service has only models, chat/completions and responses of OpenAI's API"


def error_of(problem: Problem) -> dict[str, Any]:
    """Return the body of an error."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    usual = "server_error" if problem.status >= 500 else "invalid_request_error"
    told = {
        "message": _NO_PATH if problem.code == "not_found" else problem.detail,
        "type": kinds.get(problem.status, usual),
        "param": problem.more.get("param"),
        "code": problem.code,
    }
    return {"error": told}


def _of_validation(error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse(error_of(refused("the body is not JSON", code="malformed_json")), 400)
    place = ".".join(str(each)[:100] for each in first["loc"][1:])
    problem = refused(f"{place}: {first['msg']}"[:500] if place else str(first["msg"])[:500], place or None)
    return JSONResponse(error_of(problem), 400)
