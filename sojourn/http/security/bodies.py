"""Bound the body of a request before a route sees it.

The bounds are on its size, nesting, number of values, time and encoding. Only a form of a page may
have files, which are not text.
"""

import asyncio
import json
import re
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.problems import Problem
from sojourn.http.security.byte_limits import ByteBudget, ByteShare
from sojourn.http.security.limits import charge
from sojourn.http.security.principals import principal_of
from sojourn.http.security.requests import has_files, header_values, refuse
from sojourn.serving.pace import Pace
from sojourn.values.json_text import duplicate_name, name_given_twice

__all__ = ["BodyLimits", "depth_of"]

MAX_OBJECTS = 20_000
"""Most objects of a body. Each takes a thousand bytes of memory or more, and is validated separately."""

MAX_VALUES = 100_000
"""Most values of a body. A million of them, in 2 MB, would block the event loop for a second."""

LONG = 32 * 1024
"""Size from which the names of a body are compared in a thread, since that takes milliseconds."""

CHUNK = 64 * 1024
"""Bytes of a body to count at once."""

OBJECT = 500
"""Bytes that an object counts for, beside its text."""

COST = 100_000
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

    Args:
        app: The application.
        max_bytes: Largest body.
        max_depth: Deepest nesting of its arrays and objects.
        seconds: Longest time for a body to arrive.
        budget: The bytes of bodies in flight.
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, max_depth: int, seconds: float, budget: ByteBudget
    ) -> None:
        self._app = app
        self._budget = budget
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or refuse it.

        Refusals are 400, 408, 413, 415, 429 and 503.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        share = self._budget.share(scope)
        try:
            await self._answer(scope, receive, send, share)
        finally:
            share.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, share: ByteShare) -> None:
        body: bytes | None = None
        is_known = principal_of(scope) is not None
        most = self._max_bytes if is_known else min(STRANGER_BYTES, self._max_bytes)
        seconds = self._seconds if is_known else min(STRANGER_SECONDS, self._seconds)
        try:
            _check_head(scope, most)
            body = await _read(receive, share, most, seconds)
            charge(scope, len(body or b"") / COST)
            if body is not None and not has_files(scope):
                _check_text(body)
                share.reach(len(body) + OBJECT * await _check_json(body, self._max_depth))
                await _check_names(body)
        except Problem as problem:
            await refuse(problem, scope, receive if body is None else _Replayed(b"", receive), send)
            return
        if body is not None:
            await self._app(scope, _Replayed(body, receive), send)


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


async def _read(receive: Receive, share: ByteShare, most: int, seconds: float) -> bytes | None:
    """Return the body, or None if the client disconnected."""
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise _too_large(most)
                share.reach(size)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Problem(
            408,
            "slow_body",
            f"the body did not arrive within {seconds:g} s",
            then="Send the request again.",
            headers=_CLOSE,
        ) from None


def _too_large(most: int) -> Problem:
    return Problem(
        413,
        "too_large",
        f"the body has more than {most:,} bytes",
        then="Send less; large files are better passed by reference.",
        headers=_CLOSE,
    )


class _Replayed:
    """The body as one message, then the messages of the server."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


def depth_of(body: bytes, most: int) -> int:
    """Return how deep the arrays and objects of a JSON body are nested.

    Counting ends once the depth is more than `most`.

    Args:
        body: The body. If it is not JSON, the result is the depth of its brackets.
        most: The depth at which counting ends.
    """
    scan = _Scan(most)
    for chunk in _chunks(body):
        scan.add(chunk)
    return scan.deepest


class _Scan:
    """Counts what a JSON body has outside its strings.

    It takes the body in the pieces of `_chunks`.

    Args:
        most: The depth at which counting ends.
    """

    def __init__(self, most: int) -> None:
        self.objects = 0
        """Objects so far."""
        self.commas = 0
        """Commas so far."""
        self.deepest = 0
        """The depth so far."""
        self._most = most
        self._depth = 0
        self._is_in_text = 0

    def add(self, chunk: bytes) -> None:
        """Count a piece.

        The text after a quote without its end is part of a string.
        """
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
    """Check that a body is in UTF-8, as JSON between programs is (RFC 8259).

    Python reads other encodings too.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        is_text = False
    else:
        is_text = json.detect_encoding(body) in ("utf-8", "utf-8-sig")
    if not is_text:
        raise Problem(400, "bad_encoding", "the body is not in UTF-8", then="Send JSON in UTF-8.")


async def _check_json(body: bytes, max_depth: int) -> int:
    """Check the depth and the number of values of a body.

    Returns the most objects that it can have. The check ends with the first piece that is too much,
    and yields to the event loop between two pieces.

    Raises:
        Problem: The body is too deep (400), or has too many values (413).
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
    """Check that no name occurs twice in an object of JSON.

    The check does not depend on which route reads the body.

    Raises:
        Problem: A name occurs twice (400).
    """
    if len(body) < LONG:
        name = duplicate_name(body)
    else:
        name = await asyncio.to_thread(duplicate_name, body)
    if name is not None:
        raise Problem(400, "duplicate_name", name_given_twice(name), then="Send each name once.")
