"""What the locks read of a request, and how they refuse one."""

import asyncio

from starlette.types import Message, Receive, Scope, Send

from sojourn.http.problems import Problem, shaped

__all__ = ["SITE", "header_values", "path_of", "refuse"]

SITE = "sojourn.site"
"""Where the scope of a request for a page has the `Site` that it is of."""

DRAIN_BYTES = 64_000_000
"""Most bytes that are read and dropped after a refusal."""

DRAIN_SECONDS = 10.0
"""Longest time for that."""

DRAIN_PAUSE = 1.0
"""Longest time without a byte of it."""


def header_values(scope: Scope, name: str) -> list[str]:
    """The values of a request's header, in their order; the name is in lower case."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def path_of(scope: Scope) -> str:
    """The path of a request within the application, wherever that is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root + "/") else path


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a problem, and with nothing else.

    A connection that is closed while its client still sends is reset, and the client loses the answer. So what a client still
    sends is read and dropped after the answer, within bounds, before the connection is closed.
    """
    answer = shaped(problem, scope)
    closes = "close" in answer.headers.get("connection", "") or any(
        value.strip().lower() == "close" for value in header_values(scope, "connection")
    )
    if not closes or not _has_body(scope):
        await answer(scope, receive, send)  # the server drops the body of a connection that it keeps
        return

    async def send_then_drain(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await send(message)
            return
        await send({**message, "more_body": True})
        await _drain(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    await answer(scope, receive, send_then_drain)


def _has_body(scope: Scope) -> bool:
    return bool(header_values(scope, "content-length") or header_values(scope, "transfer-encoding"))


async def _drain(receive: Receive) -> None:
    """Read and drop a body until it ends, its client leaves or pauses, or a bound is reached."""
    size = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while size < DRAIN_BYTES:
                async with asyncio.timeout(DRAIN_PAUSE):
                    message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                size += len(message.get("body", b""))
    except TimeoutError:
        return
