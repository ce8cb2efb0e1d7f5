"""Problem details (RFC 9457) for every refused or failed request.

Each has a code, and says what to do next. An HTTP client may be a stranger. So `redact` takes out of every response
what is for operators only: the file and line of an author's code, and the identity of a Temporal client, which by
default is a process id and a host. Operators find both in Temporal's own history and at the command line.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.event import BaseEvent
from sojourn.contracts.run import CallStatus, RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.error_kinds import details_of, kind_of
from sojourn.errors import InvalidInput, RunFailed, SojournError
from sojourn.reader import STOPPED, FeedStopped
from sojourn.values.text import closest_name

__all__ = [
    "MEDIA_TYPE",
    "NOT_JSON",
    "Fault",
    "Problem",
    "ProblemDetails",
    "ProblemRenderer",
    "install",
    "not_sent_as_json",
    "problem_of",
    "redact",
    "redact_sender",
    "redact_text",
    "render_problem",
    "set_renderer",
    "stopping_problem",
]

MEDIA_TYPE = "application/problem+json"

NOT_JSON = "not_json"
"""Code of a body whose content type is not JSON, and the type of its fault."""

MAX_DETAIL = 2_000
"""Longest `detail`, in characters."""

MAX_FAULTS = 20
"""Most faults of a request that one problem names."""

SOON = {"Retry-After": "1"}
"""Headers of a problem after which the client may retry the same request in a moment."""


class Fault(BaseModel):
    """One place of a request that breaks a rule."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    place: str
    """Where: `body`, `query`, `path` or `header`, and from there a JSON pointer, such as `body/agent_id`."""
    message: str
    """The rule."""


class ProblemDetails(BaseModel):
    """Why a request was refused or failed (RFC 9457, `application/problem+json`)."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:sojourn:problem:run_not_found",
                    "title": "Run not found",
                    "status": 404,
                    "detail": "there is no run 'clerk-1' here",
                    "code": "run_not_found",
                    "then": "GET /v1/runs lists the runs that you may see.",
                }
            ]
        },
    )

    type: str
    """The code as a URN: `urn:sojourn:problem:` and the code."""
    title: str
    """The code in words; equal for every problem of a code."""
    status: int
    """The HTTP status."""
    detail: str
    """What happened, for a person."""
    code: str
    """The code, for programs."""
    then: str
    """What to do next."""
    run_id: str | None = None
    """The run that it is about."""
    faults: list[Fault] | None = None
    """The places of the request that break a rule, at most 20."""
    await_id: str | None = None
    """The wait; with `approval_void`: the one with which the run asks again."""
    outcome: str | None = None
    """With `already_answered`: the first answer in one word, such as `approved`."""
    answered_by: str | None = None
    """With `already_answered`: who gave it; left out if that is not recorded."""
    answered_at: str | None = None
    """With `already_answered`: when, as an ISO 8601 time; left out if that is not known."""
    quota: str | None = None
    """With `tenant_quota_exceeded`: the limit that is reached, `runs` or `starts_per_minute`."""
    limit: int | None = None
    """With `tenant_quota_exceeded`: that limit."""
    changes: list[str] | None = None
    """With `approval_void`: the changes of the tool since it was displayed."""


class Problem(Exception):  # noqa: N818 - the RFC's name for it
    """Raised by a route or middleware to answer with these problem details.

    `more` are further members.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        then: str,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.then = then
        self.headers = dict(headers or {})
        self.more = {name: value for name, value in more.items() if value not in (None, [])}

    @property
    def members(self) -> dict[str, Any]:
        return {
            "type": f"urn:sojourn:problem:{self.code}",
            "title": self.code.replace("_", " ").capitalize(),
            "status": self.status,
            "detail": self.detail[:MAX_DETAIL],
            "code": self.code,
            "then": self.then,
            **self.more,
        }

    def response(self) -> JSONResponse:
        return JSONResponse(self.members, self.status, headers=self.headers, media_type=MEDIA_TYPE)


ProblemRenderer = Callable[[Problem], Response]
"""Renders a problem in the format of a protocol."""

_RENDERER = "sojourn.problem_renderer"


def set_renderer(scope: Scope, render: ProblemRenderer) -> None:
    scope[_RENDERER] = render


def render_problem(problem: Problem, scope: Scope) -> Response:
    """Render a problem in the request's protocol, by default as problem details."""
    render: ProblemRenderer | None = scope.get(_RENDERER)
    return problem.response() if render is None else render(problem)


def problem_of(error: Exception) -> Problem:
    """Return an error's problem details. An unexpected one does not show its text."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _of_status(error)
    kind = kind_of(error)
    if kind is None:
        return Problem(
            500,
            "internal_error",
            "the service failed; its log says why",
            then="Report it to the operator of the service, with the time.",
        )
    return Problem(
        kind.status,
        kind.code,
        redact_text(str(error)) if isinstance(error, RunFailed) else str(error),
        then=kind.then,
        headers=SOON if kind.status in (429, 503) else None,
        **details_of(error),
        faults=[_fault_of(error.part, each) for each in error.faults[:MAX_FAULTS]]
        if isinstance(error, InvalidInput)
        else None,
    )


def _fault_of(part: str, fault: Mapping[str, str]) -> dict[str, Any]:
    """Return a field of an answer, or of edited arguments, as a place of the body."""
    place = f"body/{part}{fault.get('field', '')}"
    return Fault(place=place, message=fault.get("message", "")[:500]).model_dump()


def stopping_problem() -> Problem:
    """Return the problem of a request whose process is shutting down."""
    return problem_of(FeedStopped(STOPPED))


_BY_STATUS = {
    400: ("bad_request", "Send JSON in UTF-8."),
    404: ("not_found", "The paths are in the OpenAPI document, at /openapi.json."),
    405: ("method_not_allowed", "The header Allow has the methods of this path."),
    413: ("too_large", "Send less."),
}


def _of_status(error: HTTPException) -> Problem:
    code, then = _BY_STATUS.get(
        error.status_code, (HTTPStatus(error.status_code).name.lower(), "Correct the request.")
    )
    return Problem(error.status_code, code, error.detail, then=then, headers=error.headers)


def not_sent_as_json() -> Problem:
    then = "Send it with the header `Content-Type: application/json`."
    return Problem(415, NOT_JSON, "the body was not sent as JSON", then=then)


def _of_validation(error: RequestValidationError, request: Request) -> Problem:
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return Problem(400, "malformed_json", "the body is not JSON", then="Send one JSON value in UTF-8.")
    if any(each["type"] == NOT_JSON for each in found):
        return not_sent_as_json()
    faults = [
        Fault(place="/".join(_escape(part) for part in each["loc"]), message=_message(each, request)[:500])
        for each in found[:MAX_FAULTS]
    ]
    detail = "; ".join(f"{fault.place.removeprefix('body/')}: {fault.message}" for fault in faults[:3])
    return Problem(
        422,
        "invalid_request",
        detail,
        then="Correct the places in `faults`; /openapi.json has the schema.",
        faults=[fault.model_dump() for fault in faults],
    )


def _message(fault: Mapping[str, Any], request: Request) -> str:
    """Return the rule that a place of a request breaks.

    For an unknown field of the body, name the similar one that the body has.
    """
    if fault["type"] != "extra_forbidden" or fault["loc"][0] != "body":
        return str(fault["msg"]).removeprefix("Value error, ")
    body = getattr(request.scope.get("route"), "body_field", None)
    kind: Any = body and body.field_info.annotation
    known: list[str] = list(getattr(kind, "model_fields", ())) if len(fault["loc"]) == 2 else []
    name = str(fault["loc"][-1])
    part = next((each for each in known if name.endswith(f"_{each}") or each.endswith(f"_{name}")), None)
    closest = part or closest_name(name, known)
    return f"there is no such field; did you mean {closest!r}?" if closest else "there is no such field"


def _escape(part: Any) -> str:
    return str(part)[:100].encode(errors="replace").decode().replace("~", "~0").replace("/", "~1")


def install(web: FastAPI, methods: Sequence[tuple[re.Pattern[str], Collection[str]]]) -> None:
    """Answer every error with a problem. `methods` are those of the paths."""

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return render_problem(_of_validation(error, request), request.scope)

    async def answer_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code != 405:
            return render_problem(problem_of(error), request.scope)
        path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        fits = [(pattern.pattern, names) for pattern, names in methods if pattern.match(path)]
        # only the first pattern counts: a later match would read the end of the path as part of an id
        allowed = {method for pattern, names in fits if pattern == fits[0][0] for method in names}
        error.headers = {"Allow": ", ".join(sorted(allowed))}  # Starlette names the methods of one route only
        return render_problem(problem_of(error), request.scope)

    async def answer_known_error(request: Request, error: Exception) -> Response:
        return render_problem(problem_of(error), request.scope)

    web.add_exception_handler(RequestValidationError, validation)
    web.add_exception_handler(HTTPException, answer_refusal)
    for kind in (Problem, SojournError):
        web.add_exception_handler(kind, answer_known_error)
    web.add_exception_handler(Exception, answer_known_error)  # the server logs the exception as well


T = TypeVar("T")

_PLACE = re.compile(r" \([^()\s:/\\]{1,100}\.pyw?:[0-9]{1,9}\)(?![\w(])")
"""File and line at the end of an exception's text, or before its cause."""

_SENDER = re.compile(r" by (?:[0-9]{1,10}|temporal-cli:[^\s@]{1,100})@[\w.@-]{1,300}")
"""Identity of a Temporal client, as error texts name it after `by`."""

_TEXTS: Mapping[type[BaseModel], tuple[str, ...]] = {
    CallStatus: ("error",),
    RunStatus: ("failure", "hints"),
    ToolError: ("message",),
}
"""Fields with error texts, from which both are redacted."""

_TEXTS_OF_EVENTS: Mapping[str, tuple[str, ...]] = {
    "run_canceled": ("text",),
    "run_failed": ("text",),
    "run_terminated": ("text",),
    "tool_retry": ("error",),
}
"""Fields with error texts, by the type of the event."""


def redact_text(text: str) -> str:
    """Redact places in code and names of Temporal's clients from an error text."""
    return redact_sender(_PLACE.sub("", text))


def redact_sender(text: str) -> str:
    """Redact names of Temporal's clients from an error text."""
    return _SENDER.sub("", text)


def redact(value: T) -> T:
    """Return a value redacted, or the value itself if there is nothing to redact."""
    return cast("T", _redact(value))


def _redact(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _redact_record(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        redacted = [_redact(item) for item in items] if items and _is_read(items[0]) else items
        return redacted if any(new is not old for new, old in zip(redacted, items, strict=True)) else items
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        is_read = any(_is_read(item) for item in fields.values())
        return {name: _redact(item) for name, item in fields.items()} if is_read else fields
    return value


def _is_read(value: Any) -> bool:
    """Return whether a value can contain records. Plain JSON is sent unchanged."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return bool(items) and _is_read(items[0])
    return isinstance(value, BaseModel)


def _redact_record(record: BaseModel) -> BaseModel:
    changes: dict[str, Any] = {}
    for name in type(record).model_fields:
        before = getattr(record, name)
        after = _redact(before)
        if after is not before:
            changes[name] = after
    for name in _texts_of(record):
        about = getattr(record, name)
        if about:
            changes[name] = (
                redact_text(about) if isinstance(about, str) else [redact_text(each) for each in about]
            )
    if isinstance(record, AttachmentRecord) and record.claim:
        changes["claim"] = {}
    hidden = "place" if isinstance(record, ToolError) else "identity" if isinstance(record, BaseEvent) else ""
    if hidden and getattr(record, hidden, None) is not None:
        changes[hidden] = None
    return record.model_copy(update=changes) if changes else record


def _texts_of(record: BaseModel) -> tuple[str, ...]:
    found = next((_TEXTS[kind] for kind in type(record).__mro__ if kind in _TEXTS), None)
    return found or _TEXTS_OF_EVENTS.get(str(getattr(record, "type", "")), ())
