"""Write the audit log, one line per decision.

A decision is a request that changes something, and any request that is refused, also inside a JSON-RPC
response. A line has the principal, the request, the hash of the body, the address, the outcome, and what
the code that decides adds by `bind`. The logger is `sojourn.http.audit`.

An `AuditSink` gets each line before its response is sent, and a line for each request that only read. So what
it does not take is not answered: a record with gaps proves nothing.
"""

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.errors import DefinitionError
from sojourn.http.security.disconnect import is_admitted
from sojourn.http.security.limits import is_unlogged
from sojourn.http.security.principals import principal_of
from sojourn.http.security.requests import media_type, path_of
from sojourn.private import private_opener

__all__ = [
    "AuditFile",
    "AuditLog",
    "AuditSink",
    "bind",
    "bind_answer",
    "bind_jsonrpc",
    "bind_read",
    "note_repetition",
]

AuditSink = Callable[[dict[str, Any]], None]
"""Takes the record of one request. An exception makes the request fail."""

_READS = ("GET", "HEAD", "OPTIONS")
_MAX_PROBLEM = 20_000

_LEFT = 499
"""The status in the line of a request whose client disconnected before the response."""

_log = structlog.get_logger("sojourn.http.audit")


@dataclass(slots=True)
class AuditFields:
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Waits that were answered."""
    reads: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the request reads, for the record of one that does nothing else."""
    only_calls: bool = False
    """Whether the path takes JSON-RPC calls. Only bound or refused ones are decisions."""

    @property
    def line(self) -> dict[str, Any]:
        further = {"further": self.answers[1:]} if self.answers[1:] else {}
        return {**self.fields, **(self.answers[0] if self.answers else {}), **further}

    @property
    def is_decision(self) -> bool:
        return not self.only_calls or not {"call", "code"}.isdisjoint(self.fields)


_fields: ContextVar[AuditFields | None] = ContextVar("sojourn.audit", default=None)


def _begin(fields: AuditFields) -> None:
    _fields.set(fields)


def bind(**fields: Any) -> None:
    """Add fields to the line of the request, such as the `code` of a refusal."""
    if (found := _fields.get()) is not None:
        found.fields.update(fields)


def bind_read(**fields: Any) -> None:
    """Add fields to the record of a request that only reads, such as its `run_id`."""
    if (found := _fields.get()) is not None:
        found.reads.update(fields)


def bind_answer(run_id: str, await_id: str, **decided: Any) -> None:
    """Add an answered wait to the line, with the `digest` of an approval."""
    answer = {"run_id": run_id, "await_id": await_id, **decided}
    if (found := _fields.get()) is not None and answer not in found.answers:
        found.answers.append(answer)


def note_repetition(run_id: str, await_id: str, by: str) -> None:
    """Add to the line that a wait had this answer already, and who gave it."""
    for answer in found.answers if (found := _fields.get()) is not None else ():
        if (answer["run_id"], answer["await_id"]) == (run_id, await_id):
            answer.update(already=True, answered_by=by)


def bind_jsonrpc() -> None:
    """Mark the request as a JSON-RPC call. Only a field makes it a decision."""
    if (found := _fields.get()) is not None:
        found.only_calls = True


class AuditFile:
    """Append records to a file, one line of JSON each.

    The file has mode 0600 when it is made. Several processes may append to one file, and a file that is
    moved away or removed, such as by logrotate, is made anew.

    Args:
        path: The file. Its folder must exist.

    Raises:
        DefinitionError: The file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise DefinitionError(
                f"the audit file {self._path} cannot be written: {error.strerror}; name another, or make its folder"
            ) from error

    def __call__(self, record: dict[str, Any]) -> None:
        """Append a record.

        Raises:
            OSError: The file cannot be written, or not all of the line.
        """
        if not self._is_in_place():
            os.close(self._descriptor)
            self._descriptor = self._open()
        line = json.dumps(record, ensure_ascii=True, default=str).encode() + b"\n"
        # One write, which the system appends as a whole beside those of other processes.
        if (written := os.write(self._descriptor, line)) < len(line):
            raise OSError(f"{self._path} took {written} of {len(line)} bytes of a record")

    def _open(self) -> int:
        return private_opener(str(self._path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def _is_in_place(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        return False


class AuditLog:
    """Write a line for each decision, and give a sink each request."""

    def __init__(self, app: ASGIApp, sink: AuditSink | None = None) -> None:
        self._app = app
        self._sink = sink

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        fields = AuditFields()
        _begin(fields)
        line = _Line(scope, fields, self._sink)

        async def read() -> Message:
            message = await receive()
            line.read(message)
            return message

        async def forward(message: Message) -> None:
            line.see(message)
            await send(message)

        try:
            await self._app(scope, read, forward)
        except Exception:
            line.write(500)
            raise
        except asyncio.CancelledError:
            line.end()
            raise
        line.end()


class _Line:
    """The audit line of one request, which is written once."""

    def __init__(self, scope: Scope, fields: AuditFields, sink: AuditSink | None) -> None:
        self._scope = scope
        self._sink = sink
        self._fields = fields
        self._body = hashlib.sha256()
        self._size = 0
        self._status = 0
        self._problem: bytes | None = None
        """The beginning of a response that is a problem, or a protocol's error."""
        self._is_written = False

    def read(self, message: Message) -> None:
        part = message.get("body", b"")
        self._body.update(part)
        self._size += len(part)

    def see(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            is_told = self._status >= 400 and media_type(message).endswith("json")
            self._problem = b"" if is_told else None
        elif message["type"] == "http.response.body" and self._problem is not None:
            self._problem = (self._problem + message.get("body", b""))[:_MAX_PROBLEM]
        is_early = self._problem is None and not self._fields.only_calls
        if is_early or (message["type"] == "http.response.body" and not message.get("more_body", False)):
            self.write(self._status)

    def end(self) -> None:
        """Write the line of a disconnected request, which may have changed something."""
        if self._status:
            self.write(self._status)
        elif is_admitted(self._scope) and self._scope["method"] not in _READS:
            self.write(_LEFT)

    def write(self, status: int) -> None:
        scope = self._scope
        if self._is_written or is_unlogged(scope):
            return
        is_decision = status >= 400 or (scope["method"] not in _READS and self._fields.is_decision)
        asking, client = principal_of(scope), scope.get("client")
        if not is_decision and (self._sink is None or asking is None):
            return
        self._is_written = True
        fields: dict[str, Any] = {
            "subject": asking.subject if asking else None,
            "tenant": asking.tenant if asking else None,
            "method": scope["method"],
            "path": path_of(scope),
            "status": status,
            "code": _code(self._problem),
            "client": client[0] if client else None,
            "body_digest": f"sha256:{self._body.hexdigest()}" if self._size else None,
            **self._fields.line,
        }
        known = {name: value for name, value in fields.items() if value not in (None, "")}
        if is_decision:
            (_log.info if status < 400 and "code" not in known else _log.warning)("decision", **known)
        if self._sink is not None:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            told = (
                {"event": "decision", **known}
                if is_decision
                else {"event": "read", **known, **self._fields.reads}
            )
            self._sink({"at": at, **told})


def _code(problem: bytes | None) -> str | None:
    try:
        found = json.loads(problem or b"{}")
    except ValueError:
        return None
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    error = members.get("error")
    code = cast("dict[str, Any]", error if isinstance(error, dict) else members).get("code")
    return code if isinstance(code, str) else None
