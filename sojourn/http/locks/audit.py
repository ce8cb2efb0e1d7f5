"""Audit: one line in the log for each decision: who asked for what, with which body, from where, and what became of it.

A decision is a request that changes something, and any request that is refused, also inside an answer of JSON-RPC. The logger is `sojourn.http.audit`.
"""

import asyncio
import hashlib
import json
from typing import Any, cast

import structlog
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.locks.limits import is_unlogged
from sojourn.http.locks.noted import Notes, begin
from sojourn.http.locks.presence import has_presence
from sojourn.http.locks.principals import principal_of
from sojourn.http.locks.requests import path_of
from sojourn.http.media_type import media_type

__all__ = ["Audited", "about"]

_READS = ("GET", "HEAD", "OPTIONS")
_KEY = "sojourn.audit"
_MAX_PROBLEM = 20_000

_LEFT = 499
"""In a line, the status of a request that has none since its client has left."""

_log = structlog.get_logger("sojourn.http.audit")


def about(request: HTTPConnection, **fields: Any) -> None:
    """Add to the line of a request what was decided, such as `await_id`, `approved` and the `digest` of what was shown.

    Args:
        request: The request.
        **fields: What is added.
    """
    request.scope.setdefault(_KEY, {}).update(fields)


class Audited:
    """Writes the lines.

    Args:
        app: What is behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, and write its line once it is known what becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        notes = Notes()
        scope[_KEY] = notes.fields
        begin(notes)
        line = _Line(scope, notes)

        async def read() -> Message:
            message = await receive()
            line.read(message)
            return message

        async def sent(message: Message) -> None:
            line.see(message)
            await send(message)

        try:
            await self._app(scope, read, sent)
        except Exception:
            line.write(500)
            raise
        except asyncio.CancelledError:
            line.end()
            raise
        line.end()


class _Line:
    """The line of one request, which is written once."""

    def __init__(self, scope: Scope, notes: Notes) -> None:
        self._scope = scope
        self._notes = notes
        self._body = hashlib.sha256()
        self._size = 0
        self._status = 0
        self._problem: bytes | None = None
        """The beginning of an answer that is a problem, or an error of a protocol."""
        self._is_written = False

    def read(self, message: Message) -> None:
        """Take in a part of the body."""
        part = message.get("body", b"")
        self._body.update(part)
        self._size += len(part)

    def see(self, message: Message) -> None:
        """Take in a part of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            is_told = self._status >= 400 and media_type(message).endswith("json")
            self._problem = b"" if is_told else None
        elif message["type"] == "http.response.body" and self._problem is not None:
            self._problem = (self._problem + message.get("body", b""))[:_MAX_PROBLEM]
        is_early = self._problem is None and not self._notes.only_calls
        if is_early or (message["type"] == "http.response.body" and not message.get("more_body", False)):
            self.write(self._status)

    def end(self) -> None:
        """Write the line of a request whose client has left before its answer, or before its end: it may have changed something all the same."""
        if self._status:
            self.write(self._status)
        elif has_presence(self._scope) and self._scope["method"] not in _READS:
            self.write(_LEFT)

    def write(self, status: int) -> None:
        """Write the line, where the request is a decision."""
        scope = self._scope
        if self._is_written or not (scope["method"] not in _READS or status >= 400) or is_unlogged(scope):
            return
        if status < 400 and not self._notes.is_decision:
            return
        self._is_written = True
        asking, client = principal_of(scope), scope.get("client")
        fields: dict[str, Any] = {
            "subject": asking.subject if asking else None,
            "tenant": asking.tenant if asking else None,
            "method": scope["method"],
            "path": path_of(scope),
            "status": status,
            "code": _code(self._problem),
            "client": client[0] if client else None,
            "body_digest": f"sha256:{self._body.hexdigest()}" if self._size else None,
            **self._notes.line,
        }
        known = {name: value for name, value in fields.items() if value not in (None, "")}
        (_log.info if status < 400 and "code" not in known else _log.warning)("decision", **known)


def _code(problem: bytes | None) -> str | None:
    """The code of a problem, or of an error in OpenAI's shape."""
    try:
        found = json.loads(problem or b"{}")
    except ValueError:
        return None
    told = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    error = told.get("error")
    code = cast("dict[str, Any]", error if isinstance(error, dict) else told).get("code")
    return code if isinstance(code, str) else None
