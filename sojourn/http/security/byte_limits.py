"""Bound the bytes of requests and responses.

A body is bounded in size, nesting, number of values, time and encoding, before a route sees it. The
bytes in flight are bounded for the process and for each principal. A server hands a whole message to
the connection's buffer, which holds it until the client has read it. So a response is sent in pieces,
counts as bytes in flight meanwhile, and is cut off if its client reads it too slowly.
"""

import asyncio
import json
import re
import time
from collections.abc import Hashable, Iterator
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.problems import Problem
from sojourn.http.security.file_bodies import FileBodies, FileReader, received_files, too_large
from sojourn.http.security.limits import charge
from sojourn.http.security.principals import LOCAL, principal_of
from sojourn.http.security.requests import (
    address_of,
    content_length,
    draining,
    has_files,
    header_values,
    mark_aborted,
    path_of,
    refuse,
)
from sojourn.serving.pace import Pace
from sojourn.values.json_text import duplicate_name, name_given_twice

__all__ = [
    "PIECE",
    "BodyLimits",
    "ByteBudget",
    "ByteShare",
    "ResponseLimits",
    "client_key",
    "depth_of",
    "reserve",
]


class ByteBudget:
    """Bytes that all requests share. A principal may have one request with more."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self.taken = 0
        self._by: dict[Hashable, int] = {}

    def share(self, scope: Scope) -> "ByteShare":
        return ByteShare(self, client_key(scope))

    def fault(self, by: Hashable, more: int, own: int) -> Problem | None:
        """Return the problem if this many more bytes do not fit, or None.

        `by` is None for a local client, which only the budget as a whole bounds. `own` are bytes that the request has.
        """
        others = self._by.get(by, 0) - own
        if by is not None and others and others + own + more > self.most_of_one:
            return _try_later(429, "too_many_bytes", f"requests of yours have {others:,} bytes in flight")
        if self.taken - own and self.taken + more > self.most:
            return _try_later(503, "busy", "the service has too many bytes in flight")
        return None

    def change(self, by: Hashable, bytes_: int) -> None:
        self.taken += bytes_
        self._by[by] = self._by.get(by, 0) + bytes_
        if not self._by[by]:
            del self._by[by]


class ByteShare:
    """The bytes of one request."""

    def __init__(self, budget: ByteBudget, by: Hashable) -> None:
        self._budget = budget
        self._by = by
        self.bytes = 0

    def fits(self, more: int) -> bool:
        """Take this many more bytes, if the budget has them."""
        if self._budget.fault(self._by, more, self.bytes):
            return False
        self._add(more)
        return True

    def reach(self, whole: int) -> None:
        """Take bytes up to a total, or raise a problem (429 for this client, 503 for all)."""
        if (more := whole - self.bytes) <= 0:
            return
        if fault := self._budget.fault(self._by, more, self.bytes):
            raise fault
        self._add(more)

    def give_back(self, bytes_: int) -> None:
        self._add(-bytes_)

    def close(self) -> None:
        self._add(-self.bytes)

    def _add(self, more: int) -> None:
        self.bytes += more
        self._budget.change(self._by, more)


def client_key(scope: Scope) -> Hashable:
    """Return the principal, or the address, to count by. None for a local client."""
    asking = principal_of(scope)
    if asking is LOCAL:
        return None
    return address_of(scope) if asking is None else (asking.tenant, asking.subject)


def _try_later(status: int, code: str, detail: str) -> Problem:
    return Problem(
        status,
        code,
        detail,
        then="Send it again after the seconds of Retry-After.",
        headers={"Retry-After": "1", "Connection": "close"},
    )


PIECE = 64 * 1024
"""Most bytes to hand to the connection at once. As many make uvicorn wait for the client."""

STALL = 30.0
"""Seconds in which a client must read a piece."""

SLOWEST = 100_000
"""Average bytes a second at which a client must read a response of known length, in addition to `STALL`."""

RESPONSE_COST = 1_000_000
"""Bytes of a response that cost its principal as much as one request."""

_KEY = "sojourn.response_bytes"


class ResponseLimits:
    """Send responses in pieces, and drop clients that read too slowly."""

    def __init__(self, app: ASGIApp, *, budget: ByteBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        share = scope[_KEY] = self._budget.share(scope)
        answer = _ResponseWriter(scope, share, send)
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            if not answer.is_cut:
                raise
        finally:
            share.close()
        if answer.refused is not None:
            await refuse(answer.refused, scope, receive, send)


def reserve(scope: Scope, more: int) -> bool:
    """Reserve bytes for a part of a response, if the budget has them."""
    share = scope.get(_KEY)
    return share.fits(more) if isinstance(share, ByteShare) else True


class CutOff(TimeoutError):  # noqa: N818 - it passes through the application, which treats it as a client that reads nothing
    """Ends an application whose response was refused or whose client reads nothing."""


class _ResponseWriter:
    def __init__(self, scope: Scope, share: ByteShare, send: Send) -> None:
        self.is_cut = False
        self.refused: Problem | None = None
        self._scope = scope
        self._share = share
        self._send = send
        self._until: float | None = None

    async def send(self, message: Message) -> None:
        if self.is_cut:
            raise CutOff
        if message["type"] == "http.response.start":
            self._begin(message)
            await self._send(message)
        elif message["type"] == "http.response.body" and (body := message.get("body", b"")):
            await self._pieces(body, message)
        else:
            await self._within(message)

    def _begin(self, start: Message) -> None:
        length = content_length(start)
        if length is None:
            return
        try:
            self._share.reach(length)
        except Problem as problem:
            self.refused, self.is_cut = problem, True
            raise CutOff from problem
        self._until = time.monotonic() + STALL + length / SLOWEST
        charge(self._scope, length / RESPONSE_COST)

    async def _pieces(self, body: bytes, message: Message) -> None:
        more = message.get("more_body", False)
        if self._until is None:  # a stream has only what is being sent in flight
            before = self._share.bytes
            if not self._share.fits(len(body)):
                self._cut()
            await self._all(body, more=more)
            self._share.give_back(self._share.bytes - before)
        else:
            await self._all(body, more=more)

    async def _all(self, body: bytes, *, more: bool) -> None:
        whole = memoryview(body)
        for begin in range(0, len(body), PIECE):
            is_last = begin + PIECE >= len(body)
            piece: dict[str, Any] = {"body": bytes(whole[begin : begin + PIECE])}
            await self._within({"type": "http.response.body", **piece, "more_body": more or not is_last})

    async def _within(self, message: Message) -> None:
        left = STALL if self._until is None else min(STALL, self._until - time.monotonic())
        try:
            async with asyncio.timeout(left):
                await self._send(message)
        except TimeoutError:
            self._cut()

    def _cut(self) -> None:
        self.is_cut = True
        mark_aborted(self._scope)
        raise CutOff


MAX_OBJECTS = 20_000
"""Most objects of a body. Each takes a thousand bytes of memory or more, and is validated separately."""

MAX_VALUES = 100_000
"""Most values of a body. A million of them, in 2 MB, would block the event loop for a second."""

LONG = 32 * 1024
"""Size from which the names of a body are compared in a thread, since that takes milliseconds."""

CHUNK = 64 * 1024
"""Bytes of a body to count at once."""

FORM_SHARE = 2_000_000
"""Bytes that a form, or a body, with files counts for: its files go to disk as they arrive."""

OBJECT = 500
"""Bytes that an object counts for, beside its text."""

BODY_COST = 100_000
"""Bytes of a body that cost its principal as much as one request."""

STRANGER_BYTES = 8 * 1024
"""Largest body of a request without a principal: the form to sign in with."""

STRANGER_SECONDS = 10.0
"""Seconds in which that body must arrive."""

_BACKSLASHES = re.compile(rb"\\*")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_CLOSE = {"Connection": "close"}


class BodyLimits:
    """Read the body of a request, and pass the request on if it is within the bounds.

    A form with files is not text, and the route reads it as it arrives. Of a body in JSON that is larger than others
    because of the data of files, the route gets the rest, and the files as `received_files`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: int,
        max_depth: int,
        seconds: float,
        budget: ByteBudget,
        max_form_bytes: int = 0,
        form_seconds: float = 0.0,
        files: FileBodies | None = None,
    ) -> None:
        self._files = files or FileBodies()
        self._max_form_bytes = max_form_bytes or max_bytes
        self._form_seconds = form_seconds or seconds
        self._app = app
        self._budget = budget
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        share = self._budget.share(scope)
        try:
            await self._answer(scope, receive, send, share)
        finally:
            share.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, share: ByteShare) -> None:
        if has_files(scope) and principal_of(scope) is not None:
            await self._stream(scope, receive, send, share)
            return
        reader = self._reader(scope)
        try:
            await self._check(scope, receive, send, share, reader)
        finally:
            if reader is not None:
                reader.files.close()

    async def _check(
        self, scope: Scope, receive: Receive, send: Send, share: ByteShare, reader: FileReader | None
    ) -> None:
        body: bytes | None = None
        is_known = principal_of(scope) is not None
        most = self._max_bytes if is_known else min(STRANGER_BYTES, self._max_bytes)
        try:
            _check_head(scope, self._max_with_files if reader else most)
            body = await self._read(scope, receive, share, most, reader)
            charge(scope, len(body or b"") / BODY_COST)
            if body is not None:
                _check_text(body)
                share.reach(len(body) + OBJECT * await _check_json(body, self._max_depth))
                await _check_names(body)
        except Problem as problem:
            await refuse(problem, scope, receive if body is None else _Replayed(b"", receive), send)
            return
        if body is not None:
            await self._app(scope, _Replayed(body, receive), send)

    @property
    def _max_with_files(self) -> int:
        """Largest body with the data of files, as base64."""
        return self._max_bytes + max(self._max_form_bytes, self._files.max_file_bytes) * 4 // 3

    def _reader(self, scope: Scope) -> FileReader | None:
        """Return a reader for a body that may have files."""
        is_message = scope["method"] == "POST" and principal_of(scope) is not None
        paths = self._files.paths_of(path_of(scope)) if is_message else ()
        if not paths:
            return None
        most = self._files.max_file_bytes
        return FileReader(paths, max_bytes=self._max_bytes, max_file_bytes=most)

    async def _read(
        self, scope: Scope, receive: Receive, share: ByteShare, most: int, reader: FileReader | None
    ) -> bytes | None:
        """Return a body, without the data of its files if it is larger than others.

        Return None if the client disconnects.
        """
        is_known = principal_of(scope) is not None
        seconds = self._seconds if is_known else min(STRANGER_SECONDS, self._seconds)
        parts, is_whole = await _read(receive, share, most, seconds)
        size = sum(map(len, parts))
        if size <= most:
            return b"".join(parts) if is_whole else None
        if reader is None:
            raise _too_large(most)
        share.reach(most + FORM_SHARE)
        for part in parts:
            await reader.feed(part)
        form = _Form(scope, receive, self._max_with_files, self._form_seconds, size)
        while not is_whole:
            message = await form()
            if message["type"] == "http.disconnect":
                return None
            await reader.feed(message.get("body", b""))
            is_whole = form.is_read
        received_files.set(reader.files)
        body = reader.finish()
        _state_length(scope, len(body))
        return body

    async def _stream(self, scope: Scope, receive: Receive, send: Send, share: ByteShare) -> None:
        """Pass on a form with files as it arrives.

        The rest of one that was refused is dropped.
        """
        try:
            _check_head(scope, self._max_form_bytes)
            share.reach(FORM_SHARE)
        except Problem as problem:
            await refuse(problem, scope, receive, send)
            return
        form = _Form(scope, receive, self._max_form_bytes, self._form_seconds)
        await self._app(scope, form, draining(receive, send, lambda: form.is_read))


class _Form:
    """A body with files, counted as it is read."""

    def __init__(self, scope: Scope, receive: Receive, most: int, seconds: float, size: int = 0) -> None:
        self.is_read = False
        self._scope = scope
        self._receive = receive
        self._most = most
        self._until = time.monotonic() + seconds
        self._size = size

    async def __call__(self) -> Message:
        if self.is_read:
            return await self._receive()
        try:
            async with asyncio.timeout(min(STALL, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            self.is_read = True
            raise _slow_body(STALL) from None
        size = len(message.get("body", b""))
        self._size += size
        charge(self._scope, size / RESPONSE_COST)
        self.is_read = message["type"] == "http.disconnect" or not message.get("more_body", False)
        if self._size > self._most:
            raise _too_large(self._most)
        return message


def _check_head(scope: Scope, most: int) -> None:
    (length, *_) = [*header_values(scope, "content-length"), ""]
    if length and header_values(scope, "transfer-encoding"):
        raise Problem(  # a proxy may use the other one, and read the rest as another client's request
            400,
            "bad_request",
            "the request has both a Content-Length and a Transfer-Encoding",
            then="Send one of them.",
            headers=_CLOSE,
        )
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_large(most)
    if any(
        value.strip().lower() not in ("", "identity") for value in header_values(scope, "content-encoding")
    ):
        raise Problem(415, "encoded_body", "the body is compressed", then="Send it as it is.")


async def _read(receive: Receive, share: ByteShare, most: int, seconds: float) -> tuple[list[bytes], bool]:
    """Return a body in parts, up to the first one too many, and whether it is whole."""
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            while size <= most:
                share.reach(size)
                message = await receive()
                if message["type"] == "http.disconnect":
                    return [], False
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if not message.get("more_body", False):
                    share.reach(min(size, most))
                    return parts, True
    except TimeoutError:
        raise _slow_body(seconds) from None
    return parts, False


def _state_length(scope: Scope, length: int) -> None:
    """State the length of what is left of a body, which libraries check."""
    framing = (b"content-length", b"transfer-encoding")
    others = [(name, value) for name, value in scope["headers"] if name not in framing]
    scope["headers"] = [*others, (b"content-length", str(length).encode())]


def _slow_body(seconds: float) -> Problem:
    return Problem(
        408,
        "slow_body",
        f"the body did not arrive within {seconds:g} s",
        then="Send the request again.",
        headers=_CLOSE,
    )


def _too_large(most: int) -> Problem:
    return too_large(f"the body has more than {most:,} bytes")


class _Replayed:
    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


def depth_of(body: bytes, most: int) -> int:
    """Return how deep a body's brackets are nested, counted up to `most`."""
    scan = _Scan(most)
    for chunk in _chunks(body):
        scan.add(chunk)
    return scan.deepest


class _Scan:
    """Count what a JSON body has outside its strings, from the pieces of `_chunks`."""

    def __init__(self, most: int) -> None:
        self.objects = 0
        self.commas = 0
        self.deepest = 0
        self._most = most
        self._depth = 0
        self._is_in_text = 0

    def add(self, chunk: bytes) -> None:
        if b"\\" in chunk:
            chunk = chunk.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = chunk.split(b'"')
        plain = b"".join(parts[self._is_in_text :: 2])
        self._is_in_text ^= (len(parts) - 1) & 1
        self.objects += plain.count(b"{")
        self.commas += plain.count(b",")
        if self.deepest > self._most:
            return
        for sign in plain.translate(None, _NO_BRACKETS):
            self._depth += 1 if sign in b"[{" else -1
            if self._depth > self.deepest:
                self.deepest = self._depth
                if self.deepest > self._most:
                    break


def _chunks(body: bytes) -> Iterator[bytes]:
    """Split a body, but never between a backslash and the character it escapes."""
    begin = 0
    while begin < len(body):
        end = begin + CHUNK
        if body[end - 1 : end] == b"\\":
            run = _BACKSLASHES.match(body, end)
            end = (run.end() if run else end) + 1
        yield body[begin:end]
        begin = end


def _check_text(body: bytes) -> None:
    """Refuse a body that is not in UTF-8 (RFC 8259): Python reads other encodings too."""
    try:
        body.decode()
    except UnicodeDecodeError:
        is_text = False
    else:
        is_text = json.detect_encoding(body) in ("utf-8", "utf-8-sig")
    if not is_text:
        raise Problem(400, "bad_encoding", "the body is not in UTF-8", then="Send JSON in UTF-8.")


async def _check_json(body: bytes, max_depth: int) -> int:
    """Check depth and number of values, and return the most objects of a body.

    The check ends with the first piece that is too much, and yields to the event loop between two pieces.
    """
    objects = body.count(b"{")
    if objects + body.count(b"[") <= max_depth and body.count(b",") < MAX_VALUES:
        return objects
    scan, pace = _Scan(max_depth), Pace()
    for chunk in _chunks(body):
        with pace:
            scan.add(chunk)
        if scan.objects > MAX_OBJECTS or scan.commas >= MAX_VALUES:
            raise Problem(
                413,
                "too_many_values",
                f"the body has more than {MAX_OBJECTS:,} objects, or {MAX_VALUES:,} values",
                then="Send fewer and larger ones; a large table is better passed by reference.",
            )
        if scan.deepest > max_depth:
            detail = f"the body is nested more than {max_depth} levels deep"
            raise Problem(400, "too_deep", detail, then="Send flatter JSON.")
        await pace.rest()
    return scan.objects


async def _check_names(body: bytes) -> None:
    """Refuse a body with a name twice in one object, whichever route reads it."""
    if len(body) < LONG:
        name = duplicate_name(body)
    else:
        name = await asyncio.to_thread(duplicate_name, body)
    if name is not None:
        raise Problem(400, "duplicate_name", name_given_twice(name), then="Send each name once.")
