"""ASGI application for A2A, which hands each request to a `fasta2a` application."""

import asyncio
import hashlib
import json
from importlib import import_module
from typing import Any, cast

from pydantic import ValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.errors import SojournError
from sojourn.http.event_streams import BEAT, HEARTBEAT, STALL, until_one_ends
from sojourn.http.problems import Problem, not_sent_as_json, problem_of
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.routes.parameters import RequestScope
from sojourn.http.security import audit
from sojourn.http.security.principals import principal_of
from sojourn.http.security.requests import is_stream
from sojourn.http.service import Service
from sojourn.values.json_fault import json_fault

__all__ = ["FILE_PATHS", "A2AEndpoint", "answer_with_heartbeats"]

FILE_PATHS = (("params", "message", "parts", "*", "raw"),)
"""Where the data of files stands in a body."""

_MODES = ["text/plain", "application/json"]
_KNOWN = (Problem, SojournError, ValidationError)
_CODES = {400: -32700, 404: -32001, 403: -32600, 409: -32004, 415: -32005}
_OF_PROBLEM = {
    "task_not_cancelable": -32002,
    "push_not_supported": -32003,
    "version_not_supported": -32009,
}
_REASONS = {
    -32001: "TASK_NOT_FOUND",
    -32002: "TASK_NOT_CANCELABLE",
    -32003: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    -32004: "UNSUPPORTED_OPERATION",
    -32005: "CONTENT_TYPE_NOT_SUPPORTED",
    -32009: "VERSION_NOT_SUPPORTED",
}
"""Reasons of the protocol's errors (A2A 1.0, section 3.3.2). Any other error has its own code."""

_VERSIONS = ("", "0.3", "1.0")
"""Versions of the protocol that a header may name. An empty one means 0.3 (A2A 1.0, section 3.6)."""
_MAX_METHOD = 100
_READS = (
    "GetTask",
    "ListTasks",
    "SubscribeToTask",
    "GetExtendedAgentCard",
    "tasks/get",
    "tasks/list",
    "tasks/resubscribe",
    "agent/getAuthenticatedExtendedCard",
)
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
"""Type of the data of an A2A error (A2A 1.0, section 9.5)."""
_Rpc = dict[str, Any] | None
"""The readable part of a JSON-RPC request, or None if the request has no body and is not JSON-RPC."""

_STREAMS = ("SendStreamingMessage", "message/stream")


class A2AEndpoint:
    """ASGI endpoint for A2A requests. The library is imported on the first request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._service.open()
        request, body = Request(scope, receive), b""
        rpc: _Rpc = None
        try:
            if request.method == "POST":
                body = await request.body()
                audit.bind_jsonrpc()
                rpc = {} if body else None
                _check_headers(request)
                value = _parse(body)
                rpc = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
                _check(value)
                body = _with_json_names(rpc, body)
                if (method := rpc["method"]) in _READS:
                    audit.bind_read(call=method, **_run_of(rpc))
                else:
                    audit.bind(call=method[:_MAX_METHOD])
                _check_supported(method)
                if method == "SubscribeToTask":
                    await self._require_open(request, rpc)
            app = self._app(request, rpc)
            inner = {**scope, "path": request.path_params.get("rest") or "/", "root_path": ""}
            inner["raw_path"] = inner["path"].encode()
            async with app.task_manager:
                await _answer(app, inner, _replay(body, receive), send)
        except _KNOWN as error:
            await _error(error, rpc)(scope, receive, send)

    async def _require_open(self, request: Request, rpc: dict[str, Any]) -> None:
        asking, task_id = principal_of(request.scope), rpc.get("params", {}).get("id")
        if asking is not None and isinstance(task_id, str):  # otherwise the library reports what is missing
            rooms = import_module("sojourn.http.protocols.a2a.broker")
            await rooms.require_open(self._service, asking, task_id)

    def _app(self, request: Request, rpc: _Rpc) -> Any:
        agent_id = request.path_params["agent_id"]
        asking = principal_of(request.scope)
        if asking is None:
            raise RuntimeError("the request has passed no security middleware")
        agent = self._service.agent(agent_id)
        storage = import_module("sojourn.http.protocols.a2a.tasks").RunStorage(
            self._service, asking, agent_id
        )
        rooms = import_module("sojourn.http.protocols.a2a.broker")
        attending, waits = RequestScope(self._service, request.scope), _waits(rpc or {})
        attending.hold()
        if waits or (rpc or {}).get("method") in _STREAMS:
            attending.count()
        broker = rooms.RunBroker(attending, asking, storage, waits=waits)
        about = agent.description or f"The agent {agent_id}."
        skill = {"id": agent_id, "name": agent_id, "description": about, "tags": ["agent"]}
        modes = {"input_modes": _MODES, "output_modes": _MODES}
        app = import_module("fasta2a").FastA2A(
            storage=storage,
            broker=broker,
            name=agent_id,
            url=_address(request),
            description=about,
            skills=[{**skill, **modes}],
            docs_url=None,
            exception_handlers={
                **dict.fromkeys((*_KNOWN, Exception), _error_handler(rpc)),
                HTTPException: _error_handler(
                    None
                ),  # wrong path or method, which is not an error of the protocol
            },
            default_input_modes=_MODES,
            default_output_modes=_MODES,
        )
        manager = import_module("sojourn.http.protocols.a2a.broker")
        app.task_manager = manager.RunTaskManager(broker=broker, storage=storage)
        return app


def _address(request: Request) -> str:
    rest = request.path_params.get("rest") or ""
    return str(request.url.replace(query="", fragment="")).removesuffix(rest).removesuffix("/") + "/"


def _run_of(rpc: dict[str, Any]) -> dict[str, str]:
    """Return the run of the task that a call names, for the audit."""
    params: Any = rpc.get("params")
    task_id: Any = cast("dict[str, Any]", params).get("id") if isinstance(params, dict) else None
    token = ReplyToken.parse(task_id) if isinstance(task_id, str) else None
    return {"run_id": token.run_id} if token else {}


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise not_sent_as_json()
    version = request.headers.get("a2a-version", "").strip()
    if version not in _VERSIONS:
        detail = f"version {version[:20]!r} of A2A is not spoken"
        raise Problem(400, "version_not_supported", detail, then="Use version 1.0.")


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise Problem(
            400, "malformed_json", "the body is not JSON", then="Send one JSON value in UTF-8."
        ) from None


def _check(rpc: Any) -> None:
    """Check that a value is a JSON-RPC request, since the library assumes that."""
    if fault := json_fault(rpc, max_bytes=None):
        raise Problem(422, "invalid_request", fault.message, then="Correct it.")
    fields = cast("dict[str, Any]", rpc) if isinstance(rpc, dict) else dict[str, Any]()
    if not isinstance(fields.get("method"), str) or not isinstance(fields.get("params", {}), dict):
        raise Problem(422, "invalid_request", "the request is none of A2A", then="Correct it.")


def _with_json_names(rpc: dict[str, Any], body: bytes) -> bytes:
    """Rename a field that the protocol's schema has in snake_case."""
    params = rpc.get("params", {})
    if "history_length" not in params or "historyLength" in params:
        return body
    params["historyLength"] = params.pop("history_length")
    return json.dumps(rpc).encode()


def _check_supported(method: str) -> None:
    if method in ("ListTasks", "tasks/list"):
        then = "Get a task by its id; GET /v1/sessions lists conversations."
        raise Problem(409, "lists_not_supported", "there are no lists of tasks", then=then)
    if "pushnotification" in method.lower():
        then = "Follow the task by SubscribeToTask, or let the app send notices."
        raise Problem(422, "push_not_supported", "there are no push notifications", then=then)


def _waits(rpc: dict[str, Any]) -> bool:
    try:
        params: Any = rpc.get("params") or {}
        settings: Any = params.get("configuration") or {}
        if rpc.get("method") == "SendMessage":
            return settings.get("returnImmediately") is not True
        return rpc.get("method") == "message/send" and settings.get("blocking") is True
    except AttributeError:
        return False


async def _answer(app: Any, scope: Scope, receive: Receive, send: Send) -> None:
    """Hold back the start of the response until the first part of its body.

    A stream that fails before its first event then still gets an error response.
    """
    held: list[Message] = []
    is_sent = False

    async def forward(message: Message) -> None:
        nonlocal is_sent
        if message["type"] == "http.response.start":
            held.append(message)
            return
        is_sent = True
        if held and scope["method"] == "GET" and held[0]["status"] == 200:
            _let_cache(held[0], message["body"])
        while held:
            await send(held.pop(0))
        await send(message)

    try:
        await answer_with_heartbeats(app, scope, receive, forward)
    except RuntimeError as error:  # Starlette raises it if an exception handler runs too late
        if isinstance(error.__cause__, _KNOWN) and not is_sent:
            raise error.__cause__ from None
        raise


def _let_cache(start: Message, card: bytes) -> None:
    """Let a client cache an agent card for a minute (A2A 1.0, section 8.6.1)."""
    headers = MutableHeaders(scope=start)
    headers["Cache-Control"] = "private, max-age=60"
    headers["ETag"] = f'"{hashlib.sha256(card).hexdigest()[:32]}"'


def _replay(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return parts.pop() if parts else await receive()

    return receive_again


def _error_handler(rpc: _Rpc) -> Any:
    async def answer_error(_request: Request, error: Exception) -> JSONResponse:
        return _error(error, rpc)

    return answer_error


def _error(error: Exception, rpc: _Rpc) -> JSONResponse:
    if isinstance(error, ValidationError):
        problem = Problem(422, "invalid_request", "the request is none of A2A", then="Correct it.")
        code = -32600
    else:
        problem = problem_of(error)
        code = _CODES.get(problem.status, -32603 if problem.status >= 429 else -32602)
        code = _OF_PROBLEM.get(problem.code, code)
    if rpc is None:
        return problem.response()
    audit.bind(code=problem.code)
    id = rpc.get("id")
    about = {"code": problem.code, "then": problem.then}
    reason = _REASONS.get(code, problem.code.upper())
    info = {"@type": _INFO, "reason": reason, "domain": "a2a-protocol.org", "metadata": about}
    error_object = {"code": code, "message": problem.detail, "data": [info]}
    answer = {"jsonrpc": "2.0", "id": id if isinstance(id, str | int) else None, "error": error_object}
    return JSONResponse(answer, headers=problem.headers)


async def answer_with_heartbeats(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Call an application, and add heartbeats if its response is an event stream.

    Any other response passes through unchanged. Raises what the application raises.
    """
    answer = _LiveResponse(send)
    answering = asyncio.create_task(_call_app(app, scope, receive, answer), name="answer")
    beating = asyncio.create_task(answer.beat(), name="heartbeat")
    await until_one_ends(answering, beating)
    if not answer.is_dropped and not answering.cancelled():
        answering.result()


async def _call_app(app: ASGIApp, scope: Scope, receive: Receive, answer: "_LiveResponse") -> None:
    await app(scope, receive, answer.send)


class _LiveResponse:
    def __init__(self, send: Send) -> None:
        self.is_dropped = False
        """Whether the client took nothing for too long."""
        self._to = send
        self._is_stream = self._is_begun = False
        self._told = asyncio.Event()
        self._sending = asyncio.Lock()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_stream = is_stream(message)
            if self._is_stream:
                MutableHeaders(scope=message)["X-Accel-Buffering"] = "no"  # else a proxy may hold it back
        await self._send(message)
        if message["type"] == "http.response.body":
            self._is_begun = message.get("more_body", False)
            self._told.set()

    async def beat(self) -> None:
        """Send a comment when a stream that has begun is idle for `HEARTBEAT`."""
        while not self.is_dropped:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._told.wait()
                self._told.clear()
            except TimeoutError:
                if self._is_stream and self._is_begun:
                    await self._beat()

    async def _beat(self) -> None:
        try:
            await self._send({"type": "http.response.body", "body": BEAT, "more_body": True})
        except TimeoutError:
            return

    async def _send(self, message: Message) -> None:
        try:
            async with self._sending, asyncio.timeout(STALL if self._is_stream else None):
                await self._to(message)
        except TimeoutError:
            self.is_dropped = True
            self._told.set()
            raise
